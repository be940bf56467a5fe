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

// Parts of aggregated tables that wait, in one segment, until their clock is complete. The parts of all
// workers for a clock are kept and folded into one record when every worker has ticked past the clock.
//
// Soft state of the primary, not part of the log. None of it was acknowledged, so after a change of primary
// the clients send lost parts again. This class checks nothing: the primary decides whether a part may be
// staged. It borrows no memory: Update::owner holds a part's buffers.
//
// Single owner, no locks.
class Staging {
 public:
  // Bytes that a part counts in the budget beside its keys and values, so that no part is free.
  static constexpr uint64_t kPartBytes = 128;
  // Streams remembered for acknowledging one session's parts. The newest is the live one, as far as the shard
  // can tell; a frame of an older stream may still be handled after it.
  static constexpr size_t kSinksMax = 4;

  static uint64_t BytesOf(const Update& update);
  // The most bytes by which a part of rows of `dim` values makes the fold of its clock larger: each row has
  // its key there.
  static uint64_t FoldedBytesOf(const Update& update, uint32_t dim);

  // Stages the next part of its session's line; with `count` 0 only its number, and `table` is ignored.
  // REQUIRES: the number follows Last(), or is the session's first here; the clock is not below LastClock().
  void Put(JobId job, const Update& update, std::shared_ptr<const TableInfo> table);
  // `sink` will be told when the session's parts are folded. Does nothing if the session has none here.
  void Tell(SessionId session, std::shared_ptr<AckSink> sink);

  // The number and the clock of a session's last part. 0 if there is none.
  PartNumber Last(SessionId session) const;
  Clock LastClock(SessionId session) const;
  // The smallest clock among the job's parts.
  std::optional<Clock> Oldest(JobId job) const;
  // Bytes of the parts of one clock of the job, and of all parts, as BytesOf counts.
  uint64_t bytes(JobId job, Clock clock) const;
  uint64_t bytes() const { return bytes_; }
  // The most bytes that each table may have in the fold of the clock, as FoldedBytesOf counts.
  std::map<TableId, uint64_t> folded_bytes(JobId job, Clock clock) const;

  // A complete clock, taken out of the staging area.
  struct Complete {
    Fold record;
    uint64_t bytes = 0;  // no longer staged
    // For each of record.numbers, the sinks to tell.
    std::vector<std::vector<std::shared_ptr<AckSink>>> sinks;
  };
  // Folds the parts of `clock`. For each key the rows are added up in f32: workers by rank and then by
  // session, each worker's parts by number, the keys of a part in their order. If the table has `mean` the
  // sum is then divided by the number of members of that clock. Every occurrence of a key counts.
  Complete Take(JobId job, Clock clock, const clock::JobClock& workers);

  // Drops all parts of the session, or of every session; for a table the content of its parts, which stay as
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
    std::map<TableId, uint64_t> folded_bytes;
    std::vector<Part> parts;  // by number, without empty ones
  };
  // The job's parts of the clock, by session.
  template <class Visit>
  void ForEachOf(JobId job, Clock clock, const Visit& visit) const;

  struct Staged {
    JobId job;
    std::map<Clock, Clocked> clocks;
    std::vector<std::shared_ptr<AckSink>> sinks;  // the newest last
  };

  std::map<SessionId, Staged> sessions_;  // each has parts
  uint64_t bytes_ = 0;
};

}  // namespace paceline::log
