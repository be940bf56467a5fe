#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/carrier/loop.h"
#include "libs/shm/region.h"
#include "libs/world/port.h"

namespace paceline::shm {

struct DialOptions {
  RingSizes sizes = {};
  uint64_t frame_bytes_max = uint64_t{64} << 20;  // that the shard may send
  // A shard that makes no room in its ring for so long is given up, as gRPC does with one that answers no
  // ping.
  absl::Duration stuck_max = absl::InfiniteDuration();
  // The shard does not take the connection after all: dial it in another way for a while. Called before the
  // handler hears OnBroken, on the thread that carries.
  std::function<void(const absl::Status& why)> refused = nullptr;
};

// Opens a stream over shared memory to the shard whose socket is `path`. Never blocks, and does not call
// `handler` from within. NOT_FOUND: nobody listens there; any other error: it cannot be done, and the message
// says why. `handler` is then not called at all.
absl::StatusOr<std::unique_ptr<world::StreamPort>> Dial(carrier::Loop& loop, const std::string& path,
                                                        world::StreamKind kind,
                                                        std::shared_ptr<world::StreamHandler> handler,
                                                        DialOptions options = {});

}  // namespace paceline::shm
