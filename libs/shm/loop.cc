#include "libs/shm/loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/world/real_clock.h"

namespace paceline::shm {
namespace {

// A thread carries no longer than this in one go: its caller may have given a deadline.
constexpr int64_t kCarryMaxNs = 2'000'000;
// A loop that never sleeps looks at its sockets after so many rounds.
constexpr uint32_t kRounds = 1024;
constexpr int kEvents = 64;

// This thread is in CarryUntil.
thread_local bool carrying = false;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Loop::Loop(Options options)
    : options_(std::move(options)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      carry_spin_(absl::ToInt64Nanoseconds(options_.carry_spin_max)),
      spin_(absl::ToInt64Nanoseconds(options_.spin_max)) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, waker_->fd(), &event) != 0) {
    stopped_ = true;
    return;
  }
  thread_ = std::thread([this] { Run(); });
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
  std::optional<absl::Status> stop;
  {
    MutexLock lock(&added_mutex_);
    added.swap(added_);
    if (stopped_) stop = why_;
  }
  for (std::shared_ptr<Stream>& stream : added) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = ++ids_}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream->socket(), &event) != 0) {
      // Its peer could not wake this loop.
      stream->End(absl::UnavailableError(absl::StrCat("shared memory: epoll_ctl: ", std::strerror(errno))));
    }
    carried_.push_back({.id = ids_, .stream = std::move(stream)});
    count_.fetch_add(1, std::memory_order_relaxed);
    // The carrier asks for the first frame by itself.
    carried_.back().stream->Kick();
  }
  if (!stop.has_value()) return;
  for (const Carried& carried : carried_) carried.stream->End(*stop);
}

bool Loop::Round(world::Soon& soon) {
  TakeAdded();
  bool some = false;
  bool over = false;
  LookAtSockets();
  for (const Carried& carried : carried_) {
    if (carried.stream->Step()) {
      some = true;
      soon.Taken();
    }
    over = over || carried.stream->over();
  }
  if (over) {
    const auto forget = [this](const Carried& carried) {
      if (!carried.stream->over()) return false;
      (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, carried.stream->socket(), nullptr);
      count_.fetch_sub(1, std::memory_order_relaxed);
      return true;
    };
    std::erase_if(carried_, forget);
  }
  if (!some && !soon.empty()) {
    soon.KickAll();
    some = true;
  }
  return some;
}

void Loop::Work(world::Soon& soon) {
  while (Round(soon)) {
  }
  const int64_t limit = carried_.empty() ? 0 : spin_.Limit();
  if (limit == 0) return;
  const SpinPermit permit;
  if (!permit) return;
  for (int64_t end = SpinNowNs() + limit; SpinNowNs() < end; Pause()) {
    if (!Round(soon)) continue;
    spin_.Paid();
    while (Round(soon)) {
    }
    end = SpinNowNs() + limit;
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

std::vector<uint64_t> Loop::AwaitSockets(int timeout_ms) const {
  epoll_event events[kEvents];
  const int count = epoll_wait(epoll_.get(), events, kEvents, timeout_ms);
  std::vector<uint64_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back(events[i].data.u64);
  return ids;
}

// A stream may be gone by now: another thread has carried meanwhile.
void Loop::OnSockets(absl::Span<const uint64_t> ids) {
  for (const uint64_t id : ids) {
    const auto at = std::find_if(carried_.begin(), carried_.end(),
                                 [&](const Carried& carried) { return carried.id == id; });
    if (at == carried_.end()) continue;
    at->stream->OnSocket();
    if (at->stream->hung_up()) (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, at->stream->socket(), nullptr);
  }
}

void Loop::LookAtSockets() {
  if (++rounds_ % kRounds == 0) OnSockets(AwaitSockets(0));
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
    const std::vector<uint64_t> ready = AwaitSockets(sleep_ms);
    waker_->Awake(std::find(ready.begin(), ready.end(), uint64_t{0}) != ready.end());
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
  {
    world::Soon soon;
    const int64_t began = SpinNowNs();
    int64_t end = began + limit;
    bool found = false;
    for (int64_t now = began; now < std::min(end, began + kCarryMaxNs); now = SpinNowNs()) {
      if (done()) {
        found = true;
        break;
      }
      if (Round(soon)) {
        end = SpinNowNs() + limit;
      } else {
        Pause();
      }
    }
    found ? carry_spin_.Paid() : carry_spin_.InVain();
  }
  carrying = false;
  if (!LieDown()) waker_->Wake();
}

}  // namespace paceline::shm
