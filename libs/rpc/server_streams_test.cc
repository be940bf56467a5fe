#include "libs/rpc/server_streams.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "libs/rpc/deadline.h"
#include "paceline/v1/shard.grpc.pb.h"

namespace paceline::rpc {
namespace {

constexpr absl::Duration kLongEnough = absl::Seconds(30);

// Answers every frame with a megabyte, and closes the stream once kMost answers wait to be read.
class Answerer : public world::AcceptedStream {
 public:
  static constexpr int kMost = 8;

  void Attach(std::shared_ptr<world::StreamPort> port) override {
    absl::MutexLock lock(&mutex_);
    port_ = std::move(port);
  }
  void OnFrame(absl::Cord) override {
    std::shared_ptr<world::StreamPort> port;
    bool enough = false;
    {
      absl::MutexLock lock(&mutex_);
      if (enough_) ++frames_after_close;
      enough = enough_ = ++waiting_ >= kMost;
      port = port_;
    }
    if (!enough) return port->Kick();
    port->Close(absl::ResourceExhaustedError("too many answers wait"));
    if (!closing.HasBeenNotified()) closing.Notify();
  }
  bool NextFrame(absl::Cord* frame) override {
    absl::MutexLock lock(&mutex_);
    if (waiting_ == 0) return false;
    --waiting_;
    v1::PushReply reply;
    reply.set_committed(std::string(1 << 20, 'x'));
    *frame = absl::Cord(reply.SerializeAsString());
    return true;
  }
  void OnFinished() override {}
  void OnBroken(absl::Status) override {
    absl::MutexLock lock(&mutex_);
    port_ = nullptr;
    broken.Notify();
  }

  absl::Notification broken;
  absl::Notification closing;
  std::atomic<int> frames_after_close = 0;

 private:
  absl::Mutex mutex_;
  std::shared_ptr<world::StreamPort> port_ ABSL_GUARDED_BY(mutex_);
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool enough_ ABSL_GUARDED_BY(mutex_) = false;
};

// Says how many frames have come, soon. It takes `most` of them.
class Counter : public world::AcceptedStream {
 public:
  bool TakesFrame() override {
    absl::MutexLock lock(&mutex_);
    return frames_ < most_;
  }
  void TakeUpTo(uint64_t most) {
    std::shared_ptr<world::StreamPort> port;
    {
      absl::MutexLock lock(&mutex_);
      most_ = most;
      port = port_;
    }
    if (port != nullptr) port->ReadOn();
  }
  void Attach(std::shared_ptr<world::StreamPort> port) override {
    absl::MutexLock lock(&mutex_);
    port_ = std::move(port);
  }
  void OnFrame(absl::Cord) override {
    std::shared_ptr<world::StreamPort> port;
    {
      absl::MutexLock lock(&mutex_);
      ++frames_;
      port = port_;
    }
    port->KickSoon();
  }
  bool NextFrame(absl::Cord* frame) override {
    absl::MutexLock lock(&mutex_);
    if (said_ == frames_) return false;
    said_ = frames_;
    v1::PushReply reply;
    reply.set_received(said_);
    *frame = absl::Cord(reply.SerializeAsString());
    return true;
  }
  void OnFinished() override {}
  void OnBroken(absl::Status) override {
    absl::MutexLock lock(&mutex_);
    port_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  std::shared_ptr<world::StreamPort> port_ ABSL_GUARDED_BY(mutex_);
  uint64_t most_ ABSL_GUARDED_BY(mutex_) = UINT64_MAX;
  uint64_t frames_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t said_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ServerStreamsTest : public ::testing::Test {
 protected:
  using Service = v1::Shard::WithRawMethod_Push<v1::Shard::Service>;

  ServerStreamsTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    streams_ = std::make_unique<ServerStreams>(builder, 1);
    streams_->Serve([this](auto* context, auto* stream, auto* queue,
                           void* tag) { service_.RequestPush(context, stream, queue, queue, tag); },
                    [this] { return accepted; });
    server_ = builder.BuildAndStart();
    streams_->Start();
    stub = v1::Shard::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),  //
                                                  grpc::InsecureChannelCredentials()));
  }
  ~ServerStreamsTest() override {
    server_->Shutdown(rpc::After(absl::ZeroDuration()));
    streams_->Shutdown();
  }

  const std::shared_ptr<Answerer> handler = std::make_shared<Answerer>();
  std::shared_ptr<world::AcceptedStream> accepted = handler;
  std::unique_ptr<v1::Shard::Stub> stub;

 private:
  Service service_;
  std::unique_ptr<ServerStreams> streams_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ServerStreamsTest, AClosedStreamEndsThoughThePeerNeverReads) {
  grpc::ClientContext context;
  const auto stream = stub->Push(&context);
  std::thread writer([&] {
    while (stream->Write(v1::PushRequest())) {
    }
  });
  EXPECT_TRUE(handler->broken.WaitForNotificationWithTimeout(kLongEnough));
  context.TryCancel();  // frees the writer if the stream has not ended
  writer.join();
  EXPECT_EQ(handler->frames_after_close, 0) << "a closed stream takes nothing more";
}

TEST_F(ServerStreamsTest, AFrameThatIsToBeSentSoonIsSent) {
  accepted = std::make_shared<Counter>();
  grpc::ClientContext context;
  context.set_deadline(rpc::After(kLongEnough));
  const auto stream = stub->Push(&context);
  uint64_t sent = 0;
  for (const int burst : {1, 1, 100, 1, 5}) {
    for (int i = 0; i < burst; ++i) ASSERT_TRUE(stream->Write(v1::PushRequest()));
    sent += burst;
    v1::PushReply reply;
    while (reply.received() < sent)
      ASSERT_TRUE(stream->Read(&reply)) << "of frame " << sent << " nothing was heard";
  }
  context.TryCancel();
}

TEST_F(ServerStreamsTest, AStreamIsReadOnlyWhileItsHandlerTakesFrames) {
  const auto counter = std::make_shared<Counter>();
  counter->TakeUpTo(3);
  accepted = counter;
  grpc::ClientContext context;
  context.set_deadline(rpc::After(kLongEnough));
  const auto stream = stub->Push(&context);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(stream->Write(v1::PushRequest()));
  stream->WritesDone();
  v1::PushReply reply;
  for (const uint64_t most : {3, 4, 10}) {
    counter->TakeUpTo(most);
    while (reply.received() < most) ASSERT_TRUE(stream->Read(&reply));
    EXPECT_EQ(reply.received(), most);
  }
  context.TryCancel();
}

TEST_F(ServerStreamsTest, APeerThatReadsHearsWhyItsStreamWasClosed) {
  grpc::ClientContext context;
  const auto stream = stub->Push(&context);
  std::thread writer([&] {
    while (stream->Write(v1::PushRequest())) {
    }
  });
  v1::PushReply reply;
  ASSERT_TRUE(handler->closing.WaitForNotificationWithTimeout(kLongEnough));
  while (stream->Read(&reply)) {
  }
  writer.join();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace paceline::rpc
