#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/shm/server.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// Where a shard is found over shared memory.
struct NearPlace {
  std::string folder;        // of the sockets; made if it is missing
  std::string address;       // at which clients know the shard
  std::string peer_address;  // at which other shards know it
  int threads = 1;           // that carry streams of clients, and as many those of other shards
};

// The shard's streams over shared memory, at a socket for clients and one for other shards, whose names are
// its addresses. The same streams are served at each as over gRPC (Server). Adapters only.
class NearStreams {
 public:
  // UNAVAILABLE, naming the socket, if nobody can listen there. `shard` must outlive the streams.
  static absl::StatusOr<std::unique_ptr<NearStreams>> Serve(Shard& shard, const NearPlace& place);

  // Shared, since a page may show the counts for longer than the streams live.
  struct Counts {
    std::shared_ptr<const shm::Server::Counts> clients;
    std::shared_ptr<const shm::Server::Counts> shards;  // null: both have one address, and so one socket
  };
  Counts counts() const;

 private:
  NearStreams() = default;

  std::unique_ptr<shm::Server> clients_;
  std::unique_ptr<shm::Server> shards_;  // null: as in Counts
};

// Adds the counters to a page, a metrics::Families.
template <class Families>
void ShowNear(Families& families, const NearStreams::Counts& counts) {
  const auto each = [&counts](auto show) {
    show("clients", *counts.clients);
    if (counts.shards != nullptr) show("shards", *counts.shards);
  };
  each([&](const char* from, const shm::Server::Counts& of) {
    families.Gauge("paceline_shard_shared_memory_streams",
                   "Streams over shared memory that are open now, by whose socket they came to.",
                   static_cast<double>(of.open), {{"from", from}});
  });
  each([&](const char* from, const shm::Server::Counts& of) {
    families.Gauge("paceline_shard_shared_memory_bytes",
                   "Memory of these streams' rings; part of the memory budget.",
                   static_cast<double>(of.bytes), {{"from", from}});
  });
  each([&](const char* from, const shm::Server::Counts& of) {
    for (const auto& [result, value] :
         {std::pair("taken", of.taken.load()), std::pair("refused", of.refused.load())}) {
      families.Counter("paceline_shard_shared_memory_offers_total",
                       "Streams that were offered over shared memory, by what became of them.",
                       static_cast<double>(value), {{"from", from}, {"result", result}});
    }
  });
}

}  // namespace paceline::shard
