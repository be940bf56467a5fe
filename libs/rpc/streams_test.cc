// Both ends of streams of frames, over real gRPC.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/grpc_dialer.h"
#include "libs/rpc/process.h"
#include "libs/rpc/server_streams.h"
#include "libs/world/real_clock.h"
#include "paceline/v1/shard.grpc.pb.h"

namespace paceline::rpc {
namespace {

const bool kLargeBuffers = (ReadIntoLargeBuffers(), true);  // before anything of gRPC

class Service : public v1::Shard::WithRawMethod_PushPull<v1::Shard::WithRawMethod_Pull<v1::Shard::Service>> {
};

// Answers every frame with itself, and, if it is told to chatter, never stops talking.
class Echo final : public world::AcceptedStream {
 public:
  explicit Echo(bool chatter) : chatter_(chatter) {}

  void Attach(std::shared_ptr<world::StreamPort> port) override {
    MutexLock lock(&mutex_);
    port_ = std::move(port);
  }
  void OnFrame(absl::Cord frame) override {
    std::shared_ptr<world::StreamPort> port;
    {
      MutexLock lock(&mutex_);
      frames_.push_back(std::move(frame));
      port = port_;
    }
    if (port != nullptr) port->Kick();
  }
  bool NextFrame(absl::Cord* frame) override {
    MutexLock lock(&mutex_);
    if (frames_.empty() && !chatter_) return false;
    *frame = frames_.empty() ? absl::Cord(std::string(3000, 'c')) : frames_.front();
    if (!frames_.empty()) frames_.erase(frames_.begin());
    return true;
  }
  void OnFinished() override {}
  void OnBroken(absl::Status) override {
    std::shared_ptr<world::StreamPort> port;
    MutexLock lock(&mutex_);
    port.swap(port_);
  }
  // As an executor would, from another thread.
  void Kick() {
    std::shared_ptr<world::StreamPort> port;
    {
      MutexLock lock(&mutex_);
      port = port_;
    }
    if (port != nullptr) port->Kick();
  }

 private:
  const bool chatter_;
  Mutex mutex_;
  std::vector<absl::Cord> frames_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<world::StreamPort> port_ ABSL_GUARDED_BY(mutex_);
};

class Server {
 public:
  explicit Server(bool chatter) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    ApplyDataPlaneArguments(builder);
    builder.RegisterService(&service_);
    streams_ = std::make_unique<ServerStreams>(builder, 2);
    streams_->Serve([this](auto* context, auto* stream, auto* queue,
                           void* tag) { service_.RequestPushPull(context, stream, queue, queue, tag); },
                    [this, chatter] {
                      auto echo = std::make_shared<Echo>(chatter);
                      MutexLock lock(&mutex_);
                      echoes_.push_back(echo);
                      return echo;
                    });
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
    streams_->Start();
  }
  ~Server() {
    server_->Shutdown(rpc::After(absl::ZeroDuration()));
    streams_->Shutdown();
  }
  const std::string& address() const { return address_; }
  std::vector<std::shared_ptr<Echo>> echoes() {
    MutexLock lock(&mutex_);
    return echoes_;
  }

 private:
  Service service_;
  std::unique_ptr<ServerStreams> streams_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Echo>> echoes_ ABSL_GUARDED_BY(mutex_);
};

// A client's handler that sends `frames` frames and counts the replies.
class Speaker final : public world::StreamHandler {
 public:
  explicit Speaker(uint64_t frames) : left_(frames) {}

