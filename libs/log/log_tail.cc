#include "libs/log/log_tail.h"

#include <utility>

#include "libs/base/planted.h"
#include "libs/log/record_codec.h"

namespace paceline::log {

void LogTail::Append(Epoch epoch, absl::Cord record) {
  bytes_ += record.size();
  entries_.push_back({.epoch = epoch, .record = std::move(record)});
  end_ = {.epoch = epoch, .lsn = Lsn(end_.lsn.v + 1)};
}

void LogTail::Skip(Epoch epoch) {
  end_ = {.epoch = epoch, .lsn = Lsn(end_.lsn.v + 1)};
  base_ = end_;
  entries_.clear();
  bytes_ = 0;
}

std::optional<Epoch> LogTail::EpochAt(Lsn lsn) const {
  if (lsn < base_.lsn || lsn > end_.lsn) return std::nullopt;
  if (lsn == base_.lsn) return base_.epoch;
  return entries_[lsn.v - base_.lsn.v - 1].epoch;
}

bool LogTail::Continues(const LogPosition& position) const {
  const std::optional<Epoch> epoch = EpochAt(position.lsn);
  return epoch == position.epoch || (epoch.has_value() && Planted(Bug::kDivergedSuffixKept));
}

uint64_t LogTail::BytesAfter(Lsn after) const {
  uint64_t bytes = 0;
  for (size_t i = entries_.size(); i > 0 && base_.lsn.v + i > after.v; --i)
    bytes += entries_[i - 1].record.size();
  return bytes;
}

uint32_t LogTail::Gather(Lsn after, uint64_t bytes_max, absl::Cord* body) const {
  uint32_t count = 0;
  uint64_t bytes = 0;
  for (size_t i = after.v - base_.lsn.v; i < entries_.size(); ++i) {
    const absl::Cord& record = entries_[i].record;
    if (count > 0 && bytes + record.size() > bytes_max) break;
    AppendRecord(record, body);
    bytes += record.size();
    ++count;
  }
  return count;
}

void LogTail::CutTo(Lsn lsn, uint64_t bytes_kept) {
  while (base_.lsn < lsn && !entries_.empty() && bytes_ > bytes_kept) {
    base_ = {.epoch = entries_.front().epoch, .lsn = Lsn(base_.lsn.v + 1)};
    bytes_ -= entries_.front().record.size();
    entries_.pop_front();
  }
}

}  // namespace paceline::log
