#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/ids.h"
#include "libs/clock/job_clock.h"
#include "libs/log/record.h"
#include "libs/log/segment.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::log {

// Knows of a primary's sessions what is not in its log: last ticks that cannot be written yet, and for people
// why sessions were closed. Judges the coordinator's changes of sessions; the primary writes the records.
// Soft state. Single owner, no locks.
class SessionChanges {
 public:
  // Reasons kept; at the limit all are forgotten.
  static constexpr size_t kReasonsMax = 1024;

  // The segment's data was given up for lost: a session that is neither known nor closed here has lost its
  // parts.
  void BeganEmpty() { began_empty_ = true; }

  // The record that opens, joins or evicts a session. nullopt: that has happened already.
  // FAILED_PRECONDITION: it may not happen; a refused join sets `passed` to the min clock that has already
  // passed its start. REQUIRES: it is one of the three, and not late.
  absl::StatusOr<std::optional<Record>> Judge(const v1::Change& change, Segment& segment,
                                              std::optional<Clock>* passed);

  // The worker's last tick, `clock`, is written as soon as the parts that it seals are applied.
  void Finishes(SessionId session, Clock clock, const clock::LineCounts& seals);
  // One last tick of the job that may be written now.
  std::optional<Finish> TakeFinish(JobId job, Segment& segment);

  // Refuses a session that is not open: FENCED, or DATA_LOSS if it was closed for that reason, or will be as
  // soon as the coordinator's call arrives. `advice` ends the message.
  v1::Refusal NotOpen(SessionId session, JobId job, const Segment& segment, absl::string_view advice) const;

 private:
  struct LastTick {
    Clock clock = 0;
    clock::LineCounts seals;
  };
  struct Eviction {
    std::string reason;
    bool data_lost = false;
  };

  bool began_empty_ = false;
  std::map<SessionId, LastTick> finishing_;
  absl::flat_hash_map<SessionId, Eviction> evictions_;
};

}  // namespace paceline::log
