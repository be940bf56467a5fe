#include "services/coordinator/snapshot_desk.h"

#include "libs/world/wall_clock.h"

namespace paceline::coordinator {

SnapshotDesk::SnapshotDesk(CoreHost& host, std::shared_ptr<snapshot::Files> files)
    : host_(host), files_(std::move(files)), thread_([this] { Loop(); }) {}

SnapshotDesk::~SnapshotDesk() {
  Stop();
}

void SnapshotDesk::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SnapshotDesk::Run(std::function<void(snapshot::Files&)> task, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    errands_.emplace_back(std::move(task), std::move(done));
  }
  changed_.notify_all();
}

int64_t SnapshotDesk::UnixSeconds() const {
  return absl::ToUnixSeconds(world::WallClock());
}

void SnapshotDesk::Loop() {
  while (true) {
    Errand errand;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !errands_.empty(); });
      if (stop_) return;
      errand = std::move(errands_.front());
      errands_.pop_front();
    }
    errand.first(*files_);
    host_.Visit([&](Candidate&) { errand.second(); });
  }
}

}  // namespace paceline::coordinator
