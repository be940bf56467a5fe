// A push stream of a shard: arbitrary frames, with and without a hello. The stream and the shard live on,
// every frame is counted as received, and a good part is taken afterwards.
#include "tests/fuzz/shard_stream.h"

namespace paceline {
namespace {

using fuzz::Bytes;
using fuzz::Part;
using fuzz::ShardUnderFire;
using PushWire = fuzz::Wire<v1::PushRequest, v1::PushReply>;

wire::Frame<v1::PushRequest> GoodPart(uint64_t number, uint64_t clock) {
  wire::Frame<v1::PushRequest> frame;
  frame.head.set_table(fuzz::kSparse);
  frame.head.set_line(v1::LINE_ARRIVAL);
  frame.head.set_clock(clock);
  frame.head.set_parts(Part(0, 1, number));
  frame.keys = Bytes<uint64_t>({ShardUnderFire::KeyIn(0)});
  frame.values = Bytes<float>({1, 2});
  return frame;
}

std::string Encoded(const wire::Frame<v1::PushRequest>& frame) {
  return std::string(wire::Encode(frame));
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  const std::string hello = PushWire::HelloOf(kWorker);
  wire::Frame<v1::PushRequest> two_parts = GoodPart(1, 0);
  two_parts.head.set_parts(Part(0, 1, 1) + Part(1, 1, 1));
  two_parts.keys = Bytes<uint64_t>({ShardUnderFire::KeyIn(0), ShardUnderFire::KeyIn(1)});
  two_parts.values = Bytes<float>({1, 2, 3, 4});
  wire::Frame<v1::PushRequest> empty = GoodPart(2, 0);
  empty.head.set_parts(Part(0, 0, 2));
  empty.keys.Clear();
  empty.values.Clear();
  wire::Frame<v1::PushRequest> ranges = GoodPart(1, 0);
  ranges.head.set_table(kRanged);
  ranges.head.set_key_form(v1::KEY_FORM_RANGES);
  const auto placement = ring::Placement::Ranged(TableId(kRanged), kRingBits, uint64_t{1} << 40, 2).value();
  uint64_t first = 0;
  while (placement.Of(first) != SegmentId(0)) first += placement.RowsPerBlock();
  ranges.keys = Bytes<uint64_t>({first, 3});
  ranges.values = Bytes<float>({1, 2, 3, 4, 5, 6});
  wire::Frame<v1::PushRequest> tick;
  tick.head.mutable_tick()->set_clock(1);
  wire::Append(wire::Seal{.segment = SegmentId(0), .run = kSegments, .line = Line::kArrival, .number = 1},
               *tick.head.mutable_tick()->mutable_seals());
  wire::Frame<v1::PushRequest> newer = GoodPart(1, 0);
  newer.head.set_catalogue_version(9);
  return {{"pushes", JoinFrames({hello, Encoded(GoodPart(1, 0)), Encoded(empty), Encoded(GoodPart(3, 0))})},
          {"two_parts_and_a_tick", JoinFrames({hello, Encoded(two_parts), Encoded(tick)})},
          {"tick_before_its_parts", JoinFrames({hello, Encoded(tick), Encoded(GoodPart(1, 0))})},
          {"ranges", JoinFrames({hello, Encoded(ranges)})},
          {"reader", JoinFrames({PushWire::HelloOf(kReader), Encoded(GoodPart(1, 7))})},
          {"newer_catalogue", JoinFrames({hello, Encoded(newer)})},
          {"no_hello", JoinFrames({Encoded(GoodPart(1, 0))})}};
}

void PushTakesAGoodPart(ShardUnderFire& fire, PushWire& stream) {
  const log::Segment& segment = fire.shard.context().host(SegmentId(0)).primary()->segment();
  const uint64_t number = segment.FindSession(SessionId(fuzz::kReader))->applied.At(Line::kArrival) + 1;
  const uint64_t received = stream.replies.back().head.received();
  stream.replies.clear();
  stream.Send(GoodPart(number, ~uint64_t{0}));
  FUZZ_CHECK(!stream.replies.empty(), "a good part is answered");
  const v1::PushReply& reply = stream.replies.back().head;
  FUZZ_CHECK(reply.refusals_size() == 0, "a good part is not refused");
  const auto marks = wire::ParseMarks(reply.committed());
  FUZZ_CHECK(marks.ok() && marks->size() == 1 && marks->front().number == number, "a good part is committed");
  FUZZ_CHECK(reply.received() >= received + 1, "every frame is counted");
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  ShardUnderFire fire;
  PushWire wire(fire.shard.NewPushStream());
  for (const std::string& frame : fuzz::SplitFrames({reinterpret_cast<const char*>(data), size}))
    wire.Send(frame);
  wire.replies.clear();

  // Somebody else's good part: on this stream if it has no caller yet, whatever was sent on it before, or
  // else on one beside it.
  wire.Hello(fuzz::kReader);
  FUZZ_CHECK(!wire.replies.empty(), "a hello is answered");
  const bool welcomed = std::any_of(wire.replies.begin(), wire.replies.end(),
                                    [](const auto& reply) { return reply.head.has_welcome(); });
  PushWire fresh(fire.shard.NewPushStream());
  fresh.Hello(fuzz::kReader);
  FUZZ_CHECK(fresh.replies.size() == 1 && fresh.replies[0].head.has_welcome(), "a hello is welcomed");
  PushTakesAGoodPart(fire, fresh);
  if (welcomed) PushTakesAGoodPart(fire, wire);
  return 0;
}
