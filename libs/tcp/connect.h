#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/carrier/descriptor.h"

namespace paceline::tcp {

// Resolves `address` (HOST:PORT; HOST may be a name, or an IPv6 address in brackets) and connects to the
// first of its addresses that takes the connection. Blocks: as long as the system's resolver does, and then
// up to `timeout`, which the addresses share. UNAVAILABLE: nobody took it, and the message says why. The
// socket does not block, and is set up.
absl::StatusOr<carrier::Descriptor> Connect(const std::string& address, absl::Duration timeout);

// For both ends of a connection that carries a stream: small frames leave at once, and the connection breaks
// when for ten seconds the other machine has not answered, or the peer has made no room for what is to be
// sent.
void SetUp(int socket);

}  // namespace paceline::tcp
