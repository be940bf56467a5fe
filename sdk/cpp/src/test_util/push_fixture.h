#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk::testing {

// A client that pushes, and what it sends.
struct PushTest : ::testing::Test {
  explicit PushTest(CoreHarness::Setup setup = {}) : h(setup) {
    EXPECT_THAT(h.Open(), paceline::testing::IsOk());
    table = h.OpenTable("w", {.dim = 2}).value();
    ranged = h.OpenTable("r", {.kind = table::Kind::kRanged, .dim = 2, .rows = 10'000}).value();
  }

  // A key of `segment`.
  uint64_t KeyIn(uint32_t segment, uint64_t after = 0) const {
    for (uint64_t key = after;; ++key) {
      if (table->placement.Of(key).v == segment) return key;
    }
  }
  std::shared_ptr<CoreHarness::Outcome> PushTo(uint32_t segment, float value, uint32_t priority = 0) {
    return h.Push(table, {KeyIn(segment)}, {value, value}, priority);
  }
  std::vector<PartNumber> Numbers(uint32_t segment) const {
    std::vector<PartNumber> numbers;
    for (const auto& entry : h.cluster.LogOf(segment)) numbers.push_back(entry.number);
    return numbers;
  }
  // The client's next frame on a stream, taken apart; the shard does not see it.
  struct Taken {
    v1::PushRequest head;
    std::vector<wire::PartEntry> parts;
    std::string keys, values;
    size_t bytes = 0;
  };
  static std::optional<Taken> Take(FakeStream& stream) {
    auto bytes = stream.Take();
    if (!bytes.has_value()) return std::nullopt;
    auto frame = wire::Decode<v1::PushRequest>(*bytes).value();
    return Taken{.head = frame.head,
                 .parts = wire::ParseParts(frame.head.parts()).value(),
                 .keys = std::string(frame.keys),
                 .values = std::string(frame.values),
                 .bytes = bytes->size()};
  }
  // Opens a push stream to the primary of `segment` and gets past the hello.
  FakeStream& Connect(uint32_t segment = 0) {
    PushTo(segment, 0);
    h.Run();
    return h.PushStream(h.cluster.PrimaryOf(segment));
  }
  static void Refuse(FakeStream& stream, v1::Refusal::Reason reason, uint32_t segment, PartNumber number,
                     uint64_t frame, PartNumber expected = 0, uint32_t retry_ms = 0) {
    v1::PushReply reply;
    v1::Refusal* refusal = reply.add_refusals();
    refusal->set_reason(reason);
    refusal->set_message("because");
    refusal->set_segment(segment);
    refusal->set_line(v1::LINE_ARRIVAL);
    refusal->set_number(number);
    refusal->set_frame(frame);
    refusal->set_expected(expected);
    refusal->set_retry_after_ms(retry_ms);
    stream.Give(absl::Cord(reply.SerializeAsString()));
  }

  CoreHarness h;
  std::shared_ptr<const TableInfo> table;
  std::shared_ptr<const TableInfo> ranged;
};

}  // namespace paceline::sdk::testing
