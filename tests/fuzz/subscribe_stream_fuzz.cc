// A subscribe stream of a shard: arbitrary frames behind a hello. Whatever they were, a good set is told of
// what changes afterwards, and nothing is left of a stream that has ended.
#include "libs/log/seen_rounds.h"
#include "tests/fuzz/shard_stream.h"

namespace paceline {
namespace {

using fuzz::Bytes;
using fuzz::Part;
using fuzz::ShardUnderFire;
using SubscribeWire = fuzz::Wire<v1::SubscribeRequest, v1::SubscribeUpdate>;
using PushWire = fuzz::Wire<v1::PushRequest, v1::PushReply>;

std::string Hello(uint64_t session) {
  v1::SubscribeRequest request;
  request.mutable_hello()->set_feature_level(2);
  request.mutable_hello()->set_job(1);
  request.mutable_hello()->set_session(session);
  return request.SerializeAsString();
}

wire::Frame<v1::SubscribeRequest> Join(uint64_t set) {
  wire::Frame<v1::SubscribeRequest> frame;
  frame.head.set_table(fuzz::kSparse);
  frame.head.set_set(set);
  frame.head.set_parts(Part(1, 1, 0) + Part(0, 2, 0));
  frame.keys =
      Bytes<uint64_t>({ShardUnderFire::KeyIn(1), ShardUnderFire::KeyIn(0), ShardUnderFire::KeyIn(0)});
  return frame;
}

std::string Encoded(const wire::Frame<v1::SubscribeRequest>& frame) {
  return std::string(wire::Encode(frame));
}

// Both workers end their first clock, with nothing pushed.
void EndClock(ShardUnderFire& fire) {
  for (const uint64_t session : {fuzz::kWorker, fuzz::kSlowWorker}) {
    PushWire push(fire.shard.NewPushStream());
    push.Hello(session);
    wire::Frame<v1::PushRequest> tick;
    tick.head.mutable_tick()->set_clock(1);
    wire::Append(wire::Seal{.segment = SegmentId(0), .run = fuzz::kSegments, .number = 0},
                 *tick.head.mutable_tick()->mutable_seals());
    push.Send(tick);
  }
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  wire::Frame<v1::SubscribeRequest> leave = Join(2);
  leave.head.set_leave(true);
  leave.head.set_confirmed(3);
  wire::Frame<v1::SubscribeRequest> all = leave;
  all.head.set_set(3);
  all.head.set_parts(Part(1, 0, 0));
  all.keys = absl::Cord();
  wire::Frame<v1::SubscribeRequest> elsewhere = Join(1);
  elsewhere.head.set_parts(Part(3, 1, 0) + Part(0, 2, 0, /*epoch=*/7));
  wire::Frame<v1::SubscribeRequest> reads;
  reads.head.set_beat(9);
  for (const auto kind : {wire::Reading::Kind::kJoins, wire::Reading::Kind::kReads}) {
    wire::Append(wire::Reading{.segment = SegmentId(0), .kind = kind, .round = 1, .wish = 1},
                 *reads.head.mutable_reading());
  }
  return {{"join", JoinFrames({Encoded(Join(1)), Encoded(Join(5))})},
          {"leave", JoinFrames({Encoded(Join(1)), Encoded(leave), Encoded(all)})},
          {"elsewhere", JoinFrames({Encoded(elsewhere)})},
          {"hello", JoinFrames({Hello(kWorker)})},
          {"reads", JoinFrames({Encoded(reads), Encoded(reads)})}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  ShardUnderFire fire;
  {
    // A reader under a value bound counts until its lease is over, wherever its stream is.
    SubscribeWire wire(fire.shard.NewSubscribeStream(), [&fire] {
      for (int i = 0; i < 3; ++i) {
        fire.clock.now += log::SeenRounds::kAsksNoMore;
        fire.shard.OnTime();
      }
    });
    wire.Send(Hello(fuzz::kWorker));
    for (const std::string& frame : fuzz::SplitFrames({reinterpret_cast<const char*>(data), size})) {
      wire.Send(frame);
    }
  }
  SubscribeWire fresh(fire.shard.NewSubscribeStream());
  fresh.Send(Hello(fuzz::kReader));
  fresh.Send(Join(1));
  EndClock(fire);
  size_t updates = 0;
  for (const auto& reply : fresh.replies) {
    FUZZ_CHECK(reply.head.refusals_size() == 0, "a good set is not refused");
    const auto certificates = wire::ParseCertificates(reply.head.certificates());
    FUZZ_CHECK(certificates.ok(), "certificates can be read");
    updates += certificates->size();
  }
  FUZZ_CHECK(updates == 2, "each segment tells once");
  return 0;
}
