#include "libs/carrier/loop.h"

#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/world/real_clock.h"

namespace paceline::carrier {
namespace {

// A thread carries no longer than this in one go: its caller may have given a deadline.
constexpr int64_t kCarryMaxNs = 2'000'000;
// A loop that never sleeps looks at its sockets after so many rounds, and after so many that had something to
// do where sockets alone tell what there is to read.
constexpr uint32_t kRounds = 1024;
constexpr uint32_t kBusyRounds = 4;
// Each change is told once, and the pipes remember.
constexpr uint32_t kEachChange = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
constexpr int kEvents = 64;
// A stream takes so many small frames in a row. They are answered by one frame, which wakes the peer once;
// and they take no longer than a large one.
constexpr int kStepsATurn = world::Soon::kEvents;
// Streams have the numbers between.
constexpr uint64_t kWakerId = 0;
constexpr uint64_t kSocketsId = ~uint64_t{0};

// This thread is in CarryUntil.
thread_local bool carrying = false;

}  // namespace

Loop::Loop(Options options)
    : options_(std::move(options)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      sockets_epoll_(epoll_create1(EPOLL_CLOEXEC)),
      carry_spin_(absl::ToInt64Nanoseconds(options_.carry_spin_max)),
      spin_(absl::ToInt64Nanoseconds(options_.spin_max)) {
  epoll_event waker{.events = EPOLLIN, .data = {.u64 = kWakerId}};
  epoll_event sockets{.events = EPOLLIN, .data = {.u64 = kSocketsId}};
  running_ = epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, waker_->fd(), &waker) == 0 &&
             epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, sockets_epoll_.get(), &sockets) == 0;
  if (running_) {
    thread_ = std::thread([this] { Run(); });
  } else {
    stopped_ = true;
  }
}

Loop::~Loop() {
  Stop(absl::CancelledError("it is not carried any more"));
}

bool Loop::Add(std::shared_ptr<Stream> stream) {
  {
    MutexLock lock(&added_mutex_);
    if (stopped_) return false;
    added_.push_back(std::move(stream));
  }
  news_ = true;
  waker_->Wake();
  return true;
}

void Loop::Give(std::shared_ptr<Stream> stream, std::unique_ptr<Pipe> pipe) {
  {
    MutexLock lock(&added_mutex_);
    if (stopped_) return;
    given_.push_back({.stream = std::move(stream), .pipe = std::move(pipe)});
  }
  news_ = true;
  waker_->Wake();
}

void Loop::AwaitNone(absl::Duration timeout) {
  MutexLock lock(&added_mutex_);
  (void)none_.AwaitFor(&added_mutex_, timeout,
                       [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return added_.empty() && count_ == 0; });
}

void Loop::Stop(const absl::Status& why) {
  {
    MutexLock lock(&added_mutex_);
    if (!stopped_) why_ = why;
    stopped_ = true;
  }
  news_ = true;
  waker_->Wake();
  if (thread_.joinable()) thread_.join();
}

void Loop::TakeAdded() {
  if (!news_ || !news_.exchange(false)) return;
  std::vector<std::shared_ptr<Stream>> added;
  std::vector<Given> given;
  std::optional<absl::Status> stop;
  {
    MutexLock lock(&added_mutex_);
    added.swap(added_);
    given.swap(given_);
    count_ += static_cast<int64_t>(added.size());
    if (stopped_) stop = why_;
  }
  for (std::shared_ptr<Stream>& stream : added) {
    carried_.push_back({.id = ++ids_, .stream = std::move(stream)});
    if (carried_.back().stream->has_pipe()) Watch(*carried_.back().stream, ids_);
  }
  for (Given& one : given) TakeGiven(std::move(one));
  if (!stop.has_value()) return;
  for (const Carried& carried : carried_) carried.stream->End(*stop);
}

void Loop::TakeGiven(Given given) {
  const auto at = std::ranges::find(carried_, given.stream, &Carried::stream);
  if (at == carried_.end() || given.stream->over()) return;
  given.stream->SetPipe(std::move(given.pipe));
  Watch(*given.stream, at->id);
}

void Loop::Watch(Stream& stream, uint64_t id) {
  const bool alone = stream.pipe().needs_socket();
  epoll_event event{.events = alone ? kEachChange : EPOLLIN, .data = {.u64 = id}};
  const Descriptor& epoll = alone ? sockets_epoll_ : epoll_;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, stream.pipe().socket(), &event) != 0) {
    // Its peer could not wake this loop.
    stream.End(absl::UnavailableError(absl::StrCat("epoll_ctl: ", std::strerror(errno))));
  }
  if (alone) ++sockets_;
  // The carrier asks for the first frame by itself.
  stream.Begin();
}

void Loop::Forget(const Stream& stream) {
  if (stream.has_pipe()) {
    const bool alone = stream.pipe().needs_socket();
    (void)epoll_ctl((alone ? sockets_epoll_ : epoll_).get(), EPOLL_CTL_DEL, stream.pipe().socket(), nullptr);
    if (alone) --sockets_;
  }
  MutexLock lock(&added_mutex_);
  if (--count_ == 0) none_.SignalAll();
}

