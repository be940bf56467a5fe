#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/strings/cord.h"
#include "libs/base/ids.h"

namespace paceline::log {

// Where a log stands: the last record, and the epoch in which it was written. Of two logs of one segment the
// one with the larger epoch, then the larger LSN, is more advanced; two that agree in both agree in all
// before.
struct LogPosition {
  Epoch epoch;
  Lsn lsn;
  friend auto operator<=>(const LogPosition&, const LogPosition&) = default;
};

// The newest records of a segment's log, as they travel: what members that are behind can be sent. Records
// are kept from `base` (excluded) to `end`. Plain value; holds the records' memory.
class LogTail {
 public:
  // Nothing is kept; the log stands at `position`.
  explicit LogTail(LogPosition position) : base_(position), end_(position) {}

  // The next record, written in `epoch`. `record` is as EncodeRecord makes it.
  void Append(Epoch epoch, absl::Cord record);
  // The next record is not kept, nor any before it.
  void Skip(Epoch epoch);

  const LogPosition& base() const { return base_; }
  const LogPosition& end() const { return end_; }
  uint64_t bytes() const { return bytes_; }
  // Of the records after `after` that are kept. O(their number).
  uint64_t BytesAfter(Lsn after) const;

  // The epoch in which the record `lsn` was written; nullopt: not known here any more, or not written yet.
  std::optional<Epoch> EpochAt(Lsn lsn) const;
  // True: what follows `position` is here, and the log holds exactly that up to it.
  bool Continues(const LogPosition& position) const;

  // The records after `after`, at least one, up to about `bytes_max`, length-prefixed as they travel
  // (AppendRecord). Returns how many. REQUIRES: EpochAt(after) is known, after < end().lsn.
  uint32_t Gather(Lsn after, uint64_t bytes_max, absl::Cord* body) const;

  // Forgets records up to `lsn`, the oldest first, but keeps `bytes_kept` if there are so many; those beyond
  // `end` are not meant.
  void CutTo(Lsn lsn, uint64_t bytes_kept = 0);

 private:
  struct Entry {
    Epoch epoch;
    absl::Cord record;
  };

  LogPosition base_;
  LogPosition end_;
  std::deque<Entry> entries_;
  uint64_t bytes_ = 0;
};

}  // namespace paceline::log
