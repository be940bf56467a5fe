#include "libs/tcp/preamble.h"

#include <algorithm>
#include <cstring>

namespace paceline::tcp {
namespace {

constexpr world::StreamKind kKinds[] = {world::StreamKind::kPush, world::StreamKind::kPull,
                                        world::StreamKind::kSubscribe, world::StreamKind::kReplicate};

// From 1 on, as in the offers of shared memory.
uint32_t NumberOf(world::StreamKind kind) {
  return static_cast<uint32_t>(std::ranges::find(kKinds, kind) - std::begin(kKinds)) + 1;
}

}  // namespace

Preamble PreambleOf(world::StreamKind kind) {
  Preamble preamble = {};
  std::memcpy(preamble.magic, kMagic, sizeof(kMagic));
  preamble.kind = NumberOf(kind);
  return preamble;
}

std::optional<world::StreamKind> KindOf(const Preamble& preamble) {
  for (const world::StreamKind kind : kKinds) {
    if (NumberOf(kind) == preamble.kind) return kind;
  }
  return std::nullopt;
}

Begins HowItBegins(absl::string_view bytes) {
  const absl::string_view magic(kMagic, sizeof(kMagic));
  if (bytes.substr(0, magic.size()) != magic.substr(0, bytes.size())) return Begins::kOtherwise;
  return bytes.size() < sizeof(Preamble) ? Begins::kNotClear : Begins::kDirect;
}

}  // namespace paceline::tcp
