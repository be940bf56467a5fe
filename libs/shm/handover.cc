#include "libs/shm/handover.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::shm {
namespace {

constexpr char kMagic[8] = {'p', 'a', 'c', 'e', 's', 'h', 'm', '1'};
constexpr int kBacklog = 128;
constexpr size_t kTextMax = 200;

// Both ends run on one host, so numbers are as the host has them.
struct OfferBytes {
  char magic[8];
  uint32_t kind;
  uint32_t unused;
  uint64_t to_shard;
  uint64_t to_client;
};
struct AnswerBytes {
  char magic[8];
  uint32_t code;  // of absl::StatusCode; 0: taken
  uint32_t text_bytes;
  char text[kTextMax];
};

absl::Status Unavailable(absl::string_view what, absl::string_view path) {
  return absl::UnavailableError(absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

absl::StatusOr<sockaddr_un> AddressOf(absl::string_view path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket ", path, ": ", path.size(),
                                                   " characters; the system takes at most ",
                                                   sizeof(address.sun_path) - 1, "; use a shorter folder"));
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

absl::StatusOr<Descriptor> NewSocket() {
  Descriptor made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return absl::UnavailableError(absl::StrCat("socket: ", std::strerror(errno)));
  return made;
}

absl::Status CheckUser(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid()) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("the other end belongs to user ", peer.uid,
                                                  ", this process to ", geteuid(),
                                                  "; both must be the same"));
}

uint64_t InodeOf(const std::string& path) {
  struct stat file = {};
  return lstat(path.c_str(), &file) == 0 ? file.st_ino : 0;
}

// To take the place of a process that lives would leave its clients with a stranger, who refuses them for
// good.
absl::Status CheckNobodyListens(const std::string& path) {
  const absl::Status found = ConnectTo(path).status();
  if (!found.ok() && !absl::IsUnavailable(found)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "another process listens at ", path,
      ": it has the same address and the same folder; end it, or give each cluster a folder of its own"));
}

// Room for a few descriptors, so that a peer that sends more than one is told from one that sends one.
union Control {
  char bytes[CMSG_SPACE(4 * sizeof(int))];
  cmsghdr aligned;
};

// The descriptors that came with a message: all are closed again unless there is exactly one.
Descriptor OnlyDescriptor(msghdr& message) {
  Descriptor only;
  int count = 0;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    const size_t bytes = at->cmsg_len - CMSG_LEN(0);
    for (size_t i = 0; i + sizeof(int) <= bytes; i += sizeof(int), ++count) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(at) + i, sizeof(fd));
      only = Descriptor(fd);
    }
  }
  return count == 1 ? std::move(only) : Descriptor();
}

}  // namespace

absl::StatusOr<std::string> SocketPath(const std::string& folder, const std::string& address) {
  if (address.empty() || address.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("address '", address, "': expected HOST:PORT"));
  }
  std::string path = absl::StrCat(folder, "/", address);
  ABSL_RETURN_IF_ERROR(AddressOf(absl::StrCat(path, ".new")).status());
  return path;
}

absl::Status MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return Unavailable("cannot make the folder", folder);
}

absl::StatusOr<Descriptor> ListenAt(const std::string& path) {
  // Made beside its place and then moved there: no client meets a socket at which nobody listens yet.
  const std::string aside = absl::StrCat(path, ".new");
  ABSL_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(aside));
  ABSL_ASSIGN_OR_RETURN(Descriptor listener, NewSocket());
  ABSL_RETURN_IF_ERROR(CheckNobodyListens(path));
  unlink(aside.c_str());
  // The file gets the mode of the socket that makes it. To change it afterwards would be to follow whatever
  // link somebody has put in its place, in a folder that others may write to.
  if (fchmod(listener.get(), 0600) != 0 ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), kBacklog) != 0 || rename(aside.c_str(), path.c_str()) != 0) {
    return Unavailable("cannot listen at", path);
  }
  return listener;
}

SocketFile::SocketFile(std::string path) : path_(std::move(path)), inode_(InodeOf(path_)) {}

SocketFile& SocketFile::operator=(SocketFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(inode_, other.inode_);
  return *this;
}

SocketFile::~SocketFile() {
  if (!path_.empty() && inode_ != 0 && InodeOf(path_) == inode_) unlink(path_.c_str());
}

