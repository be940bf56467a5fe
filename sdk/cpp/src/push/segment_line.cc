#include "sdk/cpp/src/push/segment_line.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libs/base/planted.h"

namespace paceline::sdk {
namespace {

// What a filter that looks at a resend too would leave of the part: it holds back the first row.
std::shared_ptr<const Batch> FilteredAgain(const Part& part) {
  const Batch& once = *part.batch;
  auto again = std::make_shared<Batch>(once);
  again->values = AllocateFresh(once.rows * once.RowBytes());
  std::memcpy(again->values.get(), once.values.get(), once.rows * once.RowBytes());
  std::memset(again->values.get() + part.Content()->first_row * once.RowBytes(), 0, once.RowBytes());
  return again;
}

}  // namespace

void SegmentLine::Append(Part part) {
  const uint32_t priority = part.priority;
  part.frame = 0;
  part.number = 0;
  if (part.late) {
    part.urgency = priority;
    late_.emplace(priority, std::move(part));
    return Lend(parts_.size(), priority);
  }
  Number(std::move(part));
}

void SegmentLine::Number(Part part) {
  part.number = last() + 1;
  if (seals_.empty() || seals_.back().clock < part.clock) seals_.push_back({.clock = part.clock});
  seals_.back().last = part.number;
  last_of_[part.table] = part.number;
  part.urgency = std::min(part.priority, UrgencyFrom(parts_.size()));
  const uint32_t urgency = part.urgency;
  parts_.push_back(std::move(part));
  Lend(parts_.size() - 1, urgency);
}

const Part& SegmentLine::NumberFirst() {
  Number(std::move(late_.extract(late_.begin()).mapped()));
  return parts_.back();
}

uint32_t SegmentLine::UrgencyFrom(size_t end) const {
  if (end < parts_.size()) return parts_[end].urgency;
  return late_.empty() ? UINT32_MAX : late_.begin()->first;
}

void SegmentLine::Lend(size_t end, uint32_t urgency) {
  for (size_t i = end; i > sent_ && parts_[i - 1].urgency > urgency; --i) parts_[i - 1].urgency = urgency;
}

std::optional<PartNumber> SegmentLine::LastOf(TableId table, uint64_t push) const {
  for (const auto& [priority, part] : late_) {
    if (part.table == table && part.push <= push) return std::nullopt;
  }
  const auto last = last_of_.find(table);
  return last == last_of_.end() ? 0 : last->second;
}

bool SegmentLine::HasLate(TableId table) const {
  return std::ranges::any_of(late_, [table](const auto& late) { return late.second.table == table; });
}

bool SegmentLine::Has(const PushOp& op) const {
  const auto of_it = [&op](const Part& part) { return part.op == &op; };
  return std::any_of(parts_.begin(), parts_.end(), of_it) ||
         std::any_of(late_.begin(), late_.end(), [&](const auto& entry) { return of_it(entry.second); });
}

void SegmentLine::ForgetLateNumbers() {
  while (!parts_.empty() && parts_.back().late) {
    Part part = std::move(parts_.back());
    parts_.pop_back();
    sent_ = std::min(sent_, parts_.size());
    if (seals_.back().last == part.number) --seals_.back().last;
    part.number = 0;
    part.frame = 0;
    late_.emplace(part.priority, std::move(part));
  }
}

void SegmentLine::Sent(uint64_t frame) {
  Part& part = parts_[sent_++];
  part.frame = frame;
  part.committed = committed_;
}

size_t SegmentLine::Rewind(PartNumber from) {
  const size_t keep = from > committed_ ? std::min<size_t>(from - committed_ - 1, sent_) : 0;
  const size_t rewound = sent_ - keep;
  for (; sent_ > keep; --sent_) {
    Part& part = parts_[sent_ - 1];
    part.frame = 0;
    const bool again = part.filtered && Planted(Bug::kFilteredTwice);
    if (again && part.batch != nullptr) part.batch = FilteredAgain(part);
    part.urgency = std::min(part.priority, UrgencyFrom(sent_));
  }
  return rewound;
}

void SegmentLine::Commit(PartNumber upto, absl::FunctionRef<void(const Part&)> committed) {
  while (committed_ < upto && !parts_.empty()) {
    committed(parts_.front());
    parts_.pop_front();
    ++committed_;
    if (sent_ > 0) --sent_;
  }
}

Part* SegmentLine::Find(PartNumber number) {
  if (number <= committed_ || number > last()) return nullptr;
  return &parts_[number - committed_ - 1];
}

PartNumber SegmentLine::SealedAt(Clock clock) const {
  const auto after = std::lower_bound(seals_.begin(), seals_.end(), clock,
                                      [](const Seal& seal, Clock c) { return seal.clock < c; });
  return after == seals_.begin() ? 0 : std::prev(after)->last;
}

void SegmentLine::ForgetSeals(Clock before) {
  while (seals_.size() >= 2 && seals_[1].clock < before) seals_.pop_front();
}

}  // namespace paceline::sdk
