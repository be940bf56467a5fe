#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "libs/world/port.h"

// How a stream over TCP begins that gRPC does not carry. The end that dials sends a preamble to the port at
// which the shard serves gRPC. The shard answers with kMagic; then frames follow, both ways. No HTTP/2
// connection begins with these bytes, and no HTTP/2 server answers with them.
namespace paceline::tcp {

inline constexpr char kMagic[8] = {'P', 'A', 'C', 'E', 'L', 'N', '0', '1'};

struct Preamble {
  char magic[sizeof(kMagic)];
  uint32_t kind;  // of the stream; little-endian
  uint32_t reserved;
};
static_assert(sizeof(Preamble) == 16);

Preamble PreambleOf(world::StreamKind kind);
// nullopt: no such kind is known.
std::optional<world::StreamKind> KindOf(const Preamble& preamble);

// Whether a connection that begins with `bytes`, which may be fewer than a preamble's, is such a stream.
enum class Begins { kDirect, kOtherwise, kNotClear };
Begins HowItBegins(absl::string_view bytes);

}  // namespace paceline::tcp
