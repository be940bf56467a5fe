#include "libs/tcp/dialer.h"

#include <sys/socket.h>

#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/carrier/stream.h"
#include "libs/tcp/connect.h"
#include "libs/tcp/preamble.h"
#include "libs/tcp/socket_pipe.h"

namespace paceline::tcp {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(4);
constexpr uint64_t kFrameBytesMax = uint64_t{64} << 20;  // that a shard may send

absl::StatusOr<std::unique_ptr<SocketPipe>> Open(const std::string& address, world::StreamKind kind) {
  ABSL_ASSIGN_OR_RETURN(carrier::Descriptor socket, Connect(address, kConnectTimeout));
  const Preamble preamble = PreambleOf(kind);
  if (send(socket.get(), &preamble, sizeof(preamble), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(preamble)) {
    return absl::UnavailableError("the connection broke at once");
  }
  return std::make_unique<SocketPipe>(carrier::Side::kClient, std::move(socket), kFrameBytesMax);
}

// Whether an address that answers a dial so is left to gRPC for a while. One that has answered well before
// and is gone now is most likely dead, or behind something that forwards to nobody.
bool AvoidFor(const absl::Status& taken, bool known) {
  if (taken.ok() || absl::IsCancelled(taken)) return false;
  return !known || absl::IsUnimplemented(taken) || absl::IsDeadlineExceeded(taken);
}

}  // namespace

DirectDialer::DirectDialer(world::Dialer& grpc, std::shared_ptr<carrier::Loop> loop)
    : grpc_(grpc), loop_(std::move(loop)) {}

void DirectDialer::Answers::Hear(const std::string& address, const absl::Status& taken) {
  MutexLock lock(&mutex_);
  if (taken.ok() && known_.size() < kMost) known_.insert(address);
  if (AvoidFor(taken, known_.contains(address))) avoided_.Add(address);
}

std::unique_ptr<world::StreamPort> DirectDialer::Dial(const std::string& address, world::StreamKind kind,
                                                      std::shared_ptr<world::StreamHandler> handler) {
  if (!answers_->Avoids(address)) {
    if (auto port = DialDirect(address, kind, handler); port != nullptr) {
      direct_.fetch_add(1, std::memory_order_relaxed);
      return port;
    }
  }
  return grpc_.Dial(address, kind, std::move(handler));
}

std::unique_ptr<world::StreamPort> DirectDialer::DialDirect(
    const std::string& address, world::StreamKind kind,
    const std::shared_ptr<world::StreamHandler>& handler) {
  const auto answered = [answers = answers_, address](const absl::Status& taken) {
    answers->Hear(address, taken);
  };
  auto stream = std::make_shared<carrier::Stream>(
      loop_->waker(),
      carrier::Stream::Parts{
          .side = carrier::Side::kClient, .peer = address, .handler = handler, .answered = answered});
  // It holds neither the loop nor the stream: what these hold must not live on with it.
  const auto connect = [address, kind, to = std::weak_ptr(loop_), what = std::weak_ptr(stream)] {
    absl::StatusOr<std::unique_ptr<SocketPipe>> pipe = Open(address, kind);
    const std::shared_ptr<carrier::Loop> loop = to.lock();
    const std::shared_ptr<carrier::Stream> opened = what.lock();
    if (loop == nullptr || opened == nullptr) return;
    if (pipe.ok()) return loop->Give(opened, *std::move(pipe));
    opened->End(absl::UnavailableError(absl::StrCat(address, ": ", pipe.status().message())));
  };
  if (!loop_->Add(stream)) return nullptr;
  auto port = carrier::Stream::PortAtClient(stream);
  try {
    std::thread(connect).detach();
  } catch (const std::system_error& error) {
    stream->End(absl::UnavailableError(absl::StrCat(address, ": no thread to connect: ", error.what())));
  }
  return port;
}

}  // namespace paceline::tcp
