#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "libs/ring/segment_map.h"
#include "libs/wire/replicate_frame.h"
#include "paceline/v1/replication.pb.h"
#include "services/shard/replication/replica_links.h"
#include "services/shard/streams/served_stream.h"

namespace paceline::shard {

// The accepting end of a Replicate stream: hands frames of another shard's primaries to the segments that
// follow them, and gathers the answers. The executor of the segment answers a beacon: a shard whose executors
// stand still lends no lease. Frames arrive on one thread at a time.
class ReplicaStream : public ServedStream, public std::enable_shared_from_this<ReplicaStream> {
 public:
  // Without `links` it carries no wishes.
  ReplicaStream(Context& context, std::shared_ptr<ReplicaLinks> links)
      : ServedStream(context, "replicate"), links_(std::move(links)) {}

  void OnFrame(absl::Cord bytes) override;
  bool NextFrame(absl::Cord* frame) override;
  void OnFinished() override;
  void OnBroken(absl::Status why) override;

 private:
  void Greet(const v1::ReplicateHello& hello);
  void Refuse(std::string why);
  void HandOutBeacons(const v1::ReplicateRequest& head);
  void HandOutSegments(wire::ReplicateFrame frame);
  // Asks the coordinator for the wishes of a sender that does not reach it.
  void Carry(const v1::ReplicateRequest& head);
  void AnswerCarried(v1::ChangeConfigsReply reply);
  void Answer(std::vector<v1::ReplicateReply::Ack> acks);

  const std::shared_ptr<ReplicaLinks> links_;
  std::optional<ring::Member> from_;  // after its hello

  v1::ReplicateReply reply_ ABSL_GUARDED_BY(mutex_);  // all that gathered, except acks
  // The newest of each segment and exchange: it says all that those before it said.
  std::map<std::pair<uint32_t, uint64_t>, v1::ReplicateReply::Ack> acks_ ABSL_GUARDED_BY(mutex_);
  bool dirty_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::shard
