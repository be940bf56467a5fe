#include "tests/sim/stranger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/feature_level.h"
#include "libs/wire/frame.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/packed.h"

namespace paceline::sim {
namespace {

// The stranger's end of a stream: keeps the replies.
class StrangersPort final : public world::StreamPort {
 public:
  void Kick() override {}
  void Close(absl::Status) override {}
};

template <class Reply>
std::vector<Reply> TakeReplies(world::AcceptedStream& stream) {
  std::vector<Reply> replies;
  absl::Cord bytes;
  while (stream.NextFrame(&bytes)) replies.emplace_back().ParseFromString(std::string(bytes));
  return replies;
}

}  // namespace

Stranger::Stranger(World& world, const std::vector<std::unique_ptr<SimShard>>& shards, uint64_t seed)
    : world_(world), shards_(shards), random_(seed ^ 0x57a46e25) {}

void Stranger::Begin() {
  world_.scheduler.After(absl::Milliseconds(20 + Below(200)), [this] { Next(); });
}

void Stranger::Next() {
  Begin();
  SimShard* shard = AnyShard();
  if (shard == nullptr) return;
  Below(2) == 0 ? SayToBePrimary(*shard) : PushForAnother(*shard);
}

SimShard* Stranger::AnyShard() {
  SimShard& shard = *shards_[Below(shards_.size())];
  if (!shard.up() || shard.host().Paused(world_.Now())) return nullptr;
  const auto view = shard.shard().view();
  return view->map == nullptr || view->self.incarnation == Incarnation() ? nullptr : &shard;
}

// An image of nothing, records of nothing, and beacons, of an epoch to come, or of this one by somebody else.
wire::ReplicateFrame Stranger::Claims(const shard::View& view) {
  wire::ReplicateFrame frame;
  for (uint32_t s = 0; s < view.map->SegmentCount(); ++s) {
    const uint64_t epoch = view.map->EpochOf(SegmentId(s)).v + Below(3) + (Below(4) == 0 ? 1'000'000 : 0);
    v1::ReplicateRequest::Segment segment;
    segment.set_segment(s);
    segment.set_epoch(epoch);
    segment.set_transfer(random_.Next() >> 1);
    if (Below(2) == 0) {
      segment.mutable_image()->set_segment(s);
      segment.mutable_image()->set_ring_bits(static_cast<uint32_t>(view.map->ring_bits()));
      segment.mutable_image()->set_lsn(1'000'000);
      segment.mutable_image()->set_epoch(epoch);
    }
    frame.Add(std::move(segment), absl::Cord());
    v1::Beacon& beacon = *frame.head.add_beacons();
    beacon.set_segment(s);
    beacon.set_epoch(epoch);
    beacon.set_number(1);
    beacon.set_lease_us(60'000'000);
  }
  return frame;
}

void Stranger::SayToBePrimary(SimShard& shard) {
  const auto view = shard.shard().view();
  const auto stream = shard.shard().NewReplicaStream();
  stream->Attach(std::make_shared<StrangersPort>());
  wire::ReplicateFrame hello;
  hello.head.mutable_hello()->set_feature_level(kFeatureLevel);
  hello.head.mutable_hello()->set_cluster(view->cluster);
  *hello.head.mutable_hello()->mutable_target() = wire::ToProto(view->self);
  // Of a start that there never is: one that is named may well say so.
  *hello.head.mutable_hello()->mutable_from() = wire::ToProto(ring::Member{
      .shard = ShardId(static_cast<uint32_t>(Below(shards_.size()))), .incarnation = Incarnation(1 << 20)});
  stream->OnFrame(wire::Encode(hello));
  stream->OnFrame(wire::Encode(Claims(*view)));
  for (const v1::ReplicateReply& reply : TakeReplies<v1::ReplicateReply>(*stream)) {
    const bool lent = reply.beacons_size() > 0;
    const bool followed = std::ranges::any_of(
        reply.acks(), [](const auto& ack) { return ack.state() != v1::ReplicateReply::FENCED; });
    if (lent || followed) {
      world_.verdict.Violated("Stranger",
                              absl::StrCat(shard.host().name, lent ? " lends its place to" : " follows",
                                           " somebody whom no coordinator named"));
    }
  }
  stream->OnBroken(absl::CancelledError("the stranger has gone"));
  world_.marks.Hit("a stranger says to be primary");
}

void Stranger::PushForAnother(SimShard& shard) {
  struct Aim {
    SegmentId segment;
    Epoch epoch;
    SessionId session;
    JobId job;
    PartNumber next = 0;
  };
  std::vector<Aim> aims;
  shard.ForEachPrimary([&](log::Primary& primary) {
    for (const auto& [id, session] : primary.segment().sessions()) {
      if (session.secret_sha256.empty()) {
        world_.verdict.Violated("Stranger", absl::StrCat("session ", id.v, " is anybody's"));
      }
      aims.push_back(
          {primary.segment().id(), primary.epoch(), id, session.job, session.applied.At(Line::kArrival) + 1});
    }
  });
  if (aims.empty()) return;
  const Aim& aim = aims[Below(aims.size())];
  const auto stream = shard.shard().NewPushStream();
  stream->Attach(std::make_shared<StrangersPort>());
  v1::PushRequest hello;
  hello.mutable_hello()->set_feature_level(kFeatureLevel);
  hello.mutable_hello()->set_job(aim.job.v);
  hello.mutable_hello()->set_session(aim.session.v);
  if (Below(2) == 0) hello.mutable_hello()->set_token(absl::StrFormat("%032x", random_.Next()));
  stream->OnFrame(absl::Cord(hello.SerializeAsString()));
  wire::Frame<v1::PushRequest> part;
  part.head.set_line(v1::LINE_ARRIVAL);
  wire::Append(wire::PartEntry{aim.segment, 0, aim.epoch, aim.next}, *part.head.mutable_parts());
  part.head.mutable_tick()->set_clock(1'000'000);
  stream->OnFrame(wire::Encode(part));
  const log::Primary* primary = shard.shard().context().host(aim.segment).primary();
  const auto* session = primary == nullptr ? nullptr : primary->segment().FindSession(aim.session);
  if (session != nullptr && session->applied.At(Line::kArrival) >= aim.next) {
    world_.verdict.Violated("Stranger", absl::StrCat(shard.host().name, " takes part ", aim.next,
                                                     " of session ", aim.session.v, " from somebody else"));
  }
  stream->OnBroken(absl::CancelledError("the stranger has gone"));
  world_.marks.Hit("a stranger pushes under another's number");
}

}  // namespace paceline::sim
