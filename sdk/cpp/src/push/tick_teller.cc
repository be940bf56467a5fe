#include "sdk/cpp/src/push/tick_teller.h"

#include <string>
#include <utility>

#include "libs/wire/packed.h"

namespace paceline::sdk {
namespace {

// Appends seals, those of neighbours with equal numbers as one run.
class SealPacker {
 public:
  explicit SealPacker(std::string& out) : out_(out) {}
  ~SealPacker() { Flush(); }

  void Add(SegmentId segment, Line line, PartNumber number) {
    const bool goes_on = run_.has_value() && run_->line == line && run_->number == number &&
                         run_->segment.v + run_->run == segment.v;
    if (goes_on) {
      ++run_->run;
      return;
    }
    Flush();
    run_ = wire::Seal{.segment = segment, .run = 1, .line = line, .number = number};
  }

 private:
  void Flush() {
    if (run_.has_value()) wire::Append(*run_, out_);
  }

  std::string& out_;
  std::optional<wire::Seal> run_;
};

}  // namespace

void TickTeller::SetSegments(absl::Span<const SegmentId> segments) {
  absl::btree_map<SegmentId, Named> now;
  for (SegmentId segment : segments) {
    const auto known = segments_.find(segment);
    if (known != segments_.end()) {
      now.insert(*known);
    } else {
      now.try_emplace(segment);
      incomplete_ = true;
    }
  }
  for (const auto& [segment, named] : segments_) {
    if (named.told && !now.contains(segment)) anew_ = true;
  }
  segments_ = std::move(now);
  if (!anew_) return;
  for (auto& [segment, named] : segments_) named.named = false;
}

void TickTeller::NewStream() {
  told_.reset();
  answered_ = false;
  for (auto& [segment, named] : segments_) named.told = false;
  ForgetAll();
}

void TickTeller::Forget(SegmentId segment) {
  const auto it = segments_.find(segment);
  if (it == segments_.end()) return;
  it->second.named = false;
  incomplete_ = true;
}

void TickTeller::ForgetAll() {
  for (auto& [segment, named] : segments_) named.named = false;
  incomplete_ = true;
  asked_again_ = false;
  anew_ = told_.has_value();  // the tick may have been the one that said it
}

bool TickTeller::Due(Clock clock) const {
  if (!told_.has_value() || clock > *told_) return true;
  return incomplete_ && clock == *told_;
}

v1::Tick TickTeller::Tell(Clock clock, SealedAt sealed) {
  if (told_ != clock) asked_again_ = false;
  v1::Tick tick;
  tick.set_clock(clock);
  tick.set_anew(std::exchange(anew_, false));
  for (const Line line : {Line::kArrival, Line::kAggregated}) {
    const size_t l = static_cast<size_t>(line) - 1;
    SealPacker packer(*tick.mutable_seals());
    for (auto& [segment, named] : segments_) {
      const PartNumber number = sealed(segment, line, clock);
      if (named.named && named.numbers[l] == number) continue;
      named.numbers[l] = number;
      packer.Add(segment, line, number);
    }
  }
  for (auto& [segment, named] : segments_) named.named = named.told = true;
  told_ = clock;
  answered_ = false;
  incomplete_ = false;
  return tick;
}

bool TickTeller::OnAck(Clock clock, absl::Span<const SegmentId> unspoken) {
  if (!told_.has_value() || clock < *told_) return false;  // a later tick is under way and answered too
  answered_ = true;
  if (unspoken.empty()) return false;
  answered_ = false;
  for (SegmentId segment : unspoken) {
    // The shard's map may be newer than the client's: the next tick names the segment it asks for, known or
    // not.
    segments_[segment].named = false;
  }
  if (asked_again_) return false;
  asked_again_ = true;
  incomplete_ = true;
  return true;
}

}  // namespace paceline::sdk
