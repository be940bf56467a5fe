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
  part.number = last() + 1;
  part.urgency = part.priority;
  part.frame = 0;
  if (seals_.empty() || seals_.back().clock < part.clock) seals_.push_back({.clock = part.clock});
  seals_.back().last = part.number;
  // Parts that must go before an urgent part are as urgent.
  for (size_t i = parts_.size(); i > sent_ && parts_[i - 1].urgency < part.urgency; --i) {
    parts_[i - 1].urgency = part.urgency;
  }
  parts_.push_back(std::move(part));
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
    part.urgency = part.priority;
    const bool again = part.filtered && Planted(Bug::kFilteredTwice);
    if (again && part.batch != nullptr) part.batch = FilteredAgain(part);
    if (sent_ < parts_.size()) part.urgency = std::max(part.urgency, parts_[sent_].urgency);
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
