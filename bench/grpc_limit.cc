#include "bench/grpc_limit.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/rpc/channel.h"
#include "libs/world/real_clock.h"

namespace paceline::bench {
namespace {

constexpr size_t kWindowBytes = size_t{16} << 20;  // ShardOptions::window_bytes
constexpr size_t kRequestBytes = 600;              // of a pull for a megabyte in ranges
constexpr char kPush[] = "/bench/Push";
constexpr char kPull[] = "/bench/Pull";

// The tags that a completion queue returns.
enum class Tag : intptr_t { kStarted = 1, kRead, kWritten, kFinished };
void* ToPointer(Tag tag) {
  return reinterpret_cast<void*>(tag);
}

grpc::ByteBuffer Counter(uint64_t value) {
  char bytes[8];
  StoreU64(value, bytes);
  const grpc::Slice slice(bytes, sizeof(bytes));
  return grpc::ByteBuffer(&slice, 1);
}

uint64_t ReadCounter(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return 0;
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes.size() < 8 ? 0 : LoadU64(bytes.data());
}

}  // namespace

// Serves one call after the other. Of a push it counts the frames and acknowledges them, many at once where
// it can; of a pull it answers each request with a frame of as many bytes as the request's first number says.
class BareStream::Server {
 public:
  Server() {
    grpc::ServerBuilder builder;
    rpc::ApplyDataPlaneArguments(builder);
    builder.RegisterAsyncGenericService(&service_);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ != nullptr) thread_ = std::thread([this] { Run(); });
  }
  ~Server() {
    if (server_ != nullptr) server_->Shutdown();
    queue_->Shutdown();
    if (thread_.joinable()) thread_.join();
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
    }
  }
  int port() const { return server_ == nullptr ? 0 : port_; }

 private:
  void Run() {
    while (ServeOne()) {
    }
  }

  // False: the server shuts down.
  bool ServeOne() {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream(&context);
    service_.RequestCall(&context, &stream, queue_.get(), queue_.get(), ToPointer(Tag::kStarted));
    void* tag = nullptr;
    bool ok = false;
    if (!queue_->Next(&tag, &ok) || !ok) return false;
    const bool pull = context.method() == kPull;
    grpc::ByteBuffer incoming;
    stream.Read(&incoming, ToPointer(Tag::kRead));
    uint64_t received = 0;
    uint64_t answered = 0;
    bool writing = false;
    bool reading = true;
    bool finished = false;
    while (!finished || writing || reading) {
      if (!queue_->Next(&tag, &ok)) return false;
      switch (static_cast<Tag>(reinterpret_cast<intptr_t>(tag))) {
        case Tag::kRead:
          reading = ok;
          if (ok) {
            if (pull && received == 0) frame_ = std::string(ReadCounter(incoming), 'x');
            ++received;
            incoming.Clear();
            stream.Read(&incoming, ToPointer(Tag::kRead));
          } else {
            stream.Finish(grpc::Status::OK, ToPointer(Tag::kFinished));
          }
          break;
        case Tag::kWritten:
          writing = false;
          break;
        default:
          finished = true;
      }
      if (reading && !writing && answered < received) {
        writing = true;
        answered = pull ? answered + 1 : received;
        stream.Write(pull ? Frame() : Counter(received), ToPointer(Tag::kWritten));
      }
    }
    return true;
  }

  grpc::ByteBuffer Frame() const {
    const grpc::Slice slice(frame_.data(), frame_.size(), grpc::Slice::STATIC_SLICE);
    return grpc::ByteBuffer(&slice, 1);
  }

  grpc::AsyncGenericService service_;
  int port_ = 0;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::string frame_;
  std::thread thread_;
};

// The client's end of one call, on the caller's thread.
class BareStream::Call {
 public:
  Call(int port, const char* method)
      : stub_(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(),
                                        rpc::DataPlaneArguments())) {
    stream_ = stub_.PrepareCall(&context_, method, &queue_);
    stream_->StartCall(ToPointer(Tag::kStarted));
    started_ = Next() == Tag::kStarted;
    if (started_) stream_->Read(&incoming_, ToPointer(Tag::kRead));
  }
  ~Call() {
    context_.TryCancel();
    grpc::Status status;
    stream_->Finish(&status, ToPointer(Tag::kFinished));
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  // Sends `outgoing` `frames` times, at most `window` of them not acknowledged. `acknowledge` is how many an
  // answer acknowledges in all.
  absl::Status Exchange(const grpc::ByteBuffer& outgoing, uint64_t frames, uint64_t window,
                        const std::function<uint64_t(const grpc::ByteBuffer&)>& acknowledge) {
    uint64_t sent = 0;
    uint64_t acknowledged = 0;
    bool writing = false;
    while (started_ && acknowledged < frames) {
      if (!writing && sent < frames && sent - acknowledged < window) {
        writing = true;
        ++sent;
        stream_->Write(outgoing, ToPointer(Tag::kWritten));
      }
      switch (Next()) {
        case Tag::kRead:
          acknowledged = acknowledge(incoming_);
          incoming_.Clear();
          stream_->Read(&incoming_, ToPointer(Tag::kRead));
          break;
        case Tag::kWritten:
          writing = false;
          break;
        default:
          started_ = false;
      }
    }
    while (started_ && writing) writing = Next() != Tag::kWritten;
    return started_ ? absl::OkStatus() : absl::UnavailableError("bench: the bare gRPC stream broke");
  }

 private:
  Tag Next() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok) || !ok) return Tag::kFinished;
    return static_cast<Tag>(reinterpret_cast<intptr_t>(tag));
  }

  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer incoming_;
  bool started_ = false;
};

