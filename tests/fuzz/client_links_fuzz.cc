// Messages of shards to a client, on both kinds of stream: arbitrary frames while pushes, pulls and ticks are
// under way. The client goes on or fails with a status; every operation ends. An input is a sequence of
// frames, each after a byte that says for which stream it is.
#include "sdk/cpp/src/testing/core_harness.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

using sdk::testing::CoreHarness;
using sdk::testing::FakeCluster;
using sdk::testing::FakeStream;

constexpr uint32_t kShards = 2;

std::string Welcome(uint32_t shard) {
  v1::PushReply reply;  // field 1 of both replies
  reply.mutable_welcome()->set_feature_level(1);
  reply.mutable_welcome()->set_shard(shard);
  reply.mutable_welcome()->set_incarnation(1);
  reply.mutable_welcome()->set_window_bytes(1 << 20);
  reply.mutable_welcome()->set_frame_bytes_max(1 << 20);
  return reply.SerializeAsString();
}

// Everything the client can have under way.
struct Work {
  explicit Work(CoreHarness& h) {
    const auto table = h.OpenTable("w", {.dim = 2});
    const auto ranged = h.OpenTable("r", {.kind = table::Kind::kRanged, .dim = 2, .rows = 1000});
    FUZZ_CHECK(table.ok() && ranged.ok(), "tables are opened");
    const std::vector<uint64_t> keys{1, 2, 3, 4, 5, 6, 7, 8};
    const std::vector<float> values(16, 1);
    outcomes.push_back(h.Push(*table, keys, values));
    outcomes.push_back(h.PushRange(*ranged, 10, values));
    outcomes.push_back(h.Pull(*table, keys));
    outcomes.push_back(h.PullRange(*ranged, 0, 300));
    FUZZ_CHECK(h.Tick().ok(), "the clock grows");
    outcomes.push_back(h.Push(*table, keys, values));
    outcomes.push_back(h.Flush());
  }
  std::vector<std::shared_ptr<CoreHarness::Outcome>> outcomes;
};

// The streams an input speaks on: push and pull of each shard.
FakeStream* StreamOf(CoreHarness& h, uint8_t which) {
  const auto kind = which % 2 == 0 ? world::StreamKind::kPush : world::StreamKind::kPull;
  return h.dialer.Newest(FakeCluster::AddressOf(which / 2 % kShards), kind).get();
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  const auto on = [](char which, const std::string& frame) { return std::string(1, which) + frame; };
  v1::PushReply marks;
  marks.set_received(1);
  wire::Append(wire::Mark{.segment = SegmentId(0), .line = Line::kArrival, .number = 1},
               *marks.mutable_committed());
  marks.add_ticks()->set_clock(1);
  wire::Append(SegmentId(0), *marks.mutable_ticks(0)->mutable_unspoken());
  std::vector<Seed> seeds;
  for (const auto reason :
       {v1::Refusal::MOVED, v1::Refusal::OUT_OF_ORDER, v1::Refusal::FENCED, v1::Refusal::INVALID,
        v1::Refusal::OVER_BUDGET, v1::Refusal::DATA_LOSS, v1::Refusal::MALFORMED, v1::Refusal::UNAVAILABLE}) {
    v1::PushReply refused;
    v1::Refusal* refusal = refused.add_refusals();
    refusal->set_reason(reason);
    refusal->set_message("because");
    refusal->set_frame(1);
    refusal->set_line(v1::LINE_ARRIVAL);
    refusal->set_number(1);
    refusal->set_expected(1);
    refusal->set_map_version(2);
    refusal->set_retry_after_ms(5);
    seeds.push_back({"push_" + v1::Refusal::Reason_Name(reason),
                     JoinFrames({on(0, Welcome(0)), on(0, refused.SerializeAsString())})});
    v1::PullReply pull_refused;
    pull_refused.set_request(1);
    *pull_refused.add_refusals() = *refusal;
    seeds.push_back({"pull_" + v1::Refusal::Reason_Name(reason),
                     JoinFrames({on(1, Welcome(0)), on(1, pull_refused.SerializeAsString())})});
  }
  v1::PullReply reply;
  reply.set_request(1);
  for (const uint32_t s : {0u, 2u}) {
    wire::Append(wire::Certificate{SegmentId(s), true, Epoch(1), Lsn(0), Lsn(2), 1, 1},
                 *reply.mutable_certificates());
  }
  reply.set_values(std::string(32, '\0'));
  seeds.push_back(
      {"marks", JoinFrames({on(0, Welcome(0)), on(2, Welcome(1)), on(0, marks.SerializeAsString())})});
  seeds.push_back({"values", JoinFrames({on(1, Welcome(0)), on(1, reply.SerializeAsString())})});
  return seeds;
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  CoreHarness h({.ring_bits = 2, .shards = kShards});
  FUZZ_CHECK(h.Open().ok(), "the session is opened");
  const Work work(h);
  for (const std::string& frame : fuzz::SplitFrames({reinterpret_cast<const char*>(data), size})) {
    if (frame.empty()) continue;
    h.coordinator.RunAll();
    FakeStream* stream = StreamOf(h, static_cast<uint8_t>(frame[0]));
    if (stream == nullptr) continue;
    while (stream->Take().has_value()) {  // what the client sends is lost on these streams
    }
    stream->Give(absl::Cord(frame.substr(1)));
  }
  // From here on the shards are real again.
  for (const auto& stream : h.dialer.streams) stream->Break();
  h.Advance(absl::Seconds(70));  // an operation takes 60 at most
  for (const auto& outcome : work.outcomes) FUZZ_CHECK(outcome->ended(), "every operation ends");
  return 0;
}
