#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "paceline/v1/coordinator.grpc.pb.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// A shard's place in the cluster: joins it, says every second that it lives and how it is, and fetches the
// list of tables when a frame names a newer one. Has one thread. Goes on trying while the coordinator is
// away: training does not need it.
class Membership {
 public:
  // Called once, from the membership's thread, when this start of the shard was superseded by a newer one or
  // may not join: the process should end.
  using Superseded = std::function<void(absl::Status)>;

  // `shard` must outlive this.
  Membership(Shard& shard, const std::string& coordinator, v1::JoinClusterRequest join,
             Superseded superseded);
  // Stops and joins the thread.
  ~Membership();

 private:
  void Run();
  absl::Status Join();
  absl::Status Beat();
  void FetchCatalogue();
  // Sleeps until `until`, the end, or a wanted catalogue. False: it is the end.
  bool Pause(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_);

  Shard& shard_;
  const std::string coordinator_;
  const v1::JoinClusterRequest join_;
  const Superseded superseded_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;

  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool catalogue_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace paceline::shard
