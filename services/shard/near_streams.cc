#include "services/shard/near_streams.h"

#include <utility>

#include "libs/base/status.h"
#include "libs/shm/handover.h"

namespace paceline::shard {
namespace {

// Larger frames end their stream; somewhat larger ones than are taken are refused by name, as over gRPC.
constexpr uint64_t kFrameBytesMax = uint64_t{16} << 20;

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

std::shared_ptr<world::AcceptedStream> NewStream(Shard& shard, world::StreamKind kind) {
  switch (kind) {
    case world::StreamKind::kPush:
      return shard.NewPushPullStream();
    case world::StreamKind::kPull:
      return shard.NewPullStream();
    case world::StreamKind::kSubscribe:
      return shard.NewSubscribeStream();
    case world::StreamKind::kReplicate:
      break;  // between shards, at their own address
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<shm::Server>> ServeNear(Shard& shard, const std::string& folder,
                                                       const std::string& address, int threads) {
  ABSL_RETURN_IF_ERROR(shm::MakeFolder(folder));
  ABSL_ASSIGN_OR_RETURN(std::string path, shm::SocketPath(folder, address));
  return shm::Server::Start({.path = std::move(path),
                             .threads = threads,
                             .frame_bytes_max = kFrameBytesMax,
                             .budget = std::make_shared<RingBudget>(shard)},
                            [&shard](world::StreamKind kind) { return NewStream(shard, kind); });
}

}  // namespace paceline::shard