BareStream::BareStream() = default;
BareStream::~BareStream() = default;

absl::StatusOr<std::unique_ptr<BareStream>> BareStream::Open() {
  std::unique_ptr<BareStream> stream(new BareStream);
  stream->server_ = std::make_unique<Server>();
  stream->port_ = stream->server_->port();
  if (stream->port_ == 0) return absl::UnavailableError("bench: gRPC cannot listen on 127.0.0.1");
  return stream;
}

std::unique_ptr<BareStream> BareStream::To(int port) {
  std::unique_ptr<BareStream> stream(new BareStream);
  stream->port_ = port;
  return stream;
}

absl::StatusOr<Cost> BareStream::Push(size_t frame_bytes, size_t total_bytes) {
  const std::string frame(frame_bytes, 'x');  // outlives the call, which borrows it
  const grpc::Slice slice(frame.data(), frame.size(), grpc::Slice::STATIC_SLICE);
  const grpc::ByteBuffer outgoing(&slice, 1);
  Call call(port_, kPush);
  const uint64_t window = std::max<uint64_t>(1, kWindowBytes / frame_bytes);
  const auto exchange = [&](uint64_t frames, uint64_t before) {
    return call.Exchange(outgoing, frames, window,
                         [before](const grpc::ByteBuffer& ack) { return ReadCounter(ack) - before; });
  };
  ABSL_RETURN_IF_ERROR(exchange(window, 0));  // connects, and touches memory for the first time
  absl::Status status;
  const Cost cost = Measure(
      OwnCpuSeconds, [&] { status = exchange(std::max<uint64_t>(1, total_bytes / frame_bytes), window); });
  ABSL_RETURN_IF_ERROR(status);
  return cost;
}

absl::StatusOr<Cost> BareStream::Pull(size_t frame_bytes, size_t total_bytes) {
  Call call(port_, kPull);
  std::string request(kRequestBytes, 'x');
  StoreU64(frame_bytes, request.data());
  const grpc::Slice slice(request);
  const grpc::ByteBuffer outgoing(&slice, 1);
  const auto exchange = [&](uint64_t frames) {
    uint64_t answers = 0;
    return call.Exchange(outgoing, frames, frames, [&](const grpc::ByteBuffer&) { return ++answers; });
  };
  ABSL_RETURN_IF_ERROR(exchange(std::max<uint64_t>(1, kWindowBytes / frame_bytes)));
  absl::Status status;
  const Cost cost =
      Measure(OwnCpuSeconds, [&] { status = exchange(std::max<uint64_t>(1, total_bytes / frame_bytes)); });
  ABSL_RETURN_IF_ERROR(status);
  return cost;
}

absl::StatusOr<std::vector<float>> BareStream::PingPong(absl::Duration duration) {
  constexpr int kWarmUp = 100;
  Call call(port_, kPull);
  char request[8];
  StoreU64(sizeof(request), request);  // the server answers with as many bytes
  const grpc::Slice slice(request, sizeof(request));
  const grpc::ByteBuffer outgoing(&slice, 1);
  const auto once = [&] { return call.Exchange(outgoing, 1, 1, [](const grpc::ByteBuffer&) { return 1; }); };
  for (int i = 0; i < kWarmUp; ++i) ABSL_RETURN_IF_ERROR(once());
  std::vector<float> us;
  const absl::Time start = world::MonotonicNow();
  for (absl::Time now = start; us.empty() || now - start < duration;) {
    const absl::Time began = now;
    ABSL_RETURN_IF_ERROR(once());
    now = world::MonotonicNow();
    us.push_back(static_cast<float>(absl::ToDoubleMicroseconds(now - began)));
  }
  return us;
}

}  // namespace paceline::bench
