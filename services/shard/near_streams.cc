#include "services/shard/near_streams.h"

#include <utility>

#include "libs/base/status.h"
#include "libs/rpc/channel.h"
#include "libs/shm/handover.h"
#include "services/shard/new_stream.h"

namespace paceline::shard {
namespace {

// The rings take from the budget of rows.
class RingBudget final : public shm::Budget {
 public:
  explicit RingBudget(Shard& shard) : memory_(shard.memory()) {}
  bool Take(uint64_t bytes) override {
    if (!memory_->Admits(bytes)) return false;
    memory_->Grown(static_cast<int64_t>(bytes));
    return true;
  }
  void Return(uint64_t bytes) override { memory_->Grown(-static_cast<int64_t>(bytes)); }

 private:
  const std::shared_ptr<log::RowMemory> memory_;
};

// nullptr: such streams are served at the other address.
std::shared_ptr<world::AcceptedStream> ServedNear(Shard& shard, world::StreamKind kind, bool clients,
                                                  bool shards) {
  const bool served = kind == world::StreamKind::kReplicate ? shards || shard.PeersAmongClients() : clients;
  return served ? NewStream(shard, kind) : nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NearStreams>> NearStreams::Serve(Shard& shard, const NearPlace& place) {
  ABSL_RETURN_IF_ERROR(shm::MakeFolder(place.folder));
  ABSL_ASSIGN_OR_RETURN(std::string path, shm::SocketPath(place.folder, place.address));
  ABSL_ASSIGN_OR_RETURN(std::string peer_path, shm::SocketPath(place.folder, place.peer_address));
  const bool same = path == peer_path;
  const auto budget = std::make_shared<RingBudget>(shard);
  std::unique_ptr<NearStreams> near(new NearStreams());
  ABSL_ASSIGN_OR_RETURN(
      near->clients_,
      shm::Server::Start({.path = std::move(path),
                          .threads = place.threads,
                          .frame_bytes_max = same ? rpc::kMessageBytesMax : kClientFrameBytesMax,
                          .budget = budget},
                         [&shard, same](world::StreamKind kind) {
                           return ServedNear(shard, kind, /*clients=*/true, /*shards=*/same);
                         }));
  if (same) return near;
  ABSL_ASSIGN_OR_RETURN(near->shards_, shm::Server::Start({.path = std::move(peer_path),
                                                           .peers = "a shard of this host",
                                                           .threads = place.threads,
                                                           .frame_bytes_max = rpc::kMessageBytesMax,
                                                           .budget = budget},
                                                          [&shard](world::StreamKind kind) {
                                                            return ServedNear(shard, kind, /*clients=*/false,
                                                                              /*shards=*/true);
                                                          }));
  return near;
}

NearStreams::Counts NearStreams::counts() const {
  return {.clients = clients_->counts(), .shards = shards_ == nullptr ? nullptr : shards_->counts()};
}

}  // namespace paceline::shard
