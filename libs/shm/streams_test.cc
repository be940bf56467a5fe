// Both ends of streams, over real shared memory and sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/shm/dial.h"
#include "libs/shm/handover.h"
#include "libs/shm/loop.h"
#include "libs/shm/server.h"

namespace paceline::shm {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(60);  // for what should come at once

// Answers every frame with itself, and counts what becomes of it.
class Echo final : public world::AcceptedStream {
 public:
  void Attach(std::shared_ptr<world::StreamPort> port) override {
    MutexLock lock(&mutex_);
    port_ = std::move(port);
  }
  bool TakesFrame() override {
    MutexLock lock(&mutex_);
    return takes_;
  }
  void OnFrame(absl::Cord frame) override {
    std::shared_ptr<world::StreamPort> port;
    {
      MutexLock lock(&mutex_);
      ++frames_;
      answers_.push_back(std::move(frame));
      port = port_;
      changed_.SignalAll();
    }
    if (port != nullptr) port->KickSoon();
  }
  bool NextFrame(absl::Cord* frame) override {
    MutexLock lock(&mutex_);
    if (chatters_) {
      *frame = absl::Cord(std::string(3'000, 'c'));
      return true;
    }
    if (answers_.empty()) return false;
    *frame = std::move(answers_.front());
    answers_.pop_front();
    return true;
  }
  void OnFinished() override {}
  void OnBroken(absl::Status why) override {
    std::shared_ptr<world::StreamPort> port;
    MutexLock lock(&mutex_);
    port.swap(port_);
    broken_ = std::move(why);
    changed_.SignalAll();
  }

  std::shared_ptr<world::StreamPort> port() {
    MutexLock lock(&mutex_);
    return port_;
  }
  void Take(bool takes) {
    MutexLock lock(&mutex_);
    takes_ = takes;
  }
  void Chatter() {
    MutexLock lock(&mutex_);
    chatters_ = true;
  }
  bool AwaitFrames(size_t count) {
    MutexLock lock(&mutex_);
    return changed_.AwaitFor(&mutex_, kSoon, [&] { return frames_ >= count; });
  }
  size_t frames() {
    MutexLock lock(&mutex_);
    return frames_;
  }
  std::optional<absl::Status> AwaitBroken() {
    MutexLock lock(&mutex_);
    changed_.AwaitFor(&mutex_, kSoon, [&] { return broken_.has_value(); });
    return broken_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<world::StreamPort> port_;
  std::deque<absl::Cord> answers_;
  size_t frames_ = 0;
  bool takes_ = true;
  bool chatters_ = false;
  std::optional<absl::Status> broken_;
};

// Sends what it is given, and keeps what comes.
class Caller final : public world::StreamHandler {
 public:
  void OnFrame(absl::Cord frame) override {
    MutexLock lock(&mutex_);
    came_.emplace_back(frame);
    changed_.SignalAll();
  }
  bool NextFrame(absl::Cord* frame) override {
    MutexLock lock(&mutex_);
    if (to_send_.empty()) return false;
    *frame = absl::Cord(to_send_.front());
    to_send_.pop_front();
    return true;
  }
  void OnBroken(absl::Status why) override {
    MutexLock lock(&mutex_);
    broken_ = std::move(why);
    changed_.SignalAll();
  }

  void Send(std::string frame) {
    MutexLock lock(&mutex_);
    to_send_.push_back(std::move(frame));
  }
  bool Has(size_t count) {
    MutexLock lock(&mutex_);
    return came_.size() >= count;
  }
  std::vector<std::string> Await(size_t count) {
    MutexLock lock(&mutex_);
    changed_.AwaitFor(&mutex_, kSoon, [&] { return came_.size() >= count || broken_.has_value(); });
    return came_;
  }
  std::optional<absl::Status> AwaitBroken() {
    MutexLock lock(&mutex_);
    changed_.AwaitFor(&mutex_, kSoon, [&] { return broken_.has_value(); });
    return broken_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> to_send_;
  std::vector<std::string> came_;
  std::optional<absl::Status> broken_;
};

class Streams : public ::testing::Test {
 protected:
  Streams() {
    char name[] = "/tmp/paceline-shm-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/socket";
  }
  ~Streams() override {
    loop_.reset();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Serve(Server::Options options = {}) {
    options.path = path_;
    auto server = Server::Start(std::move(options), [this](world::StreamKind kind) {
      MutexLock lock(&mutex_);
      kinds_.push_back(kind);
      echoes_.push_back(std::make_shared<Echo>());
      changed_.SignalAll();
      return echoes_.back();
    });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::shared_ptr<Echo> AwaitEcho(size_t index = 0) {
    MutexLock lock(&mutex_);
    if (!changed_.AwaitFor(&mutex_, kSoon, [&] { return echoes_.size() > index; })) return nullptr;
    return echoes_[index];
  }
  std::unique_ptr<world::StreamPort> Call(const std::shared_ptr<Caller>& caller, DialOptions options = {}) {
    auto port = Dial(*loop_, path_, world::StreamKind::kPush, caller, std::move(options));
    EXPECT_TRUE(port.ok()) << port.status();
    return port.ok() ? *std::move(port) : nullptr;
  }

  std::string folder_, path_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<world::StreamKind> kinds_;
  std::vector<std::shared_ptr<Echo>> echoes_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Loop> loop_ = std::make_unique<Loop>(Loop::Options{});
};

TEST_F(Streams, FramesComeBackWhole) {
  Serve({.threads = 2});
  std::vector<std::shared_ptr<Caller>> callers;
  std::vector<std::unique_ptr<world::StreamPort>> ports;
  std::vector<std::string> sent;
  for (size_t i = 0; i < 40; ++i) {
    // Some are larger than a ring.
    const size_t size = i % 10 == 0 ? 3'000'000 + i : i * i * 37;
    sent.emplace_back(size, static_cast<char>('a' + i % 26));
  }
  for (int c = 0; c < 3; ++c) {
    callers.push_back(std::make_shared<Caller>());
    ports.push_back(Call(callers.back()));
  }
  std::vector<std::thread> threads;
  for (int c = 0; c < 3; ++c) {
    threads.emplace_back([&, c] {
      for (const std::string& frame : sent) {
        callers[c]->Send(frame);
        ports[c]->Kick();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& caller : callers) EXPECT_EQ(caller->Await(sent.size()), sent);
  EXPECT_EQ(server_->counts()->open, 3);
  EXPECT_EQ(server_->counts()->taken, 3u);
}

// As a shard's link does, which dials under the lock that NextFrame takes.
TEST_F(Streams, TheFirstFrameGoesWithoutAKick) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  caller->Send("hello");
  const auto port = Call(caller);
  EXPECT_EQ(caller->Await(1), std::vector<std::string>{"hello"});
}

TEST_F(Streams, AThreadThatWaitsCarries) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  for (size_t i = 1; i <= 2'000; ++i) {
    caller->Send(absl::StrCat("frame ", i));
    port->Kick();
    loop_->CarryUntil([&] { return caller->Has(i); });
    ASSERT_EQ(caller->Await(i).back(), absl::StrCat("frame ", i));
  }
}

TEST_F(Streams, TheShardsStatusArrives) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  caller->Send("one");
  port->Kick();
  EXPECT_EQ(caller->Await(1).size(), 1u);
  AwaitEcho()->port()->Close(absl::ResourceExhaustedError("enough"));
  const auto why = caller->AwaitBroken();
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*why)) << *why;
  EXPECT_THAT(why->message(), HasSubstr("enough"));
  EXPECT_TRUE(AwaitEcho()->AwaitBroken().has_value());
}

TEST_F(Streams, ClosingTellsTheShard) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  auto port = Call(caller);
  const auto echo = AwaitEcho();
  ASSERT_NE(echo, nullptr);
  port = nullptr;
  EXPECT_TRUE(caller->AwaitBroken().has_value());
  const auto why = echo->AwaitBroken();
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(absl::IsCancelled(*why)) << *why;
}

TEST_F(Streams, AServerMayEndInTheMiddleOfEverything) {
  Serve({.threads = 2});
  std::vector<std::shared_ptr<Caller>> callers;
  std::vector<std::unique_ptr<world::StreamPort>> ports;
  for (int c = 0; c < 4; ++c) {
    callers.push_back(std::make_shared<Caller>());
    ports.push_back(Call(callers.back()));
    for (int i = 0; i < 50; ++i) callers.back()->Send(std::string(200'000, 'x'));
    ports.back()->Kick();
  }
  ASSERT_NE(AwaitEcho(), nullptr);
  server_ = nullptr;
  for (const auto& caller : callers) EXPECT_TRUE(caller->AwaitBroken().has_value());
  EXPECT_TRUE(
      absl::IsNotFound(Dial(*loop_, path_, world::StreamKind::kPush, std::make_shared<Caller>()).status()));
}

TEST_F(Streams, AFrameWaitsUntilItIsTaken) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  const auto echo = AwaitEcho();
  ASSERT_NE(echo, nullptr);
  caller->Send("first");
  port->Kick();
  EXPECT_EQ(caller->Await(1).size(), 1u);
  echo->Take(false);
  for (int i = 0; i < 5; ++i) caller->Send(std::string(600'000, 'x'));  // more than the ring holds
  port->Kick();
  // A stream beside it is served meanwhile.
  const auto other = std::make_shared<Caller>();
  const auto other_port = Call(other);
  other->Send("beside");
  other_port->Kick();
  EXPECT_EQ(other->Await(1).size(), 1u);
  EXPECT_EQ(echo->frames(), 1u);
  echo->Take(true);
  echo->port()->ReadOn();
  EXPECT_EQ(caller->Await(6).size(), 6u);
}

TEST_F(Streams, WhoReadsNothingIsCutOffWhenItsStreamIsClosed) {
  Serve();
  // A client that hands memory over and then does nothing, as one that is stopped.
  auto socket = ConnectTo(path_);
  ASSERT_TRUE(socket.ok());
  auto region = Region::Create({});
  ASSERT_TRUE(region.ok());
  ASSERT_TRUE(SendOffer(socket->get(), world::StreamKind::kPush, {}, (*region)->fd()).ok());
  const auto echo = AwaitEcho();
  ASSERT_NE(echo, nullptr);
  echo->Chatter();
  std::shared_ptr<world::StreamPort> port = echo->port();
  while (port == nullptr) port = echo->port();
  port->Kick();
  port->Close(absl::ResourceExhaustedError("it does not read"));
  const auto why = echo->AwaitBroken();
  ASSERT_TRUE(why.has_value());
}

TEST_F(Streams, AClientThatIsKilledWhileTheRingIsFullIsForgotten) {
  loop_.reset();  // nothing of this process has begun a thread when it forks
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // fills the ring with a frame that never ends, and reads nothing
    auto socket = ConnectTo(path_);
    while (!socket.ok() && getppid() != 1) socket = ConnectTo(path_);
    auto region = Region::Create({});
    if (!region.ok()) _exit(1);
    RingWriter writer = (*region)->WriterToShard();
    const uint32_t header[2] = {8 << 20, 1};
    writer.Put(reinterpret_cast<const char*>(header), sizeof(header));
    const std::string bytes(64 << 10, 'x');
    while (writer.Put(bytes.data(), bytes.size()) > 0) {
    }
    writer.Publish();
    if (!SendOffer(socket->get(), world::StreamKind::kPush, {}, (*region)->fd()).ok()) _exit(1);
    pause();
    _exit(0);
  }
  Serve();
  const auto echo = AwaitEcho();
  ASSERT_NE(echo, nullptr);
  EXPECT_EQ(server_->counts()->open, 1);
  kill(child, SIGKILL);
  int ended = 0;
  EXPECT_EQ(waitpid(child, &ended, 0), child);
  const auto why = echo->AwaitBroken();
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(absl::IsCancelled(*why)) << *why;
}

TEST_F(Streams, AClientThatBreaksTheRulesEndsItsOwnStreamOnly) {
  Serve();
  const auto honest = std::make_shared<Caller>();
  const auto port = Call(honest);
  ASSERT_NE(AwaitEcho(0), nullptr);
  auto socket = ConnectTo(path_);
  ASSERT_TRUE(socket.ok());
  auto region = Region::Create({});
  ASSERT_TRUE(region.ok());
  RingWriter writer = (*region)->WriterToShard();
  const uint32_t header[2] = {0xffffffff, 1};
  writer.Put(reinterpret_cast<const char*>(header), sizeof(header));
  writer.Publish();
  ASSERT_TRUE(SendOffer(socket->get(), world::StreamKind::kPull, {}, (*region)->fd()).ok());
  const auto echo = AwaitEcho(1);
  ASSERT_NE(echo, nullptr);
  const auto why = echo->AwaitBroken();
  ASSERT_TRUE(why.has_value());
  EXPECT_THAT(why->message(), HasSubstr("broke the rules"));
  honest->Send("still there");
  port->Kick();
  EXPECT_EQ(honest->Await(1), std::vector<std::string>{"still there"});
}

TEST_F(Streams, BeyondItsBoundsAServerRefuses) {
  Serve({.streams_max = 1});
  const auto first = std::make_shared<Caller>();
  auto port = Call(first);
  ASSERT_NE(AwaitEcho(), nullptr);
  const auto second = std::make_shared<Caller>();
  Notification refused;
  absl::Status told;
  const auto other = Call(second, {.refused = [&](const absl::Status& why) {
                            told = why;
                            refused.Notify();
                          }});
  ASSERT_TRUE(refused.WaitForNotificationWithTimeout(kSoon));
  EXPECT_THAT(told.message(), HasSubstr("1 streams over shared memory already"));
  const auto why = second->AwaitBroken();
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*why)) << *why;
  EXPECT_EQ(server_->counts()->refused, 1u);
}

// So many bytes and no more.
class Purse final : public Budget {
 public:
  explicit Purse(uint64_t bytes) : left_(static_cast<int64_t>(bytes)) {}
  bool Take(uint64_t bytes) override {
    if (left_ < static_cast<int64_t>(bytes)) return false;
    left_ -= static_cast<int64_t>(bytes);
    return true;
  }
  void Return(uint64_t bytes) override { left_ += static_cast<int64_t>(bytes); }
  int64_t left() const { return left_; }

 private:
  std::atomic<int64_t> left_;
};

TEST_F(Streams, ItsMemoryCountsWhileItIsThere) {
  const uint64_t bytes = Region::BytesOf({}).value();
  const auto purse = std::make_shared<Purse>(bytes);
  Serve({.budget = purse});
  const auto first = std::make_shared<Caller>();
  auto port = Call(first);
  const auto echo = AwaitEcho();
  ASSERT_NE(echo, nullptr);
  EXPECT_EQ(server_->counts()->bytes, bytes);
  const auto second = std::make_shared<Caller>();
  const auto refused = Call(second);
  ASSERT_TRUE(second->AwaitBroken().has_value());
  EXPECT_THAT(second->AwaitBroken()->message(), HasSubstr("budget"));
  port = nullptr;
  ASSERT_TRUE(echo->AwaitBroken().has_value());
  server_ = nullptr;
  EXPECT_EQ(purse->left(), static_cast<int64_t>(bytes));
}

TEST_F(Streams, WhoSaysNothingIsForgotten) {
  Serve({.offer_timeout = absl::Milliseconds(10)});
  auto socket = ConnectTo(path_);
  ASSERT_TRUE(socket.ok());
  const absl::Time end = absl::Now() + kSoon;
  bool gone = false;
  while (!gone && absl::Now() < end) {
    const auto message = TakeMessage(socket->get());
    gone = absl::IsUnavailable(message.status());
  }
  EXPECT_TRUE(gone);
}

TEST_F(Streams, AnIdlePairUsesNoCpu) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  caller->Send("one");
  port->Kick();
  EXPECT_EQ(caller->Await(1).size(), 1u);
  const auto cpu = [] {
    rusage used = {};
    getrusage(RUSAGE_SELF, &used);
    return absl::DurationFromTimeval(used.ru_utime) + absl::DurationFromTimeval(used.ru_stime);
  };
  // The time itself is what is measured: nothing happens in it.
  Notification never;
  const absl::Duration before = cpu();
  EXPECT_FALSE(never.WaitForNotificationWithTimeout(absl::Seconds(1)));
  EXPECT_LT(cpu() - before, absl::Milliseconds(100));
}

}  // namespace
}  // namespace paceline::shm
