#include "services/coordinator/core_host.h"

#include <algorithm>

#include "libs/base/status.h"

namespace paceline::coordinator {
namespace {

// The core requires at least this frequency (see CoordinatorCore::OnTime).
constexpr absl::Duration kTickMax = absl::Milliseconds(50);
constexpr absl::Duration kTickMin = absl::Milliseconds(1);

}  // namespace

CoreHost::~CoreHost() {
  Stop();
}

absl::Status CoreHost::Start(Options options, Store& store, ShardCaller& caller, Probe& probe,
                             Candidate::OnStepDown on_step_down) {
  {
    const std::lock_guard lock(mutex_);
    auto candidate = std::make_unique<Candidate>(std::move(options), store, clock_, caller, probe,
                                                 std::move(on_step_down));
    ABSL_RETURN_IF_ERROR(candidate->Start());
    candidate_ = std::move(candidate);
  }
  RunLater();
  time_ = std::thread([this] { PassTime(); });
  return absl::OkStatus();
}

void CoreHost::Stop() {
  {
    const std::lock_guard lock(mutex_);
    if (candidate_ == nullptr || ended_) return;
    ended_ = true;
    earlier_.notify_all();
  }
  time_.join();
  Visit([](Candidate& candidate) { candidate.Stop(); });
}

void CoreHost::RunLater() {
  std::vector<std::function<void()>> later;
  {
    const std::lock_guard lock(mutex_);
    later.swap(later_);
  }
  for (const auto& tell : later) tell();
}

void CoreHost::WakeIfEarlier() {
  if (candidate_->NextDeadline() < waits_until_) earlier_.notify_all();
}

bool CoreHost::WaitForDeadline() {
  std::unique_lock lock(mutex_);
  const absl::Time start = clock_.Now();
  while (!ended_) {
    const absl::Time now = clock_.Now();
    waits_until_ = std::clamp(candidate_->NextDeadline(), start + kTickMin, start + kTickMax);
    if (waits_until_ <= now) break;
    earlier_.wait_for(lock, absl::ToChronoNanoseconds(waits_until_ - now));
  }
  waits_until_ = absl::InfinitePast();
  return !ended_;
}

void CoreHost::PassTime() {
  while (WaitForDeadline()) {
    Visit([](Candidate& candidate) { candidate.OnTime(); });
  }
}

}  // namespace paceline::coordinator
