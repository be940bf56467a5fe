#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/log/record.h"
#include "libs/log/segment.h"
#include "libs/log/shard_side.h"
#include "libs/log/snapshots.h"
#include "libs/table/table_copy.h"

namespace paceline::log {

// The cuts of a segment's jobs at the primary (docs/snapshots.md): those that are to be logged, and of each
// job the last one that was, with a copy of its rows. Soft state: the coordinator repeats its request. The
// primary writes the records. Single owner, no locks; time is passed in.
class Cuts {
 public:
  // A wish for a cut expires if it is not repeated for kAskedMax; a cut's rows are kept for kKeptMax.
  static constexpr absl::Duration kAskedMax = absl::Seconds(5);
  static constexpr absl::Duration kKeptMax = absl::Seconds(30);

  // Copies take their rows' memory from `memory`.
  explicit Cuts(std::shared_ptr<RowMemory> memory) : memory_(std::move(memory)) {}

  // The coordinator asks for a cut. OK: it is logged, or noted as to be logged.
  //   OUT_OF_RANGE  the clock has passed here; `passed` is set to the largest clock there is
  absl::Status Wish(const CutWish& wish, const Segment& segment, absl::Time now,
                    std::optional<Clock>* passed);
  // The clock that the job's min clock may not pass before the cut is logged.
  std::optional<Clock> ClockOf(JobId job) const;
  // True if the update has to wait until the cut is logged.
  bool Awaits(const Update& update, JobId job, const Segment& segment) const;
  // The record of the wished cut, if it is due: the caller logs it, and then calls Logged.
  std::optional<Cut> TakeDue(JobId job, const Segment& segment);
  // Begins the copy of the rows. REQUIRES: `cut` is the last record that `segment` has applied.
  void Logged(const Cut& cut, Epoch epoch, absl::Time now, Segment& segment);

  // As Primary::TakeCut and NextOfCut.
  std::optional<CutCopy> Take(JobId job, uint64_t id, Epoch epoch, absl::Time now, Segment& segment);
  absl::StatusOr<bool> Next(JobId job, uint64_t id, Segment& segment, table::CopiedRows* out);

  bool empty() const { return wished_.empty() && copies_.empty(); }
  // Forgets wishes and copies that nobody has asked for lately.
  void OnTime(absl::Time now, Segment& segment);
  // The job was closed.
  void Forget(JobId job);
  // Ends all copies.
  void End(Segment& segment);

 private:
  struct Wished {
    CutWish wish;
    absl::Time asked;
  };
  struct Kept {
    CutCopy copy;
    absl::Time asked;
    bool taken = false;
  };

  std::shared_ptr<RowMemory> memory_;
  std::map<JobId, Wished> wished_;
  std::map<JobId, Kept> copies_;
};

}  // namespace paceline::log
