#include "libs/rpc/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/rpc/channel.h"

namespace paceline::rpc {
namespace {

constexpr uint64_t kReserveMax = 1024;
constexpr int kBacklog = 4096;
// So many connections are accepted in one go; then those that have not said whose they are are heard.
constexpr int kInOneGo = 64;
constexpr size_t kGuestsMax = 4096;
// The listener counts as full for kFullFor after a refusal, and checks every kFullLookMs whether it still is.
constexpr std::chrono::seconds kFullFor{3};
constexpr int kFullLookMs = 1'000;
// The pause after a failed accept.
constexpr int kStarvedLookMs = 100;

bool IsLocal(const sockaddr_storage& from) {
  if (from.ss_family == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(from).sin_addr.s_addr) >> 24) == 127;
  }
  if (from.ss_family != AF_INET6) return false;
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(from).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) != 0 ||
         (IN6_IS_ADDR_V4MAPPED(&address) != 0 && address.s6_addr[12] == 127);
}

// The address in gRPC's notation.
std::string PeerText(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = {};
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  if (from.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) != 0) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(v6.sin6_port));
}

void Set(int fd, int level, int option, int value) {
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

uint16_t PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

// Opens a socket that listens on `address`; `port`, unless 0, replaces its port. Returns -1 and errno on
// error.
int ListenOn(const addrinfo& address, uint16_t port) {
  sockaddr_storage to{};
  std::memcpy(&to, address.ai_addr, address.ai_addrlen);
  const bool v6 = to.ss_family == AF_INET6;
  if (port != 0) {
    (v6 ? reinterpret_cast<sockaddr_in6&>(to).sin6_port : reinterpret_cast<sockaddr_in&>(to).sin_port) =
        htons(port);
  }
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  // Not SO_REUSEPORT: with it two processes could silently share one port.
  Set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (v6) Set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  // Accepted connections inherit these.
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kKeepAliveTimeoutMs);
  if (bind(fd, reinterpret_cast<sockaddr*>(&to), address.ai_addrlen) == 0 && listen(fd, kBacklog) == 0)
    return fd;
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

// Errors of accept that concern only the connection it would have returned.
bool OfOneConnection(int error) {
  for (const int one : {EINTR, ECONNABORTED, EPROTO, EPERM, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET,
                        EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, ETIMEDOUT}) {
    if (error == one) return true;
  }
  return false;
}

bool OutOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

int OpenSpare() {
  return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

}  // namespace

DescriptorLimits LimitsOf(uint64_t all) {
  const uint64_t reserve = std::min(all / 4, kReserveMax);
  return {.all = all, .others = all - reserve, .local = all - reserve / 2};
}

DescriptorLimits LimitsNow() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return LimitsOf(1024);
  return LimitsOf(limit.rlim_cur);
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const std::string& address, const std::string& flag,
                                                         std::shared_ptr<ConnectionCounts> counts) {
  const size_t colon = address.rfind(':');
  std::string host = colon == std::string::npos ? address : address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  std::unique_ptr<Listener> listener(new Listener(std::move(counts)));
  const absl::Status bound = colon == std::string::npos
                                 ? absl::InvalidArgumentError("it has no port; expected HOST:PORT")
                                 : listener->Bind(host, address.substr(colon + 1));
  if (!bound.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address, " (", bound.message(),
                                               "); choose another ", flag, ", or port 0"));
  }
  listener->address_ = absl::StrCat(address.substr(0, colon), ":", PortOf(listener->doors_.front()));
  listener->spare_ = OpenSpare();
  listener->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (listener->wake_ < 0) return absl::UnavailableError(absl::StrCat("eventfd: ", std::strerror(errno)));
  return listener;
}

absl::Status Listener::Bind(const std::string& host, const std::string& port) {
  // IPv4's "any" address stands for both families, so that IPv6 clients are accepted too.
  const bool any = host.empty() || host == "0.0.0.0" || host == "::";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  uint16_t chosen = 0;
  std::string why = "it stands for no address";
  for (const char* name : {any ? "::" : host.c_str(), any ? "0.0.0.0" : nullptr}) {
    if (name == nullptr || !doors_.empty()) break;
    if (const int error = getaddrinfo(name, port.c_str(), &hints, &found); error != 0) {
      why = gai_strerror(error);
      continue;
    }
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      const int door = ListenOn(*at, chosen);
      if (door < 0) {
        why = std::strerror(errno);
        // A name may resolve to addresses that this machine does not have; an address in use is an error.
        if (errno == EADDRINUSE) break;
        continue;
      }
      doors_.push_back(door);
      chosen = PortOf(door);
    }
    freeaddrinfo(found);
  }
  return doors_.empty() ? absl::UnavailableError(why) : absl::OkStatus();
}

Listener::~Listener() {
  Stop();
  if (wake_ >= 0) close(wake_);
  if (spare_ >= 0) close(spare_);
}

void Listener::AddTo(grpc::ServerBuilder& builder) {
  server_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
}

void Listener::Start(OnFull told, TakeDirect direct) {
  told_ = std::move(told);
  direct_ = std::move(direct);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof(one));
    thread_.join();
  }
  for (const int door : doors_) close(door);
  doors_.clear();
  guests_.clear();
}

