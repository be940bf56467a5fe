#include "libs/rpc/server_streams.h"

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "libs/rpc/byte_buffer.h"
#include "libs/rpc/status.h"

namespace paceline::rpc {

// One call: waiting for a client at first, then one stream. Every operation under way at gRPC holds a
// reference, so the call lives until the last of them has come back.
class ServerStreams::Call : public std::enable_shared_from_this<Call> {
 public:
  Call(const Method& method, grpc::ServerCompletionQueue& queue)
      : method_(method), queue_(queue), stream_(&context_) {}

  void Wait() {
    context_.AsyncNotifyWhenDone(&ended_);
    Begin(accepted_);
    method_.request(&context_, &stream_, &queue_, &accepted_);
  }

  void Kick() {
    {
      absl::MutexLock lock(&mutex_);
      if (over_) return;
      if (busy_) {
        kicked_ = true;
        return;
      }
      busy_ = true;
    }
    WriteOn();
  }

  void Close(absl::Status why) {
    {
      absl::MutexLock lock(&mutex_);
      if (over_ || close_.has_value()) return;
      close_ = std::move(why);
    }
    Kick();
  }

 private:
  friend class ServerStreams;

  // An operation under way at gRPC. Its address is the tag.
  struct Operation {
    void (Call::*done)(bool ok);
    std::shared_ptr<Call> call;  // while it is under way
  };
  class Port : public world::StreamPort {
   public:
    explicit Port(std::shared_ptr<Call> call) : call_(std::move(call)) {}
    void Kick() override { call_->Kick(); }
    void Close(absl::Status why) override { call_->Close(std::move(why)); }

   private:
    const std::shared_ptr<Call> call_;
  };

  void Begin(Operation& operation) { operation.call = shared_from_this(); }

  void Accepted(bool ok) {
    if (!ok) return;  // the server shuts down
    std::make_shared<Call>(method_, queue_)->Wait();
    Begin(ended_);
    handler_ = method_.handler();
    handler_->Attach(std::make_shared<Port>(shared_from_this()));
    Begin(read_);
    stream_.Read(&incoming_, &read_);
  }

  void Read(bool ok) {
    if (!ok) {
      handler_->OnFinished();
      return;
    }
    absl::StatusOr<absl::Cord> frame = ToCord(incoming_);
    incoming_.Clear();
    if (!frame.ok()) return Close(frame.status());
    handler_->OnFrame(*std::move(frame));
    Begin(read_);
    stream_.Read(&incoming_, &read_);
  }

  void Written(bool ok) {
    if (ok) WriteOn();  // otherwise the call is over: Ended is on its way
  }

  // REQUIRES: busy_ was set by the caller. Ends with a write under way, the call finished, or busy_ reset.
  void WriteOn() {
    while (true) {
      absl::Cord frame;
      if (handler_->NextFrame(&frame)) {
        outgoing_ = ToByteBuffer(frame);
        Begin(write_);
        stream_.Write(outgoing_, &write_);
        return;
      }
      absl::MutexLock lock(&mutex_);
      if (kicked_) {
        kicked_ = false;
        continue;
      }
      if (close_.has_value() && !over_) {
        over_ = true;
        Begin(finished_);
        stream_.Finish(ToGrpc(*close_), &finished_);
        return;
      }
      busy_ = false;
      return;
    }
  }

  void Finished(bool) {}

  void Ended(bool) {
    {
      absl::MutexLock lock(&mutex_);
      over_ = true;
    }
    handler_->OnBroken(context_.IsCancelled() ? absl::CancelledError("the peer went away")
                                              : absl::OkStatus());
  }

  const Method& method_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  RawStream stream_;
  std::shared_ptr<world::AcceptedStream> handler_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;

  Operation accepted_{&Call::Accepted, nullptr};
  Operation read_{&Call::Read, nullptr};
  Operation write_{&Call::Written, nullptr};
  Operation finished_{&Call::Finished, nullptr};
  Operation ended_{&Call::Ended, nullptr};

  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;    // somebody writes, or is about to
  bool kicked_ ABSL_GUARDED_BY(mutex_) = false;  // there was a Kick meanwhile
  bool over_ ABSL_GUARDED_BY(mutex_) = false;    // nothing more may be written
  std::optional<absl::Status> close_ ABSL_GUARDED_BY(mutex_);
};

ServerStreams::ServerStreams(grpc::ServerBuilder& builder, int threads) {
  for (int i = 0; i < threads; ++i) queues_.push_back(builder.AddCompletionQueue());
}

ServerStreams::~ServerStreams() {
  if (!down_) Shutdown();
}

void ServerStreams::Serve(RequestCall request, NewHandler handler) {
  methods_.push_back(std::unique_ptr<Method>(new Method{std::move(request), std::move(handler)}));
}

void ServerStreams::Start() {
  for (const auto& queue : queues_) {
    for (const auto& method : methods_) std::make_shared<Call>(*method, *queue)->Wait();
    threads_.emplace_back([&queue] { Drain(*queue); });
  }
}

void ServerStreams::Drain(grpc::ServerCompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
    auto* operation = static_cast<Call::Operation*>(tag);
    const std::shared_ptr<Call> call = std::move(operation->call);
    (call.get()->*operation->done)(ok);
  }
}

void ServerStreams::Shutdown() {
  down_ = true;
  for (const auto& queue : queues_) queue->Shutdown();
  if (threads_.empty()) {  // never started: gRPC wants its queues drained all the same
    for (const auto& queue : queues_) Drain(*queue);
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace paceline::rpc
