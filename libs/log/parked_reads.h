#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/log/requests.h"
#include "libs/log/segment.h"

namespace paceline::log {

// Reads that wait at the primary until the clocks allow their answer, in the order of their arrival. Answers
// may not call back into this object. Single owner, no locks; time is passed in.
class ParkedReads {
 public:
  // Reads parked at one time.
  static constexpr size_t kMax = 4096;
  // A read that waits this long for its reader's own part is refused, with the number that is expected.
  static constexpr absl::Duration kOwnPartMax = absl::Seconds(1);

  size_t size() const { return reads_.size(); }
  // Visits the reads that are still wanted.
  void ForEach(absl::FunctionRef<void(const Read&)> visit) const;

  // True if another read may be parked. At the limit cancelled reads make room.
  bool HasRoom();
  // `wait` names the cause, and the worker that it waits for.
  void Park(Read read, absl::Time now, Wait wait);

  // Calls `answered` for each read, with how long it has waited, and forgets those for which it returns true:
  // these have been answered. Forgets cancelled ones.
  void Wake(absl::Time now, absl::FunctionRef<bool(const Read&, const Wait&)> answered);
  // Refuses the reads whose deadline has passed; `wait_of` names the worker that a read waits for. Forgets
  // cancelled ones.
  void OnTime(absl::Time now, const Segment& segment, absl::FunctionRef<Wait(const Read&)> wait_of);
  // Refuses the reads of tables that were dropped.
  void RefuseDropped(const Segment& segment);
  // Refuses every read.
  void RefuseAll(const v1::Refusal& refusal);

 private:
  struct Parked {
    Read read;
    absl::Time since;
    Wait wait;
  };

  // Forgets the reads that are cancelled or `done`.
  void Sweep(absl::FunctionRef<bool(Parked&)> done);
  static absl::Time Until(const Parked& parked, const Segment& segment);

  std::vector<Parked> reads_;
};

// True if the reader's own part is not applied yet.
bool LacksOwnPart(const Read& read, const Segment& segment);

}  // namespace paceline::log