void Listener::Run() {
  std::vector<pollfd> ready;
  while (true) {
    ready.assign(1, {.fd = wake_, .events = POLLIN, .revents = 0});
    if (!starved_) {
      for (const int door : doors_) ready.push_back({.fd = door, .events = POLLIN, .revents = 0});
    }
    const size_t guests_from = ready.size();
    for (const Guest& guest : guests_) {
      ready.push_back({.fd = guest.connection.get(), .events = POLLIN, .revents = 0});
    }
    const int wait_ms = starved_ ? kStarvedLookMs : counts_->full || !guests_.empty() ? kFullLookMs : -1;
    (void)poll(ready.data(), ready.size(), wait_ms);
    if (ready[0].revents != 0) return;
    starved_ = false;
    if (counts_->full) LookForRoom();
    HearGuests(absl::MakeConstSpan(ready).subspan(guests_from));
    for (size_t i = 1; i < guests_from; ++i) {
      if (ready[i].revents != 0) TakeAll(ready[i].fd);
    }
  }
}

void Listener::TakeAll(int door) {
  for (int i = 0; i < kInOneGo && TakeOne(door); ++i) {
  }
}

bool Listener::TakeOne(int door) {
  sockaddr_storage from{};
  socklen_t size = sizeof(from);
  const int fd = accept4(door, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    Take(door, fd, from);
    return true;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
  if (OfOneConnection(errno)) return true;
  if (OutOfDescriptors(errno) && RefuseNext(door)) return true;
  starved_ = true;
  return false;
}

// The kernel assigns the lowest free descriptor, so its number shows how many are in use.
void Listener::Take(int door, int fd, const sockaddr_storage& from) {
  const DescriptorLimits limits = LimitsNow();
  if (static_cast<uint64_t>(fd) >= (IsLocal(from) ? limits.local : limits.others)) {
    close(fd);
    return Refused();
  }
  ++counts_->accepted;
  if (fd > highest_) highest_ = fd;
  if (direct_ == nullptr) return GiveToGrpc(door, carrier::Descriptor(fd));
  Guest guest{.connection = carrier::Descriptor(fd),
              .door = door,
              .until = std::chrono::steady_clock::now() + kSilentMax};
  if (Hear(guest)) return;
  if (guests_.size() >= kGuestsMax)
    guests_.erase(guests_.begin());  // the one that has been silent the longest
  guests_.push_back(std::move(guest));
}

void Listener::GiveToGrpc(int door, carrier::Descriptor connection) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters given;
  given.listener_fd = door;
  given.fd = connection.Release();
  server_->HandleNewConnection(&given);
}

// Whoever connects speaks first, over HTTP/2 too.
bool Listener::Hear(Guest& guest) {
  tcp::Preamble preamble;
  const int fd = guest.connection.get();
  const ssize_t got = recv(fd, &preamble, sizeof(preamble), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
  if (got == 0) return true;
  switch (tcp::HowItBegins({reinterpret_cast<const char*>(&preamble), static_cast<size_t>(got)})) {
    case tcp::Begins::kNotClear:
      if (std::exchange(guest.began, true)) return true;  // woken by its end, not by more
      Set(fd, SOL_SOCKET, SO_RCVLOWAT, sizeof(preamble));
      return false;
    case tcp::Begins::kDirect:
      Set(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
      (void)recv(fd, &preamble, sizeof(preamble), MSG_DONTWAIT);
      direct_(std::move(guest.connection), preamble);
      return true;
    case tcp::Begins::kOtherwise:
      Set(fd, SOL_SOCKET, SO_RCVLOWAT, 1);
      GiveToGrpc(guest.door, std::move(guest.connection));
      return true;
  }
  return true;
}

void Listener::HearGuests(absl::Span<const pollfd> ready) {
  const auto now = std::chrono::steady_clock::now();
  size_t at = 0;
  std::erase_if(guests_,
                [&](Guest& guest) { return ready[at++].revents != 0 ? Hear(guest) : guest.until <= now; });
}

// gRPC owns the descriptors of connections and does not report when it closes one, so this searches all of
// them. If a descriptor is reused just before the shutdown, that other connection is cut and reconnects.
void Listener::Cut(const std::string& peer) {
  const int last = highest_;
  for (int fd = 0; fd <= last; ++fd) {
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&from), &size) != 0 || PeerText(from) != peer) continue;
    // Ends the connection at once: nothing more is sent, and received data is discarded.
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    (void)shutdown(fd, SHUT_RDWR);
  }
}

bool Listener::RefuseNext(int door) {
  if (spare_ >= 0) close(spare_);
  const int fd = accept4(door, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) close(fd);
  spare_ = OpenSpare();
  Refused();
  return fd >= 0;
}

void Listener::Refused() {
  ++counts_->refused;
  refused_at_ = std::chrono::steady_clock::now();
  Tell(true);
}

void Listener::LookForRoom() {
  if (spare_ < 0) spare_ = OpenSpare();
  if (std::chrono::steady_clock::now() - refused_at_ < kFullFor) return;
  const int lowest = fcntl(wake_, F_DUPFD_CLOEXEC, 0);
  if (lowest < 0) return;
  close(lowest);
  if (static_cast<uint64_t>(lowest) < LimitsNow().others) Tell(false);
}

void Listener::Tell(bool full) {
  if (counts_->full.exchange(full) != full && told_ != nullptr) told_(full);
}

}  // namespace paceline::rpc
