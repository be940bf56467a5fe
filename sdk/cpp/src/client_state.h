#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "libs/rpc/event_loop.h"
#include "libs/rpc/grpc_dialer.h"
#include "libs/world/random.h"
#include "libs/world/real_clock.h"
#include "paceline/future.h"
#include "paceline/options.h"
#include "sdk/cpp/src/buffer_pool.h"
#include "sdk/cpp/src/client_core.h"
#include "sdk/cpp/src/grpc_coordinator_api.h"

namespace paceline::sdk {

// A client's core in the real world: under one lock, with one thread that drives its connections and its
// timers. What the core leaves to be done runs on the thread that entered, without the lock.
class ClientState : public Gate, public std::enable_shared_from_this<ClientState> {
 public:
  // Opens the session and joins. Blocks.
  static absl::StatusOr<std::shared_ptr<ClientState>> Connect(ClientOptions options);
  ~ClientState() override;

  void Enter(absl::FunctionRef<void()> inside) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs `inside` with the core; false if the client was shut.
  bool With(absl::FunctionRef<void(ClientCore&)> inside);

  // Starts something that ends with a status and waits for it. `waits`: where the time is counted.
  absl::Status Await(absl::FunctionRef<void(ClientCore&, Done)> start, double WaitSeconds::*waits = nullptr);

  // As ClientOptions::unacknowledged_bytes_max says: waits for room for `bytes` more, at most `timeout`.
  absl::Status AwaitRoom(uint64_t bytes, absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Closes the session, ends everything, joins the thread. Once; afterwards every call finds the client gone.
  void Shut();

  Buffer Allocate(size_t bytes) { return pool_->Take(bytes); }
  std::shared_ptr<const Routes> routes();
  const ClientOptions& options() const { return options_; }
  static absl::Status GoneError();

 private:
  explicit ClientState(ClientOptions options);
  absl::Status Open();
  void Run();

  const ClientOptions options_;
  const world::RealClock clock_;
  world::SplitMix64 random_;
  const std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  rpc::EventLoop loop_;
  rpc::GrpcDialer dialer_{loop_};
  GrpcCoordinatorApi coordinator_;

  absl::Mutex mutex_;
  std::unique_ptr<ClientCore> core_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // the core's next deadline
  std::thread thread_;
};

}  // namespace paceline::sdk
