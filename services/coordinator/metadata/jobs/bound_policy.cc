#include "services/coordinator/metadata/jobs/bound_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace paceline::coordinator {
namespace {

constexpr double kMuch = 0.05;      // a share of which something is to be done
constexpr double kLittle = 0.01;    // … of which there is nothing to fear
constexpr double kTooLow = 0.025;   // … at a bound that was lowered for a try
constexpr double kSaved = 0.1;      // of the share, by a step that was worth it
constexpr double kOneWorker = 0.6;  // of the waits: they are for one worker
constexpr double kCheap = 0.04;  // of the time, for which a smaller bound and its fresher values are chosen
constexpr uint32_t kStep = 2;
constexpr uint32_t kCalmPeriods = 8;
constexpr uint32_t kPauseMax = 64;

uint64_t Apart(uint32_t a, uint32_t b) {
  return a < b ? b - a : a - b;
}

// The largest share that is as good as `share`, if the bound is smaller.
double Enough(double share) {
  return share + std::max(kCheap, kSaved * share);
}

double ShareOf(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void BoundPolicy::Pause::Failed() {
  left = next;
  next = std::min(2 * next, kPauseMax);
}

std::optional<uint32_t> BoundPolicy::Next(InForce now, uint32_t max, absl::Span<const Waits> workers) {
  if (proposed_.has_value() && now.bound != *proposed_ && bound_ == now.bound) return proposed_;
  if (bound_ != now.bound) {
    if (proposed_ != now.bound) Restart();  // somebody else has set it, or this is the first call
    settling_ = bound_.has_value();
    if (settling_)
      length_ = {.us = kPeriod.us, .clocks = std::max(kPeriod.clocks, Apart(now.bound, *bound_))};
    bound_ = now.bound;
    proposed_.reset();
    began_.clear();
  }
  const auto there = [&](const Waits& worker) { return worker.clock >= now.from; };
  if (workers.size() < 2 || !std::ranges::all_of(workers, there)) {
    began_.clear();
    return std::nullopt;
  }
  const auto known = [this](const Waits& worker) { return began_.contains(worker.session); };
  if (began_.size() != workers.size() || !std::ranges::all_of(workers, known)) {
    Begin(workers);
    return std::nullopt;
  }
  if (!IsOver(workers)) return std::nullopt;
  const Period period = Ended(workers);
  Begin(workers);
  length_ = kPeriod;
  if (std::exchange(settling_, false)) return std::nullopt;
  const uint32_t chosen = Judge(now.bound, max, period);
  if (chosen == now.bound) return std::nullopt;
  proposed_ = chosen;
  return proposed_;
}

bool BoundPolicy::IsOver(absl::Span<const Waits> workers) const {
  return std::ranges::all_of(workers, [this](const Waits& worker) {
    const Waits& began = began_.at(worker.session);
    return worker.all_us >= began.all_us + length_.us && worker.clock >= began.clock + length_.clocks;
  });
}

BoundPolicy::Period BoundPolicy::Ended(absl::Span<const Waits> workers) const {
  std::vector<double> shares;
  std::map<uint32_t, uint64_t> for_us;
  uint64_t all_for_us = 0;
  for (const Waits& worker : workers) {
    const Waits& began = began_.at(worker.session);
    shares.push_back(ShareOf(worker.staleness_us - std::min(worker.staleness_us, began.staleness_us),
                             worker.all_us - began.all_us));
    for (const auto& [rank, us] : worker.for_us) {
      const auto then = began.for_us.find(rank);
      const uint64_t before = then == began.for_us.end() ? 0 : then->second;
      for_us[rank] += us - std::min(us, before);
      all_for_us += us - std::min(us, before);
    }
  }
  const auto median = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::ranges::nth_element(shares, median);
  Period period{.share = *median, .lead = std::nullopt};
  for (const auto& [rank, us] : for_us) {
    if (ShareOf(us, all_for_us) >= kOneWorker) period.lead = rank;
  }
  return period;
}

void BoundPolicy::Begin(absl::Span<const Waits> workers) {
  began_.clear();
  for (const Waits& worker : workers) began_[worker.session] = worker;
}

void BoundPolicy::Restart() {
  doing_ = Doing::kHold;
  tried_.clear();
  calm_ = 0;
  up_.Worked();
  down_.Worked();
}

uint32_t BoundPolicy::Judge(uint32_t bound, uint32_t max, const Period& period) {
  switch (doing_) {
    case Doing::kClimb:
      return Climb(bound, max, period);
    case Doing::kDescend:
      return Descend(bound, period);
    case Doing::kTryLower:
      return TryLower(bound, max, period);
    case Doing::kHold:
      break;
  }
  return Hold(bound, max, period);
}

uint32_t BoundPolicy::Hold(uint32_t bound, uint32_t max, const Period& period) {
  calm_ = period.share < kLittle ? calm_ + 1 : 0;
  up_.Passed();
  down_.Passed();
  if (period.share >= kMuch && bound < max && up_.left == 0) {
    doing_ = Doing::kClimb;
    tried_ = {{bound, period}};
    before_ = bound;
    return std::min(max, kStep * bound);
  }
  if (calm_ < kCalmPeriods || bound == 1 || down_.left > 0) return bound;
  doing_ = Doing::kTryLower;
  calm_ = 0;
  before_ = bound;
  return bound - std::max<uint32_t>(1, bound / 4);
}

uint32_t BoundPolicy::Climb(uint32_t bound, uint32_t max, const Period& period) {
  const Period& before = tried_.at(before_);
  const bool saved = period.share < (1 - kSaved) * before.share;
  const bool steady = period.lead.has_value() && period.lead == before.lead;
  tried_[bound] = period;
  if (steady && !saved) {
    doing_ = Doing::kDescend;
    before_ = tried_.begin()->first;
    return before_ == 1 ? Settle() : before_ / kStep;
  }
  if (period.share < kMuch || bound >= max) return Settle();
  before_ = bound;
  return std::min(max, kStep * bound);
}

uint32_t BoundPolicy::Descend(uint32_t bound, const Period& period) {
  const bool longer = period.share > Enough(tried_.at(before_).share);
  tried_[bound] = period;
  if (longer || bound == 1) return Settle();
  before_ = bound;
  return bound / kStep;
}

uint32_t BoundPolicy::Settle() {
  doing_ = Doing::kHold;
  calm_ = 0;
  double least = 1;
  for (const auto& [bound, period] : tried_) least = std::min(least, period.share);
  const double enough = Enough(least);
  for (const auto& [bound, period] : tried_) {
    if (period.share > enough) continue;
    period.share >= kMuch ? up_.Failed() : up_.Worked();
    return bound;
  }
  return tried_.rbegin()->first;  // not reached: the one with the least share is good enough
}

uint32_t BoundPolicy::TryLower(uint32_t bound, uint32_t max, const Period& period) {
  doing_ = Doing::kHold;
  calm_ = 0;
  if (period.share < kTooLow) {
    down_.Worked();
    return bound;
  }
  down_.Failed();
  return std::min(before_, max);
}

}  // namespace paceline::coordinator