bool Loop::Round(world::Soon& soon) {
  TakeAdded();
  bool some = false;
  bool over = false;
  LookAtSockets();
  for (const Carried& carried : carried_) {
    for (int i = 0; i < kStepsATurn; ++i) {
      const Stream::Did did = carried.stream->Step();
      if (did == Stream::Did::kNothing) break;
      some = true;
      soon.Taken();
      if (did == Stream::Did::kMuch) break;
    }
    over = over || carried.stream->over();
  }
  if (over) {
    const auto forget = [this](const Carried& carried) {
      if (!carried.stream->over()) return false;
      Forget(*carried.stream);
      return true;
    };
    std::erase_if(carried_, forget);
  }
  if (!some && !soon.empty()) {
    soon.KickAll();
    some = true;
  }
  idle_ = !some;
  if (idle_) soon.OnPause();
  return some;
}

void Loop::Work(world::Soon& soon) {
  while (Round(soon)) {
  }
  const int64_t limit = carried_.empty() ? 0 : spin_.Limit();
  if (limit == 0) return;
  const SpinPermit permit;
  if (!permit) return;
  for (int64_t end = SpinNowNs() + limit;;) {
    if (Round(soon)) {
      spin_.Paid();
      while (Round(soon)) {
      }
      end = SpinNowNs() + limit;
    }
    // A look follows each yield, which may take long.
    if (SpinNowNs() >= end) break;
    sched_yield();
  }
  spin_.InVain();
}

bool Loop::LieDown() {
  if (news_) return false;
  for (const Carried& carried : carried_) {
    if (carried.stream->Sleep()) continue;
    Rise();
    return false;
  }
  return true;
}

void Loop::Rise() {
  for (const Carried& carried : carried_) carried.stream->Rise();
}

int Loop::SleepMs() const {
  absl::Time due = absl::InfiniteFuture();
  for (const Carried& carried : carried_) due = std::min(due, carried.stream->due());
  const absl::Duration left = due - world::MonotonicNow();
  if (left > absl::Hours(1)) return -1;
  return static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(left) + 1));
}

bool Loop::Finished() {
  MutexLock lock(&added_mutex_);
  return stopped_ && added_.empty() && carried_.empty();
}

std::vector<Loop::Ready> Loop::AwaitEvents(const Descriptor& epoll, int timeout_ms) {
  epoll_event events[kEvents];
  const int count = epoll_wait(epoll.get(), events, kEvents, timeout_ms);
  std::vector<Ready> ready;
  for (int i = 0; i < count; ++i) ready.push_back({.id = events[i].data.u64, .events = events[i].events});
  return ready;
}

// A stream may be gone by now: another thread has carried meanwhile.
void Loop::OnSockets(absl::Span<const Ready> ready) {
  for (const Ready& one : ready) {
    const auto at = std::ranges::lower_bound(carried_, one.id, {}, &Carried::id);
    if (at == carried_.end() || at->id != one.id) continue;
    Stream& stream = *at->stream;
    stream.OnSocket(one.events);
    if (!stream.pipe().needs_socket() && stream.pipe().gone().has_value()) {
      (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, stream.pipe().socket(), nullptr);
    }
  }
}

void Loop::LookAtSockets() {
  ++rounds_;
  if (sockets_ > 0 && (idle_ || rounds_ % kBusyRounds == 0)) OnSockets(AwaitEvents(sockets_epoll_, 0));
  if (rounds_ % kRounds == 0) OnSockets(AwaitEvents(epoll_, 0));
}

void Loop::WakeForSockets(bool wake) {
  epoll_event event{.events = wake ? EPOLLIN : 0U, .data = {.u64 = kSocketsId}};
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, sockets_epoll_.get(), &event);
}

void Loop::Run() {
  if (options_.first != nullptr) options_.first();
  world::Soon soon;
  while (true) {
    int sleep_ms = 0;
    {
      const std::lock_guard turn(turn_);
      wanted_ = false;
      Work(soon);
      if (Finished()) return;
      if (!LieDown() || !waker_->MaySleep()) {
        Rise();
        continue;
      }
      sleep_ms = SleepMs();
    }
    const std::vector<Ready> ready = AwaitEvents(epoll_, sleep_ms);
    waker_->Awake(std::ranges::find(ready, kWakerId, &Ready::id) != ready.end());
    wanted_ = true;
    const std::lock_guard turn(turn_);
    Rise();
    OnSockets(ready);
  }
}

void Loop::CarryUntil(absl::FunctionRef<bool()> done) {
  if (carrying || wanted_) return;
  const std::unique_lock turn(turn_, std::try_to_lock);
  if (!turn.owns_lock()) return;
  const int64_t limit = carried_.empty() && !news_ ? 0 : carry_spin_.Limit();
  if (limit == 0) return;
  carrying = true;
  Rise();
  // Else each frame that this thread reads would wake the loop's thread, too.
  const bool silenced = sockets_ > 0;
  if (silenced) WakeForSockets(false);
  {
    world::Soon soon;
    const int64_t began = SpinNowNs();
    int64_t end = began + limit;
    while (!done()) {
      const bool some = Round(soon);
      const int64_t now = SpinNowNs();
      if (some) end = now + limit;
      if (now >= std::min(end, began + kCarryMaxNs)) break;
      if (!some) sched_yield();
    }
    done() ? carry_spin_.Paid() : carry_spin_.InVain();
  }
  carrying = false;
  if (silenced) WakeForSockets(true);
  if (!LieDown()) waker_->Wake();
}

}  // namespace paceline::carrier
