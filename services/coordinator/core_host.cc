#include "services/coordinator/core_host.h"

#include <algorithm>

namespace paceline::coordinator {
namespace {

// The core wants to be asked at least this often (see CoordinatorCore::OnTime).
constexpr absl::Duration kTickMax = absl::Milliseconds(50);
constexpr absl::Duration kTickMin = absl::Milliseconds(1);

}  // namespace

CoreHost::~CoreHost() {
  Stop();
}

absl::Status CoreHost::Start(Options options, Store& store, ShardCaller& caller, Probe& probe) {
  {
    absl::MutexLock lock(&mutex_);
    absl::StatusOr<std::unique_ptr<CoordinatorCore>> core =
        CoordinatorCore::Create(std::move(options), store, clock_, caller, probe);
    if (!core.ok()) return core.status();
    core_ = *std::move(core);
  }
  RunLater();
  time_ = std::thread([this] { PassTime(); });
  return absl::OkStatus();
}

void CoreHost::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (core_ == nullptr || ended_) return;
    ended_ = true;
    earlier_.SignalAll();
  }
  time_.join();
  Visit([](CoordinatorCore& core) { core.Stop(); });
}

void CoreHost::RunLater() {
  std::vector<std::function<void()>> later;
  {
    absl::MutexLock lock(&mutex_);
    later.swap(later_);
  }
  for (const auto& tell : later) tell();
}

void CoreHost::WakeIfEarlier() {
  if (core_->NextDeadline() < waits_until_) earlier_.SignalAll();
}

bool CoreHost::WaitForDeadline() {
  absl::MutexLock lock(&mutex_);
  const absl::Time start = clock_.Now();
  while (!ended_) {
    const absl::Time now = clock_.Now();
    waits_until_ = std::clamp(core_->NextDeadline(), start + kTickMin, start + kTickMax);
    if (waits_until_ <= now) break;
    earlier_.WaitWithTimeout(&mutex_, waits_until_ - now);
  }
  waits_until_ = absl::InfinitePast();
  return !ended_;
}

void CoreHost::PassTime() {
  while (WaitForDeadline()) {
    Visit([](CoordinatorCore& core) { core.OnTime(); });
  }
}

}  // namespace paceline::coordinator
