#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/base/spin.h"
#include "libs/carrier/descriptor.h"
#include "libs/carrier/stream.h"
#include "libs/carrier/waker.h"
#include "libs/world/soon.h"

namespace paceline::carrier {

// One thread that carries the frames of some streams, over shared memory and over TCP. Before it sleeps it
// looks at their pipes for a short time, if that has paid lately: to wake a process costs more than all else
// that a small frame needs. Between two looks other threads that want the core get it. While nothing comes it
// sleeps, and uses no CPU.
//
// Another thread that would only wait for a frame may carry frames meanwhile (CarryUntil): it saves both the
// peer and this thread a wake-up.
//
// More than 15 members: two sides, the thread's own and what others leave for it; to part them would hide who
// may touch which.
class Loop {
 public:
  struct Options {
    absl::Duration spin_max = absl::Microseconds(50);  // of the loop's own thread
    absl::Duration carry_spin_max = absl::Microseconds(50);
    std::function<void()> first = nullptr;  // called first on the loop's thread
  };
  explicit Loop(Options options);
  // Calls Stop.
  ~Loop();
  Loop(const Loop&) = delete;

  // False: there were no descriptors for it; it takes no streams.
  bool running() const { return running_; }
  // For the streams of this loop.
  const std::shared_ptr<Waker>& waker() const { return waker_; }

  // Carries the stream's frames from now on, until it has told its handler of the end. False: the loop was
  // stopped, and does not know the stream. Thread-safe, like Give.
  bool Add(std::shared_ptr<Stream> stream) ABSL_LOCKS_EXCLUDED(added_mutex_);
  // The pipe of a stream that was added without one. A stream that is over by then does not need it.
  void Give(std::shared_ptr<Stream> stream, std::unique_ptr<Pipe> pipe) ABSL_LOCKS_EXCLUDED(added_mutex_);

  // Carries frames on this thread until `done()`, which may be called often, or until it seems better to
  // sleep. Handlers, and what they call, run on this thread. REQUIRES: this thread holds no lock that they
  // take, and is in no call of a handler. Thread-safe.
  void CarryUntil(absl::FunctionRef<bool()> done);

  // Ends all streams with `why`, waits until their handlers have heard it, and ends the thread. Call it on
  // another thread; later calls do nothing.
  void Stop(const absl::Status& why);

  // Waits until no stream is carried, for at most `timeout`. Thread-safe.
  void AwaitNone(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(added_mutex_);

  // Streams carried now. Thread-safe.
  int64_t streams() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct Carried {
    uint64_t id;
    std::shared_ptr<Stream> stream;
  };
  struct Given {
    std::shared_ptr<Stream> stream;
    std::unique_ptr<Pipe> pipe;
  };
  // What epoll has said of a stream, of the waker, or of sockets_epoll_.
  struct Ready {
    uint64_t id;
    uint32_t events;
  };

  void Run();
  static std::vector<Ready> AwaitEvents(const Descriptor& epoll, int timeout_ms);
  // All that follow REQUIRE turn_.
  void TakeAdded() ABSL_LOCKS_EXCLUDED(added_mutex_);
  void TakeGiven(Given given);
  // The stream has a pipe, and is carried as `id`.
  void Watch(Stream& stream, uint64_t id);
  void Forget(const Stream& stream) ABSL_LOCKS_EXCLUDED(added_mutex_);
  // Whether sockets_epoll_ wakes the loop's thread.
  void WakeForSockets(bool wake);
  // A round over all streams; false: there was nothing to do.
  bool Round(world::Soon& soon);
  // Rounds until nothing is left to do for a while.
  void Work(world::Soon& soon);
  bool LieDown();
  void Rise();
  int SleepMs() const;
  void OnSockets(absl::Span<const Ready> ready);
  // Sockets that alone tell what there is to read are asked where the last round found nothing to do, and
  // every few rounds; the others now and then, for a loop that is never idle.
  void LookAtSockets();
  bool Finished() ABSL_LOCKS_EXCLUDED(added_mutex_);

  const Options options_;
  const std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();
  const Descriptor epoll_;  // the waker, sockets of shared memory, and:
  // Sockets that alone tell what there is to read. Their events are taken with the turn, so that none is in
  // the hands of a thread that waits for it.
  const Descriptor sockets_epoll_;
  bool running_ = false;

  // Who holds it carries frames: the loop's thread, or one in CarryUntil. Of the standard library because it
  // is tried without waiting.
  std::mutex turn_;
  std::vector<Carried> carried_;
  uint64_t ids_ = 0;     // 0 is the waker
  int64_t sockets_ = 0;  // in sockets_epoll_
  bool idle_ = true;     // the last round found nothing to do
  Spin carry_spin_;
  Spin spin_;
  uint32_t rounds_ = 0;
  std::atomic<bool> wanted_{false};  // the loop's thread waits for its turn

  Mutex added_mutex_;
  CondVar none_;
  std::vector<std::shared_ptr<Stream>> added_ ABSL_GUARDED_BY(added_mutex_);
  std::vector<Given> given_ ABSL_GUARDED_BY(added_mutex_);
  bool stopped_ ABSL_GUARDED_BY(added_mutex_) = false;
  absl::Status why_ ABSL_GUARDED_BY(added_mutex_);
  std::atomic<bool> news_{false};  // in added_ or given_, or stopped_
  std::atomic<int64_t> count_{0};
  std::thread thread_;
};

}  // namespace paceline::carrier
