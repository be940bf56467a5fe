// A pull stream of a shard: arbitrary frames. Each is answered once, at the latest when its time is up, and a
// good pull is served afterwards.
#include "libs/ring/placement.h"
#include "libs/wire/partial.h"
#include "tests/fuzz/shard_stream.h"

namespace paceline {
namespace {

using fuzz::Bytes;
using fuzz::Part;
using fuzz::ShardUnderFire;
using PullWire = fuzz::Wire<v1::PullRequest, v1::PullReply>;

wire::Frame<v1::PullRequest> GoodPull(uint64_t request, uint64_t min_clock, uint64_t own) {
  wire::Frame<v1::PullRequest> frame;
  frame.head.set_request(request);
  frame.head.set_table(fuzz::kSparse);
  frame.head.set_min_clock(min_clock);
  frame.head.set_parts(Part(1, 1, own) + Part(0, 2, own));
  frame.keys =
      Bytes<uint64_t>({ShardUnderFire::KeyIn(1), ShardUnderFire::KeyIn(0), ShardUnderFire::KeyIn(0)});
  return frame;
}

std::string Encoded(const wire::Frame<v1::PullRequest>& frame) {
  return std::string(wire::Encode(frame));
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  const std::string hello = PullWire::HelloOf(kWorker);
  const auto placement = ring::Placement::Ranged(TableId(kRanged), kRingBits, uint64_t{1} << 40, 2).value();
  uint64_t first = 0;
  while (placement.Of(first) != SegmentId(2)) first += placement.RowsPerBlock();
  wire::Frame<v1::PullRequest> ranges;
  ranges.head.set_request(3);
  ranges.head.set_table(kRanged);
  ranges.head.set_key_form(v1::KEY_FORM_RANGES);
  ranges.head.set_reader_clock_plus_one(4);
  ranges.head.set_parts(Part(2, 2, 0));
  ranges.keys = Bytes<uint64_t>({first, 3, first + 10, 1});
  wire::Frame<v1::PullRequest> changes = GoodPull(6, 0, 0);
  changes.head.set_key_form(v1::KEY_FORM_CHANGES);
  changes.head.set_parts(Part(1, 1, 0) + Part(0, 1, 0));
  changes.keys = Bytes<uint64_t>({0, 4, 1, 2});
  wire::Frame<v1::PullRequest> reduction = GoodPull(7, 0, 0);
  reduction.head.set_key_form(v1::KEY_FORM_REDUCTION);
  *reduction.head.mutable_reduction() =
      wire::ToProto(table::ReduceQuery{.op = table::ReduceOp::kTop, .column = 0, .k = 3, .slice_values = 1});
  reduction.head.set_parts(Part(1, 2, 0) + Part(0, 2, 0));
  reduction.keys = Bytes<uint64_t>({0, 0, 77, 1});
  wire::Frame<v1::PullRequest> elsewhere = GoodPull(4, 0, 0);
  elsewhere.head.set_parts(Part(3, 1, 0) + Part(0, 2, 0, /*epoch=*/7));
  wire::Frame<v1::PullRequest> hasty = GoodPull(5, 3, 0);
  hasty.head.set_timeout_ms(1);
  return {{"pull", JoinFrames({hello, Encoded(GoodPull(1, 0, 0))})},
          {"parked_for_the_min_clock", JoinFrames({hello, Encoded(GoodPull(1, 2, 0)), Encoded(hasty)})},
          {"parked_for_its_own_part", JoinFrames({hello, Encoded(GoodPull(2, 0, 9))})},
          {"ranges", JoinFrames({hello, Encoded(ranges)})},
          {"changes", JoinFrames({hello, Encoded(changes), Encoded(changes)})},
          {"reduction", JoinFrames({hello, Encoded(reduction)})},
          {"elsewhere", JoinFrames({hello, Encoded(elsewhere)})},
          {"no_hello", JoinFrames({Encoded(GoodPull(1, 0, 0))})}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  ShardUnderFire fire;
  PullWire wire(fire.shard.NewPullStream());
  const std::vector<std::string> frames = fuzz::SplitFrames({reinterpret_cast<const char*>(data), size});
  for (const std::string& frame : frames) wire.Send(frame);
  fire.clock.now += fire.shard.options().pull_timeout_max;
  fire.shard.OnTime();
  FUZZ_CHECK(wire.replies.size() == frames.size(), "each frame is answered once");
  for (const auto& reply : wire.replies) {
    const auto certificates = wire::ParseCertificates(reply.head.certificates());
    FUZZ_CHECK(certificates.ok(), "certificates can be read");
    size_t refused = 0;
    for (const wire::Certificate& certificate : *certificates) refused += certificate.served ? 0 : 1;
    FUZZ_CHECK(refused == 0 || refused == static_cast<size_t>(reply.head.refusals_size()),
               "each part has a certificate or a refusal");
  }
  wire.replies.clear();

  // A stream has one caller all its life. Whoever that is, a pull is answered.
  wire.Hello(fuzz::kReader);
  FUZZ_CHECK(wire.replies.size() == 1, "a hello is answered");
  const bool welcomed = wire.replies[0].head.has_welcome();
  wire.Send(GoodPull(76, 0, 0));
  FUZZ_CHECK(wire.replies.size() == 2 && wire.replies[1].head.request() == 76, "a pull is answered");
  PullWire fresh(fire.shard.NewPullStream());
  fresh.Hello(fuzz::kReader);
  FUZZ_CHECK(fresh.replies.size() == 1 && fresh.replies[0].head.has_welcome(), "a hello is welcomed");
  fresh.Send(GoodPull(77, 0, 0));
  FUZZ_CHECK(fresh.replies.size() == 2, "a good pull is answered");
  for (const auto& reply : {fresh.replies[1], welcomed ? wire.replies[1] : fresh.replies[1]}) {
    FUZZ_CHECK(reply.head.refusals_size() == 0, "a good pull is not refused");
    FUZZ_CHECK(reply.values.size() == 3 * 2 * sizeof(float), "a good pull has its values");
  }
  return 0;
}
