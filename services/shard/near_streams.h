#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/shm/server.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// Serves the shard's streams of clients over shared memory as well, at a socket in `folder` whose name is
// `address`, at which clients know the shard. Adapter only. UNAVAILABLE, naming the socket, if that fails.
// `shard` must outlive the server.
absl::StatusOr<std::unique_ptr<shm::Server>> ServeNear(Shard& shard, const std::string& folder,
                                                       const std::string& address, int threads);

// Adds the counters to a page, a metrics::Families.
template <class Families>
void ShowNear(Families& families, const shm::Server::Counts& counts) {
  families.Gauge("paceline_shard_shared_memory_streams", "Streams over shared memory that are open now.",
                 static_cast<double>(counts.open), {});
  families.Gauge("paceline_shard_shared_memory_bytes",
                 "Memory of these streams' rings; part of the memory budget.",
                 static_cast<double>(counts.bytes), {});
  const auto show = [&](const char* result, uint64_t value) {
    families.Counter("paceline_shard_shared_memory_offers_total",
                     "Streams that clients offered over shared memory, by what became of them.",
                     static_cast<double>(value), {{"result", result}});
  };
  show("taken", counts.taken);
  show("refused", counts.refused);
}

}  // namespace paceline::shard
