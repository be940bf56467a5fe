#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/shm/region.h"
#include "libs/world/port.h"

// How a client and a shard of one host meet: at a UNIX socket in a folder that both see. The client makes the
// memory of the connection and hands its descriptor over, in one message; the shard answers whether it takes
// it. A shard that dials another one is a client here. The socket stays open. Its end is the end of the peer,
// and a message of one byte on it wakes the peer.
//
// Each end accepts only a peer with its own user id. Nothing here blocks.
namespace paceline::shm {

// What the client asks for.
struct Offer {
  world::StreamKind kind = world::StreamKind::kPush;
  RingSizes sizes;
  Descriptor memory;
};

// The socket of the shard that is dialed at `address` (HOST:PORT). INVALID_ARGUMENT: the path would be
// too long for a socket, or `address` is none.
absl::StatusOr<std::string> SocketPath(const std::string& folder, const std::string& address);

// -- shard --

// Makes the folder if it is missing, for this user only; UNAVAILABLE, naming it, if that fails.
absl::Status MakeFolder(const std::string& folder);
// Listens at `path`. Takes the place of a socket that an earlier process has left there; UNAVAILABLE: a
// process that lives listens there, or the system refuses.
absl::StatusOr<Descriptor> ListenAt(const std::string& path);
// Removes the socket at `path`, if it is still the one of `listener`.
class SocketFile {
 public:
  SocketFile() = default;
  explicit SocketFile(std::string path);
  SocketFile(SocketFile&& other) noexcept { *this = std::move(other); }
  SocketFile& operator=(SocketFile&& other) noexcept;
  ~SocketFile();

 private:
  std::string path_;
  uint64_t inode_ = 0;
};
// The next connection; NOT_FOUND: there is none. PERMISSION_DENIED: the next one was of another user, and is
// closed.
absl::StatusOr<Descriptor> AcceptOne(int listener);
// The offer that waits at `socket`; UNAVAILABLE: there is none yet. Any other error: the peer breaks the
// rules, or is gone.
absl::StatusOr<Offer> TakeOffer(int socket);
// Tells the client whether its offer is taken.
void SendAnswer(int socket, const absl::Status& taken);

// -- client --

// NOT_FOUND: nobody listens at `path`. PERMISSION_DENIED: another user does. UNAVAILABLE: any other reason.
absl::StatusOr<Descriptor> ConnectTo(const std::string& path);
absl::Status SendOffer(int socket, world::StreamKind kind, const RingSizes& sizes, int memory);

// -- both --

// Wakes the peer. What a peer does not take is lost, and need not be repeated: it has more to wake it.
void Ring(int socket);
// Takes the next message, without descriptors that may come with it. NOT_FOUND: there is none now;
// UNAVAILABLE: the peer is gone.
absl::StatusOr<std::string> TakeMessage(int socket);
// True: `message` is an answer; *taken says what it says.
bool ParseAnswer(absl::string_view message, absl::Status* taken);

}  // namespace paceline::shm