absl::StatusOr<Descriptor> AcceptOne(int listener) {
  Descriptor accepted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!accepted) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return absl::NotFoundError("no connection waits");
    if (errno == EINTR || errno == ECONNABORTED) return absl::PermissionDeniedError("it is gone again");
    return absl::ResourceExhaustedError(absl::StrCat("accept: ", std::strerror(errno)));
  }
  ABSL_RETURN_IF_ERROR(CheckUser(accepted.get()));
  return accepted;
}

absl::StatusOr<Offer> TakeOffer(int socket) {
  OfferBytes bytes = {};
  iovec part{.iov_base = &bytes, .iov_len = sizeof(bytes)};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return absl::UnavailableError("no offer yet");
  }
  Descriptor memory = got < 0 ? Descriptor() : OnlyDescriptor(message);
  if (got <= 0) return absl::CancelledError("the client is gone");
  if (got != sizeof(bytes) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || !memory ||
      std::memcmp(bytes.magic, kMagic, sizeof(kMagic)) != 0) {
    return absl::InvalidArgumentError("the offer has another form; the two ends may differ in release");
  }
  Offer offer{.sizes = {.to_shard = bytes.to_shard, .to_client = bytes.to_client},
              .memory = std::move(memory)};
  switch (bytes.kind) {
    case 1:
      offer.kind = world::StreamKind::kPush;
      return offer;
    case 2:
      offer.kind = world::StreamKind::kPull;
      return offer;
    case 3:
      offer.kind = world::StreamKind::kSubscribe;
      return offer;
    case 4:
      offer.kind = world::StreamKind::kReplicate;
      return offer;
    default:
      return absl::UnimplementedError(absl::StrCat("streams of kind ", bytes.kind, " are not served here"));
  }
}

void SendAnswer(int socket, const absl::Status& taken) {
  AnswerBytes answer = {};
  std::memcpy(answer.magic, kMagic, sizeof(kMagic));
  answer.code = static_cast<uint32_t>(taken.code());
  const absl::string_view text = taken.message().substr(0, kTextMax);
  answer.text_bytes = static_cast<uint32_t>(text.size());
  std::copy(text.begin(), text.end(), answer.text);
  (void)!send(socket, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
}

absl::StatusOr<Descriptor> ConnectTo(const std::string& path) {
  ABSL_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  ABSL_ASSIGN_OR_RETURN(Descriptor connected, NewSocket());
  if (connect(connected.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR) {
      return absl::NotFoundError(absl::StrCat("nobody listens at ", path));
    }
    if (errno == EACCES || errno == EPERM) {
      return absl::PermissionDeniedError(absl::StrCat(path, ": ", std::strerror(errno)));
    }
    return Unavailable("cannot connect to", path);
  }
  ABSL_RETURN_IF_ERROR(CheckUser(connected.get()));
  return connected;
}

absl::Status SendOffer(int socket, world::StreamKind kind, const RingSizes& sizes, int memory) {
  OfferBytes bytes = {};
  std::memcpy(bytes.magic, kMagic, sizeof(kMagic));
  switch (kind) {
    case world::StreamKind::kPush:
      bytes.kind = 1;
      break;
    case world::StreamKind::kPull:
      bytes.kind = 2;
      break;
    case world::StreamKind::kSubscribe:
      bytes.kind = 3;
      break;
    case world::StreamKind::kReplicate:
      bytes.kind = 4;
      break;
  }
  bytes.to_shard = sizes.to_shard;
  bytes.to_client = sizes.to_client;
  iovec part{.iov_base = &bytes, .iov_len = sizeof(bytes)};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = CMSG_SPACE(sizeof(int));
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &memory, sizeof(memory));
  if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(bytes)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the offer cannot be sent: ", std::strerror(errno)));
}

void Ring(int socket) {
  (void)!send(socket, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

absl::StatusOr<std::string> TakeMessage(int socket) {
  char bytes[sizeof(AnswerBytes)];
  const ssize_t got = recv(socket, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (got > 0) return std::string(bytes, static_cast<size_t>(got));
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return absl::NotFoundError("no message waits");
  }
  return absl::UnavailableError("the other end is gone");
}

bool ParseAnswer(absl::string_view message, absl::Status* taken) {
  AnswerBytes answer = {};
  if (message.size() != sizeof(answer)) return false;
  std::memcpy(&answer, message.data(), sizeof(answer));
  if (std::memcmp(answer.magic, kMagic, sizeof(kMagic)) != 0 || answer.text_bytes > kTextMax ||
      answer.code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
    return false;
  }
  *taken = absl::Status(static_cast<absl::StatusCode>(answer.code),
                        absl::string_view(answer.text, answer.text_bytes));
  return true;
}

}  // namespace paceline::shm
