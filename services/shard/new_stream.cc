#include "services/shard/new_stream.h"

namespace paceline::shard {

std::shared_ptr<world::AcceptedStream> NewStream(Shard& shard, world::StreamKind kind) {
  switch (kind) {
    case world::StreamKind::kPush:
      return shard.NewPushPullStream();
    case world::StreamKind::kPull:
      return shard.NewPullStream();
    case world::StreamKind::kSubscribe:
      return shard.NewSubscribeStream();
    case world::StreamKind::kReplicate:
      return shard.NewReplicaStream();
  }
  return nullptr;
}

}  // namespace paceline::shard
