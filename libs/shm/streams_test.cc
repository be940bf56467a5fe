// Both ends of streams over shared memory: what is so of these only. What is so of all streams: libs/dial.
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
#include "libs/carrier/loop.h"
#include "libs/carrier/test_util/stream_ends.h"
#include "libs/shm/dial.h"
#include "libs/shm/handover.h"
#include "libs/shm/server.h"

namespace paceline::shm {
namespace {

using carrier::Caller;
using carrier::Echo;
using carrier::kSoon;
using ::testing::HasSubstr;

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
  std::unique_ptr<carrier::Loop> loop_ = std::make_unique<carrier::Loop>(carrier::Loop::Options{});
};

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

}  // namespace
}  // namespace paceline::shm
