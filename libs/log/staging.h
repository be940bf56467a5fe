#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "libs/base/ids.h"
#include "libs/clock/job_clock.h"
#include "libs/log/record.h"

namespace paceline::log {

class AckSink;

// Parts of aggregated tables that wait until their clock is complete, in one segment. A worker's updates of a
// clock are kept beside those of the others and folded into one record when all have ticked past it.
//
// Soft state of the primary: it is no part of the log, and what a change of primary loses its clients send
// again, for none of it was acknowledged. It judges nothing: whether a part may be staged is the primary's
// decision. It borrows no memory: a part's buffers are held by its Update::owner.
//
// Single owner, no locks.
class Staging {
 public:
  // What a part counts in a budget beside its keys and values: no part costs nothing.
  static constexpr uint64_t kPartBytes = 128;
  // Streams that are remembered for the acknowledgement of one session's parts. The newest is the one that
  // lives, as far as the shard can tell: a frame of an older one may be handled last.
  static constexpr size_t kSinksMax = 4;

  static uint64_t BytesOf(const Update& update);

  // Stages the next part of its session's line; with `count` 0 only its number. `table` is not looked at
  // then. REQUIRES: the number follows Last(), or is the first; the clock is not below LastClock().
  void Put(JobId job, const Update& update, std::shared_ptr<const TableInfo> table);
  // `sink` is told when the session's parts are folded. Nothing happens if it has none here.
  void Tell(SessionId session, std::shared_ptr<AckSink> sink);

  // Of a session's parts: the last number and its clock. 0 if there is none.
  PartNumber Last(SessionId session) const;
  Clock LastClock(SessionId session) const;
  // The smallest clock of the job's parts.
  std::optional<Clock> Oldest(JobId job) const;
  // Of the parts of one clock of the job, and of all that is here, as BytesOf counts.
  uint64_t bytes(JobId job, Clock clock) const;
  uint64_t bytes() const { return bytes_; }

  // A clock that is complete, taken out.
  struct Complete {
    Fold record;
    uint64_t bytes = 0;  // no longer staged
    // Whom to tell of each of record.numbers.
    std::vector<std::vector<std::shared_ptr<AckSink>>> sinks;
  };
  // Folds the parts of `clock`. For each key the rows are added up in f32, workers by their rank and then
  // their session, each worker's parts by their number and its keys as they come; with the table's `mean`
  // the sum is then divided by the number of members of that clock. Every occurrence of a key counts.
  Complete Take(JobId job, Clock clock, const clock::JobClock& workers);

  // Drops all that is here of the session, or of everyone; of a table what the parts hold, which go on as
  // empty ones. Returns the bytes no longer staged.
  uint64_t Drop(SessionId session);
  uint64_t Drop(TableId table);
  uint64_t Clear();

 private:
  struct Part {
    Update update;
    std::shared_ptr<const TableInfo> table;
  };
  struct Clocked {
    PartNumber last = 0;
    uint64_t bytes = 0;
    std::vector<Part> parts;  // by number; those that are not empty
  };
  struct Session {
    JobId job;
    std::map<Clock, Clocked> clocks;
    std::vector<std::shared_ptr<AckSink>> sinks;  // the newest last
  };

  std::map<SessionId, Session> sessions_;  // none without parts
  uint64_t bytes_ = 0;
};

}  // namespace paceline::log
