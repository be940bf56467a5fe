#include "libs/rpc/server_streams.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "libs/base/spin.h"
#include "libs/base/tsan.h"
#include "libs/rpc/byte_buffer.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/status.h"
#include "libs/world/soon.h"

namespace paceline::rpc {
namespace {

// When a stream is closed with an error, its peer gets this long to read the write under way. After that the
// stream is cut, and its status is lost.
constexpr absl::Duration kCloseGrace = absl::Seconds(2);
// To wake a thread costs more than all else that a small request needs, so one looks for the next event for
// this long before it sleeps, if that has paid lately.
constexpr absl::Duration kSpin = absl::Microseconds(50);

}  // namespace

// One call: first it waits for a client, then it is one stream. Every gRPC operation under way holds a
// reference, so the call lives until the last of them has completed.
//
// More than 15 members: gRPC fills most of them while an operation is under way, so they must live as long as
// the call.
class ServerStreams::Call : public world::Soon::Kickable, public std::enable_shared_from_this<Call> {
 public:
  Call(const Method& method, grpc::ServerCompletionQueue& queue, ServerStreams& server)
      : method_(method), queue_(queue), server_(server), stream_(&context_) {}

  // REQUIRES: the queue is not shut down before live_ is told that this call has ended.
  void Wait() {
    server_.live_.Add();
    context_.AsyncNotifyWhenDone(&ended_);
    Begin(accepted_);
    method_.request(&context_, &stream_, &queue_, &accepted_);
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

  void Close(absl::Status why) {
    {
      MutexLock lock(&mutex_);
      if (over_ || close_.has_value()) return;
      if (!why.ok()) {
        // A write to a peer that does not read never completes, and the status has to wait for the write.
        Begin(late_);
        alarm_.Set(&queue_, rpc::After(kCloseGrace), &late_);
      }
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
    void KickSoon() override { world::Soon::Kick(call_); }
    void ReadOn() override { call_->ReadOn(); }
    void Close(absl::Status why) override { call_->Close(std::move(why)); }

   private:
    const std::shared_ptr<Call> call_;
  };

  void Begin(Operation& operation) {
    operation.call = shared_from_this();
    OrderBefore(&operation);
  }
  // Starts an operation on the stream, unless the call is over: its queue may then be shut down, and nothing
  // may be started on it.
  template <class Start>
  void BeginUnlessOver(Operation& operation, Start start) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (over_) return;
    Begin(operation);
    start();
  }

  void Accepted(bool ok) {
    if (!ok) return server_.live_.Remove();  // the server shuts down
    std::make_shared<Call>(method_, queue_, server_)->Wait();
    Begin(ended_);
    peer_ = context_.peer();
    const StreamGate::Verdict verdict = server_.gate_.Begin(peer_, std::chrono::steady_clock::now());
    if (verdict.cut && server_.cut_ != nullptr) server_.cut_(peer_);
    if (!verdict.taken.ok()) return Refuse(verdict.taken);
    handler_ = method_.handler();
    handler_->Attach(std::make_shared<Port>(shared_from_this()));
    ReadOn();
  }

  // For a call that was refused: it has no handler, and no other code knows of it.
  void Refuse(const absl::Status& why) {
    MutexLock lock(&mutex_);
    over_ = true;
    Begin(finished_);
    stream_.Finish(ToGrpc(why), &finished_);
  }

  // Reads the next frame if the handler takes one. Once the stream is closed it takes none, so none is
  // answered.
  void ReadOn() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (reading_ || over_ || close_.has_value() || !handler_->TakesFrame()) return;
    reading_ = true;
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
    {
      MutexLock lock(&mutex_);
      reading_ = false;
    }
    ReadOn();
  }

  void Late(bool due) {
    if (due) context_.TryCancel();
  }

  void Written(bool ok) {
    if (ok) WriteOn();  // otherwise the call is over: Ended is on its way
  }

  // REQUIRES: the caller has set busy_. Ends with a write under way, with the call finished or over, or with
  // busy_ reset.
  void WriteOn() {
    while (true) {
      absl::Cord frame;
      if (handler_->NextFrame(&frame)) {
        outgoing_ = ToByteBuffer(frame);
        return BeginUnlessOver(write_, [this] { stream_.Write(outgoing_, &write_); });
      }
      MutexLock lock(&mutex_);
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
      MutexLock lock(&mutex_);
      over_ = true;
    }
    alarm_.Cancel();
    server_.gate_.End(peer_);
    if (handler_ != nullptr) {
      handler_->OnBroken(context_.IsCancelled() ? absl::CancelledError("the peer went away")
                                                : absl::OkStatus());
    }
    server_.live_.Remove();
  }

  const Method& method_;
  grpc::ServerCompletionQueue& queue_;
  ServerStreams& server_;
  std::string peer_;  // once it is accepted
  grpc::ServerContext context_;
  RawStream stream_;
  std::shared_ptr<world::AcceptedStream> handler_;  // null: refused
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;

  Operation accepted_{&Call::Accepted, nullptr};
  Operation read_{&Call::Read, nullptr};
  Operation write_{&Call::Written, nullptr};
  Operation finished_{&Call::Finished, nullptr};
  Operation ended_{&Call::Ended, nullptr};
  Operation late_{&Call::Late, nullptr};
  grpc::Alarm alarm_;  // set once, by Close

  Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;     // a thread writes, or is about to
  bool kicked_ ABSL_GUARDED_BY(mutex_) = false;   // Kick was called meanwhile
  bool over_ ABSL_GUARDED_BY(mutex_) = false;     // nothing more may be written
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // a frame, or what follows the last one; or it is handled
  std::optional<absl::Status> close_ ABSL_GUARDED_BY(mutex_);
};

ServerStreams::ServerStreams(grpc::ServerBuilder& builder, int threads, StreamGate::Limits limits,
                             CutPeer cut)
    : gate_(limits), cut_(std::move(cut)) {
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
    for (const auto& method : methods_) std::make_shared<Call>(*method, *queue, *this)->Wait();
    threads_.emplace_back([&queue] { Drain(*queue); });
  }
}

void ServerStreams::Drain(grpc::ServerCompletionQueue& queue) {
  using NextStatus = grpc::CompletionQueue::NextStatus;
  world::Soon soon;
  Spin spin(absl::ToInt64Nanoseconds(kSpin));
  void* tag = nullptr;
  bool ok = false;
  NextStatus status = NextStatus::TIMEOUT;
  const auto look = [&] {
    return (status = queue.AsyncNext(&tag, &ok, rpc::AtOnce())) != NextStatus::TIMEOUT;
  };
  while (true) {
    if (!soon.empty()) {
      if (!look()) {
        soon.KickAll();
        continue;
      }
    } else if (!LookAWhile(spin, look)) {
      status = queue.Next(&tag, &ok) ? NextStatus::GOT_EVENT : NextStatus::SHUTDOWN;
    }
    if (status == NextStatus::SHUTDOWN) break;
    OrderAfter(tag);
    auto* operation = static_cast<Call::Operation*>(tag);
    {
      const std::shared_ptr<Call> call = std::move(operation->call);
      (call.get()->*operation->done)(ok);
    }
    soon.Taken();
  }
}

void ServerStreams::Shutdown() {
  down_ = true;
  live_.AwaitNone();
  for (const auto& queue : queues_) queue->Shutdown();
  if (threads_.empty()) {  // never started; gRPC still requires its queues to be drained
    for (const auto& queue : queues_) Drain(*queue);
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace paceline::rpc
