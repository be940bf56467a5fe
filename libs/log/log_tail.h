#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/strings/cord.h"
#include "libs/base/ids.h"

namespace paceline::log {

// A position in a log: the last record, and the epoch in which it was written. Of two logs of one segment the
// one with the larger epoch, then the larger LSN, is more advanced. Two logs that agree in both agree in all
// earlier records.
struct LogPosition {
  Epoch epoch;
  Lsn lsn;
  friend auto operator<=>(const LogPosition&, const LogPosition&) = default;
};

// The newest records of a segment's log, encoded, for members that are behind. It keeps the records after
// `base` up to `end`. Plain value; holds the records' memory.
class LogTail {
 public:
  // Nothing is kept; the log stands at `position`.
  explicit LogTail(LogPosition position) : base_(position), end_(position) {}

  // The next record, written in `epoch`. `record` is as EncodeRecord makes it.
  void Append(Epoch epoch, absl::Cord record);
  // The next record is not kept; the records before it are dropped.
  void Skip(Epoch epoch);

  const LogPosition& base() const { return base_; }
  const LogPosition& end() const { return end_; }
  uint64_t bytes() const { return bytes_; }
  // Bytes of the kept records after `after`. O(their number).
  uint64_t BytesAfter(Lsn after) const;

  // The epoch in which the record `lsn` was written; nullopt: not known any more, or not written yet.
  std::optional<Epoch> EpochAt(Lsn lsn) const;
  // True if the log agrees with `position` and all records after it are kept.
  bool Continues(const LogPosition& position) const;

  // Gathers the records after `after`, at least one, up to about `bytes_max`, in the length-prefixed wire
  // form (AppendRecord). Returns how many. REQUIRES: EpochAt(after) is known, after < end().lsn.
  uint32_t Gather(Lsn after, uint64_t bytes_max, absl::Cord* body) const;

  // Drops records up to `lsn`, the oldest first, but keeps the newest `bytes_kept` bytes. Does not go beyond
  // `end`.
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
