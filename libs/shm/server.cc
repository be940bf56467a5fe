#include "libs/shm/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/carrier/stream.h"
#include "libs/shm/ring_pipe.h"
#include "libs/world/real_clock.h"

namespace paceline::shm {
namespace {

// So many connections may be without an offer at once; an honest client sends one with its first breath.
constexpr size_t kGuestsMax = 32;
constexpr int kLookAgainMs = 100;

}  // namespace

// What a stream holds while its memory is there.
class Server::Held {
 public:
  Held(std::shared_ptr<Counts> counts, std::shared_ptr<Budget> budget, uint64_t bytes)
      : counts_(std::move(counts)), budget_(std::move(budget)), bytes_(bytes) {
    ++counts_->open;
    counts_->bytes += bytes_;
  }
  ~Held() {
    --counts_->open;
    counts_->bytes -= bytes_;
    if (budget_ != nullptr) budget_->Return(bytes_);
  }
  Held(const Held&) = delete;

 private:
  const std::shared_ptr<Counts> counts_;
  const std::shared_ptr<Budget> budget_;
  const uint64_t bytes_;
};

Server::Server(Options options, NewHandler handler)
    : options_(std::move(options)), handler_(std::move(handler)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Options options, NewHandler handler) {
  std::unique_ptr<Server> server(new Server(std::move(options), std::move(handler)));
  ABSL_ASSIGN_OR_RETURN(server->listener_, ListenAt(server->options_.path));
  server->file_ = SocketFile(server->options_.path);
  server->stop_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->stop_) return absl::UnavailableError(absl::StrCat("eventfd: ", std::strerror(errno)));
  for (int i = 0; i < server->options_.threads; ++i) {
    server->loops_.push_back(
        std::make_unique<carrier::Loop>(carrier::Loop::Options{.spin_max = server->options_.spin_max}));
    if (!server->loops_.back()->running()) {
      return absl::UnavailableError("no descriptors are left for shared memory; allow the process more");
    }
  }
  server->thread_ = std::thread([s = server.get()] { s->Run(); });
  return server;
}

Server::~Server() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof(one));
    thread_.join();
  }
  for (const auto& loop : loops_) loop->Stop(absl::CancelledError("the shard ends"));
}

void Server::Run() {
  bool starved = false;
  while (true) {
    std::vector<pollfd> ready{{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    if (!starved && guests_.size() < kGuestsMax) {
      ready.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
    }
    for (const Guest& guest : guests_) {
      ready.push_back({.fd = guest.socket.get(), .events = POLLIN, .revents = 0});
    }
    (void)poll(ready.data(), ready.size(), starved || !guests_.empty() ? kLookAgainMs : -1);
    if (ready[0].revents != 0) return;
    starved = AcceptAll();
    HearGuests(world::MonotonicNow());
  }
}

bool Server::AcceptAll() {
  while (guests_.size() < kGuestsMax) {
    absl::StatusOr<Descriptor> accepted = AcceptOne(listener_.get());
    if (accepted.ok()) {
      guests_.push_back(
          {.socket = *std::move(accepted), .until = world::MonotonicNow() + options_.offer_timeout});
      continue;
    }
    if (absl::IsPermissionDenied(accepted.status())) {
      ++counts_->refused;
      continue;
    }
    return absl::IsResourceExhausted(accepted.status());
  }
  return false;
}

void Server::HearGuests(absl::Time now) {
  const auto done = [&](Guest& guest) {
    const absl::Status heard = Hear(guest);
    if (absl::IsUnavailable(heard) && now < guest.until) return false;
    if (!heard.ok()) {
      ++counts_->refused;
      if (guest.socket) SendAnswer(guest.socket.get(), heard);
    }
    return true;
  };
  std::erase_if(guests_, done);
}

absl::Status Server::Hear(Guest& guest) {
  ABSL_ASSIGN_OR_RETURN(Offer offer, TakeOffer(guest.socket.get()));
  return Serve(guest, std::move(offer));
}

absl::Status Server::Serve(Guest& guest, Offer offer) {
  if (counts_->open >= options_.streams_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", options_.streams_max, " streams over shared memory already"));
  }
  ABSL_ASSIGN_OR_RETURN(const uint64_t bytes, Region::BytesOf(offer.sizes));
  if (options_.budget != nullptr && !options_.budget->Take(bytes)) {
    return absl::ResourceExhaustedError("the shard's memory budget has no room for the rings");
  }
  const auto held = std::make_shared<Held>(counts_, options_.budget, bytes);
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Region> region, Region::Open(std::move(offer.memory), offer.sizes));
  region->CloseDescriptor();
  const std::shared_ptr<world::AcceptedStream> handler = handler_(offer.kind);
  if (handler == nullptr) return absl::UnimplementedError("such streams are not served here");
  SendAnswer(guest.socket.get(), absl::OkStatus());
  carrier::Loop& loop = *loops_[next_loop_++ % loops_.size()];
  auto pipe = std::make_unique<RingPipe>(carrier::Side::kShard, std::move(guest.socket), std::move(region),
                                         options_.frame_bytes_max);
  auto stream =
      std::make_shared<carrier::Stream>(loop.waker(), carrier::Stream::Parts{.side = carrier::Side::kShard,
                                                                             .peer = options_.peers,
                                                                             .pipe = std::move(pipe),
                                                                             .handler = handler,
                                                                             .held = held});
  handler->Attach(carrier::Stream::PortAtShard(stream));
  ++counts_->taken;
  if (!loop.Add(std::move(stream))) return absl::CancelledError("the shard ends");
  return absl::OkStatus();
}

}  // namespace paceline::shm
