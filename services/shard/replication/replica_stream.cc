#include "services/shard/replication/replica_stream.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/replicate_frame.h"
#include "services/shard/streams/hello.h"

namespace paceline::shard {

void ReplicaStream::Refuse(std::string why) {
  {
    MutexLock lock(&mutex_);
    reply_.set_refused(std::move(why));
    dirty_ = true;
  }
  KickSoon();
}

void ReplicaStream::Greet(const v1::ReplicateHello& hello) {
  const auto view = context_.view();
  const ring::Member target = wire::MemberFromProto(hello.target());
  if (view->self.incarnation == Incarnation() || view->map == nullptr || view->stopping) {
    return Refuse(absl::StrCat(context_.options().name, " has not joined its cluster yet, or is stopping"));
  }
  if (hello.cluster() != view->cluster || target != view->self) {
    return Refuse(absl::StrCat("hello: ", ring::ToString(target), " of cluster ", hello.cluster(),
                               " is meant; this is ", ring::ToString(view->self), " of cluster ",
                               view->cluster));
  }
  from_ = wire::MemberFromProto(hello.from());
  greeted_ = true;
  {
    MutexLock lock(&mutex_);
    v1::ReplicateHello& answer = *reply_.mutable_hello();
    answer.set_feature_level(kFeatureLevel);
    answer.set_cluster(view->cluster);
    *answer.mutable_from() = wire::ToProto(view->self);
    dirty_ = true;
  }
  KickSoon();
}

void ReplicaStream::OnFrame(absl::Cord bytes) {
  auto frame = wire::DecodeReplicate(bytes);
  if (!frame.ok()) return Refuse(std::string(frame.status().message()));
  context_.probe().ReplicateReceived(Probe::Of(frame->head, bytes.size()));
  if (frame->head.has_hello()) return Greet(frame->head.hello());
  if (!from_.has_value()) return Refuse("hello: missing; the first frame of a stream is a hello, alone");
  if (context_.view()->emptied)
    return Refuse(absl::StrCat(context_.options().name, " has marked its folder as emptied"));
  HandOutBeacons(frame->head);
  if (frame->head.wishes_size() > 0) Carry(frame->head);
  HandOutSegments(*std::move(frame));
}

void ReplicaStream::HandOutSegments(wire::ReplicateFrame frame) {
  struct Sent {
    explicit Sent(wire::ReplicateFrame frame_in) : frame(std::move(frame_in)), bodies(frame.Bodies()) {}
    const wire::ReplicateFrame frame;
    const std::vector<absl::Cord> bodies;
  };
  const auto sent = std::make_shared<const Sent>(std::move(frame));
  std::vector<int> named;
  for (int s = 0; s < sent->frame.head.segments_size(); ++s) {
    if (sent->frame.head.segments(s).epoch() != 0) named.push_back(s);
  }
  const auto segment_of = [&](int s) { return SegmentId(sent->frame.head.segments(s).segment()); };
  context_.Deal(std::move(named), segment_of,
                [this, self = shared_from_this(), from = *from_,
                 ring_bits = context_.view()->map->ring_bits(), sent](const std::vector<int>& mine) {
                  std::vector<v1::ReplicateReply::Ack> acks;
                  acks.reserve(mine.size());
                  const bool takes_copies = context_.view()->takes_copies;
                  for (const int s : mine) {
                    const v1::ReplicateRequest::Segment& head = sent->frame.head.segments(s);
                    // It asks what is here, and is sent again.
                    if (!takes_copies && !context_.host(SegmentId(head.segment())).MayBeMember()) continue;
                    SegmentHost::Answer later = [stream = weak_from_this()](v1::ReplicateReply::Ack ack) {
                      if (const auto alive = stream.lock()) alive->Answer({std::move(ack)});
                    };
                    auto ack = context_.host(SegmentId(head.segment()))
                                   .Follow(from, head, sent->bodies[s], ring_bits, std::move(later));
                    if (ack.has_value()) acks.push_back(*std::move(ack));
                  }
                  if (!acks.empty()) Answer(std::move(acks));
                });
}

void ReplicaStream::HandOutBeacons(const v1::ReplicateRequest& head) {
  const auto segment_of = [](const v1::Beacon& beacon) { return SegmentId(beacon.segment()); };
  context_.Deal(head.beacons(), segment_of,
                [this, self = shared_from_this(), from = *from_](const std::vector<v1::Beacon>& mine) {
                  bool any = false;
                  for (const v1::Beacon& beacon : mine) {
                    SegmentHost& host = context_.host(SegmentId(beacon.segment()));
                    if (!host.OnBeacon(from, beacon)) continue;
                    any = true;
                    MutexLock lock(&mutex_);
                    *reply_.add_beacons() = host.AnswerTo(beacon);
                    dirty_ = true;
                  }
                  if (any) KickSoon();
                });
}

void ReplicaStream::Carry(const v1::ReplicateRequest& head) {
  v1::ChangeConfigsRequest request;
  const auto view = context_.view();
  request.set_cluster(view->cluster);
  *request.mutable_from() = wire::ToProto(*from_);
  *request.mutable_carried_by() = wire::ToProto(view->self);
  for (const v1::ConfigWish& wish : head.wishes()) {
    if (wish.kind() == v1::ConfigWish::SWAP || wish.kind() == v1::ConfigWish::KEEP)
      *request.add_wishes() = wish;
  }
  if (request.wishes_size() == 0 || links_ == nullptr) return;
  links_->Carry(std::move(request), [stream = weak_from_this()](v1::ChangeConfigsReply reply) {
    if (const auto alive = stream.lock()) alive->AnswerCarried(std::move(reply));
  });
}

void ReplicaStream::AnswerCarried(v1::ChangeConfigsReply reply) {
  {
    MutexLock lock(&mutex_);
    v1::ChangeConfigsReply& carried = *reply_.mutable_carried();
    for (auto& segment : *reply.mutable_segments()) carried.add_segments()->Swap(&segment);
    carried.set_map_version(std::max(carried.map_version(), reply.map_version()));
    dirty_ = true;
  }
  KickSoon();
}

void ReplicaStream::Answer(std::vector<v1::ReplicateReply::Ack> acks) {
  {
    MutexLock lock(&mutex_);
    for (v1::ReplicateReply::Ack& ack : acks) acks_[{ack.segment(), ack.transfer()}] = std::move(ack);
    dirty_ = true;
  }
  KickSoon();
}

bool ReplicaStream::NextFrame(absl::Cord* frame) {
  v1::ReplicateReply reply;
  {
    MutexLock lock(&mutex_);
    if (!dirty_) return false;
    reply.Swap(&reply_);
    for (auto& [where, ack] : acks_) *reply.add_acks() = std::move(ack);
    acks_.clear();
    dirty_ = false;
  }
  *frame = absl::Cord(reply.SerializeAsString());
  return true;
}

void ReplicaStream::OnFinished() {
  if (const auto to = port()) to->Close(absl::OkStatus());
}

void ReplicaStream::OnBroken(absl::Status) {
  std::shared_ptr<world::StreamPort> port;
  MutexLock lock(&mutex_);
  port = std::move(port_);
}

}  // namespace paceline::shard
