#include "libs/rpc/grpc_dialer.h"

#include <grpcpp/generic/generic_stub.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "libs/rpc/byte_buffer.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"
#include "libs/world/soon.h"

namespace paceline::rpc {

// One stream. Every gRPC operation under way holds a reference to it.
//
// More than 15 members: gRPC fills most of them while an operation is under way, so they must live as long as
// the stream.
class GrpcDialer::Call : public world::Soon::Kickable, public std::enable_shared_from_this<Call> {
 public:
  Call(EventLoop& loop, const std::string& address, std::shared_ptr<world::StreamHandler> handler)
      : use_(loop),
        address_(address),
        handler_(std::move(handler)),
        stub_(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), DataPlaneArguments())) {}

  void Start(const std::string& method, grpc::CompletionQueue& queue) {
    stream_ = stub_.PrepareCall(&context_, method, &queue);
    Begin(started_);
    stream_->StartCall(started_.Tag());
  }

  void Kick() override {
    {
      MutexLock lock(&mutex_);
      if (over_) return;
      if (busy_) {
        kicked_ = true;
        return;
      }
      busy_ = true;
    }
    WriteOn();
  }

  void Close() { context_.TryCancel(); }

 private:
  // An operation under way at gRPC.
  struct Operation : Event {
    explicit Operation(void (Call::*then)(bool)) : done(then) {}
    void Complete(bool ok) override {
      const std::shared_ptr<Call> self = std::move(call);
      (self.get()->*done)(ok);
    }
    void (Call::*done)(bool ok);
    std::shared_ptr<Call> call;  // while it is under way
  };

  void Begin(Operation& operation) { operation.call = shared_from_this(); }

  void Started(bool ok) {
    if (!ok) return End();
    Begin(read_);
    stream_->Read(&incoming_, read_.Tag());
    WriteOn();  // busy_ from the beginning: nothing could be written before
  }

  void Read(bool ok) {
    if (!ok) return End();
    absl::StatusOr<absl::Cord> frame = ToCord(incoming_);
    incoming_.Clear();
    if (!frame.ok()) {
      context_.TryCancel();
    } else {
      handler_->OnFrame(*std::move(frame));
    }
    Begin(read_);
    stream_->Read(&incoming_, read_.Tag());
  }

  void Written(bool ok) {
    use_.loop().WriteEnded();
    if (ok) WriteOn();  // otherwise the read fails too, and ends the stream
  }

  // REQUIRES: busy_. Ends with a write under way, or busy_ reset.
  void WriteOn() {
    while (true) {
      absl::Cord frame;
      if (handler_->NextFrame(&frame)) {
        outgoing_ = ToByteBuffer(frame);
        Begin(write_);
        use_.loop().WriteBegun();
        stream_->Write(outgoing_, write_.Tag());
        return;
      }
      MutexLock lock(&mutex_);
      if (!kicked_) {
        busy_ = false;
        return;
      }
      kicked_ = false;
    }
  }

  void End() {
    {
      MutexLock lock(&mutex_);
      over_ = true;
    }
    Begin(finished_);
    stream_->Finish(&status_, finished_.Tag());
  }

  void Finished(bool) {
    const absl::Status status = FromGrpc(status_, address_);
    handler_->OnBroken(status.ok()
                           ? absl::UnavailableError(absl::StrCat(address_, " closed the stream"))
                           : absl::Status(status.code(), absl::StrCat(address_, ": ", status.message())));
  }

  const EventLoop::Use use_;
  const std::string address_;
  const std::shared_ptr<world::StreamHandler> handler_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  grpc::Status status_;

  Operation started_{&Call::Started};
  Operation read_{&Call::Read};
  Operation write_{&Call::Written};
  Operation finished_{&Call::Finished};

  Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = true;     // a thread writes, or is about to
  bool kicked_ ABSL_GUARDED_BY(mutex_) = false;  // Kick was called meanwhile
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

namespace {

// Closes the stream when its owner destroys it.
template <class Call>
class Port : public world::StreamPort {
 public:
  explicit Port(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~Port() override { call_->Close(); }
  void Kick() override { call_->Kick(); }
  void KickSoon() override { world::Soon::Kick(call_); }
  void Close(absl::Status) override { call_->Close(); }

 private:
  const std::shared_ptr<Call> call_;
};

const char* MethodOf(world::StreamKind kind) {
  switch (kind) {
    case world::StreamKind::kPush:
      return "/paceline.v1.Shard/PushPull";
    case world::StreamKind::kPull:
      return "/paceline.v1.Shard/Pull";
    case world::StreamKind::kSubscribe:
      return "/paceline.v1.Shard/Subscribe";
    case world::StreamKind::kReplicate:
      break;
  }
  return "/paceline.v1.Replication/Replicate";
}

}  // namespace

std::unique_ptr<world::StreamPort> GrpcDialer::Dial(const std::string& address, world::StreamKind kind,
                                                    std::shared_ptr<world::StreamHandler> handler) {
  streams_.fetch_add(1, std::memory_order_relaxed);
  auto call = std::make_shared<Call>(loop_, address, std::move(handler));
  call->Start(MethodOf(kind), loop_.queue());
  return std::make_unique<Port<Call>>(std::move(call));
}

}  // namespace paceline::rpc
