#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "libs/snapshot/files.h"
#include "services/coordinator/core_host.h"
#include "services/coordinator/metadata/snapshots/snapshot_files.h"

namespace paceline::coordinator {

// A thread that reads and writes manifests, so that a volume that hangs holds up nothing else. Thread-safe.
class SnapshotDesk final : public SnapshotFiles {
 public:
  // `host` must outlive this object.
  SnapshotDesk(CoreHost& host, std::shared_ptr<snapshot::Files> files);
  // Calls Stop.
  ~SnapshotDesk() override;

  void Run(std::function<void(snapshot::Files&)> task, std::function<void()> done) override;
  int64_t UnixSeconds() const override;
  // Returns when the task under way has ended; begins no other.
  void Stop();

 private:
  using Errand = std::pair<std::function<void(snapshot::Files&)>, std::function<void()>>;
  void Loop();

  CoreHost& host_;
  const std::shared_ptr<snapshot::Files> files_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Errand> errands_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace paceline::coordinator