  void OnFrame(absl::Cord frame) override {
    MutexLock lock(&mutex_);
    ++heard_;
    bytes_ += frame.size();
    changed_.SignalAll();
  }
  bool NextFrame(absl::Cord* frame) override {
    MutexLock lock(&mutex_);
    if (left_ == 0) return false;
    *frame = absl::Cord(std::string(1000 + 10 * left_--, 'f'));
    return true;
  }
  void OnBroken(absl::Status) override {
    MutexLock lock(&mutex_);
    broken_ = true;
    changed_.SignalAll();
  }
  // False: it did not come to that within twenty seconds.
  bool AwaitFrames(uint64_t frames) {
    MutexLock lock(&mutex_);
    return changed_.AwaitFor(&mutex_, absl::Seconds(20), [&] { return heard_ >= frames; });
  }
  bool AwaitBroken() {
    MutexLock lock(&mutex_);
    return changed_.AwaitFor(&mutex_, absl::Seconds(20), [&] { return broken_; });
  }
  uint64_t bytes() {
    MutexLock lock(&mutex_);
    return bytes_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t left_ ABSL_GUARDED_BY(mutex_);
  uint64_t heard_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

// A loop on a thread of its own.
class Loop {
 public:
  Loop()
      : thread_([this] {
          loop_.Run(
              clock_, [] { return absl::InfiniteFuture(); }, [] {});
        }) {}
  ~Loop() {
    loop_.Stop();
    thread_.join();
  }
  GrpcDialer& dialer() { return dialer_; }

 private:
  const world::RealClock clock_;
  EventLoop loop_;
  GrpcDialer dialer_{loop_};
  std::thread thread_;
};

TEST(Streams, FramesComeBackWhole) {
  Server server(/*chatter=*/false);
  Loop loop;
  auto speaker = std::make_shared<Speaker>(100);
  auto port = loop.dialer().Dial(server.address(), world::StreamKind::kPush, speaker);
  EXPECT_TRUE(speaker->AwaitFrames(100));
  EXPECT_EQ(speaker->bytes(), 100u * 1000 + 10 * 100 * 101 / 2);
  port = nullptr;
  EXPECT_TRUE(speaker->AwaitBroken());
}

// Says one frame of a megabyte, and sees in how many pieces of memory the answer lies.
class LargeSpeaker final : public world::StreamHandler {
 public:
  void OnFrame(absl::Cord frame) override {
    const char* end = nullptr;
    MutexLock lock(&mutex_);
    for (const absl::string_view chunk : frame.Chunks()) {
      if (chunk.data() != end) ++pieces_;
      end = chunk.data() + chunk.size();
    }
    changed_.SignalAll();
  }
  bool NextFrame(absl::Cord* frame) override {
    MutexLock lock(&mutex_);
    if (std::exchange(said_, true)) return false;
    *frame = absl::Cord(std::string(1 << 20, 'f'));
    return true;
  }
  void OnBroken(absl::Status) override {}
  // 0: nothing has come within twenty seconds.
  int AwaitPieces() {
    MutexLock lock(&mutex_);
    changed_.AwaitFor(&mutex_, absl::Seconds(20), [&] { return pieces_ > 0; });
    return pieces_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool said_ ABSL_GUARDED_BY(mutex_) = false;
  int pieces_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(Streams, ALargeFrameComesInFewPieces) {
  ASSERT_TRUE(kLargeBuffers);
  if (std::string(std::getenv("GRPC_EXPERIMENTS")) != "-tcp_read_chunks") GTEST_SKIP() << "set from outside";
  Server server(/*chatter=*/false);
  Loop loop;
  auto speaker = std::make_shared<LargeSpeaker>();
  const auto port = loop.dialer().Dial(server.address(), world::StreamKind::kPush, speaker);
  const int pieces = speaker->AwaitPieces();
  EXPECT_GE(pieces, 1);
  EXPECT_LE(pieces, 8) << "of 64 KiB there are 16 or more";
}

TEST(Streams, AMissingListenerIsABreak) {
  Loop loop;
  auto speaker = std::make_shared<Speaker>(1);
  const auto port = loop.dialer().Dial("127.0.0.1:1", world::StreamKind::kPush, speaker);
  EXPECT_TRUE(speaker->AwaitBroken());
}

TEST(Streams, AServerMayEndInTheMiddleOfEverything) {
  // Frames both ways, and threads that kick, while the server goes: nothing may be started on a queue that is
  // shut down, which gRPC answers by aborting the process.
  for (int round = 0; round < 5; ++round) {
    auto server = std::make_unique<Server>(/*chatter=*/true);
    Loop loop;
    std::vector<std::shared_ptr<Speaker>> speakers;
    std::vector<std::unique_ptr<world::StreamPort>> ports;
    for (int s = 0; s < 4; ++s) {
      speakers.push_back(std::make_shared<Speaker>(1'000'000));
      ports.push_back(loop.dialer().Dial(server->address(), world::StreamKind::kPush, speakers.back()));
    }
    for (const auto& speaker : speakers) EXPECT_TRUE(speaker->AwaitFrames(5));
    std::atomic<bool> done = false;
    std::thread kicker([&done, echoes = server->echoes()] {
      while (!done) {
        for (const auto& echo : echoes) echo->Kick();
      }
    });
    server.reset();
    done = true;
    kicker.join();
    for (const auto& speaker : speakers) EXPECT_TRUE(speaker->AwaitBroken());
  }
}

}  // namespace
}  // namespace paceline::rpc
