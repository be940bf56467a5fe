// Reductions: their slices, their epochs, what they wait for.
#include "sdk/cpp/src/pull/reducing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "libs/base/little_endian.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/wire/partial.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using testing::CoreHarness;
using ::testing::ElementsAre;
using testing::FakeStream;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A request as a shard gets it.
struct AskedSlices {
  v1::PullRequest head;
  std::vector<wire::PartEntry> parts;
  std::vector<uint64_t> keys;  // a cursor and an epoch for each part
};

// What a shard says of one part.
struct Slice {
  uint64_t epoch = 1;
  uint64_t rows = 0;
  table::SliceEnd end = {};
  Clock min_clock = 20;
};

struct ReducingTest : ::testing::Test {
  ReducingTest() : h({.start_clock = 10}) {
    h.cluster.feature_level = 2;
    EXPECT_THAT(h.Open(), IsOk());
    table = h.OpenTable("w", {.dim = 2}, Ssp{.staleness = 3}).value();
    ranged = h.OpenTable("r", {.kind = table::Kind::kRanged, .dim = 1, .rows = 10'000}, Ssp{.staleness = 3})
                 .value();
    // The streams to both shards are there once something was pulled.
    const auto pulled = h.PullRange(ranged, 0, 10'000);
    h.Run();
    EXPECT_TRUE(pulled->ended());
  }

  struct Outcome {
    std::optional<absl::StatusOr<table::Partial>> result;
  };
  std::shared_ptr<Outcome> Reduce(const std::shared_ptr<const TableInfo>& of, const table::ReduceQuery& query,
                                  absl::Duration timeout = absl::Seconds(60)) {
    auto outcome = std::make_shared<Outcome>();
    h.Enter([&] {
      h.core->Reduce({.table = of, .query = query, .timeout = timeout, .ended = [outcome](auto result) {
                        outcome->result = std::move(result);
                      }});
    });
    return outcome;
  }
  // What the pull streams send. The cluster answers a Hello; the rest is for the test.
  std::vector<std::pair<FakeStream*, AskedSlices>> TakeAsked() {
    std::vector<std::pair<FakeStream*, AskedSlices>> taken;
    const auto streams = h.dialer.streams;  // a copy: more may be dialed
    for (const auto& stream : streams) {
      if (stream->kind != world::StreamKind::kPull || !stream->open()) continue;
      while (auto bytes = stream->Take()) {
        const auto frame = wire::Decode<v1::PullRequest>(*bytes).value();
        if (frame.head.has_hello()) {
          const auto far = h.cluster.Accept(stream->address, /*push=*/false);
          far->OnFrame(*bytes);
          while (auto reply = far->NextReply()) stream->Give(*reply);
          continue;
        }
        AskedSlices asked{
            .head = frame.head, .parts = wire::ParseParts(frame.head.parts()).value(), .keys = {}};
        const std::string keys(frame.keys);
        for (size_t at = 0; at < keys.size(); at += 8) asked.keys.push_back(LoadU64(keys.data() + at));
        taken.emplace_back(stream.get(), std::move(asked));
      }
    }
    return taken;
  }
  // Answers every part of a request in the same way.
  static void Answer(FakeStream& stream, const AskedSlices& asked, const Slice& slice) {
    const table::ReduceQuery query = wire::QueryFromProto(asked.head.reduction());
    wire::Frame<v1::PullReply> reply;
    reply.head.set_request(asked.head.request());
    std::string values;
    for (const wire::PartEntry& part : asked.parts) {
      wire::Append(wire::Certificate{.segment = part.segment,
                                     .served = true,
                                     .epoch = Epoch(slice.epoch),
                                     .began = Lsn(0),
                                     .version = Lsn(5),
                                     .min_clock = slice.min_clock,
                                     .own = part.number},
                   *reply.head.mutable_certificates());
      table::Partial partial;
      partial.rows = slice.rows;
      std::string bytes(wire::PartialBytes(query), '\0');
      wire::WritePartial(query, partial, slice.end, bytes.data());
      values += bytes;
    }
    reply.values = absl::Cord(values);
    stream.Give(wire::Encode(reply));
  }
  void AnswerAll(const Slice& slice) {
    for (const auto& [stream, asked] : TakeAsked()) Answer(*stream, asked, slice);
  }

  CoreHarness h;
  std::shared_ptr<const TableInfo> table;
  std::shared_ptr<const TableInfo> ranged;
};

TEST_F(ReducingTest, AsksEachSegmentOnceAndAddsUp) {
  const auto outcome = Reduce(table, {.op = table::ReduceOp::kRows, .column = 1});
  const auto asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(2)) << "two shards";
  size_t parts = 0;
  for (const auto& [stream, request] : asked) {
    EXPECT_EQ(request.head.key_form(), v1::KEY_FORM_REDUCTION);
    EXPECT_EQ(request.head.min_clock(), 7u) << "clock 10, staleness 3";
    EXPECT_EQ(request.head.reduction().op(), v1::Reduction::ROWS);
    EXPECT_EQ(request.head.reduction().column_plus_one(), 2u);
    EXPECT_EQ(request.keys, std::vector<uint64_t>(2 * request.parts.size(), 0));
    for (const wire::PartEntry& part : request.parts) EXPECT_EQ(part.count, 2u);
    parts += request.parts.size();
    Answer(*stream, request, {.rows = 10});
  }
  EXPECT_EQ(parts, 4u);
  ASSERT_TRUE(outcome->result.has_value());
  ASSERT_THAT(*outcome->result, IsOk());
  EXPECT_EQ((*outcome->result)->rows, 40u);
}

TEST_F(ReducingTest, GoesOnFromTheCursorUntilThereIsNoMore) {
  const auto outcome = Reduce(table, {.op = table::ReduceOp::kRows});
  AnswerAll({.rows = 10, .end = {.more = true, .cursor = 77}});
  for (const auto& [stream, asked] : TakeAsked()) {
    for (size_t i = 0; i < asked.keys.size(); i += 2) {
      EXPECT_EQ(asked.keys[i], 77u);
      EXPECT_EQ(asked.keys[i + 1], 1u);
    }
    Answer(*stream, asked, {.rows = 3});
  }
  ASSERT_TRUE(outcome->result.has_value());
  EXPECT_EQ((*outcome->result)->rows, 4 * 13u);
}

TEST_F(ReducingTest, DropsTheSlicesOfAnEarlierEpoch) {
  const auto outcome = Reduce(table, {.op = table::ReduceOp::kRows});
  AnswerAll({.epoch = 1, .rows = 10, .end = {.more = true, .cursor = 77}});
  AnswerAll({.epoch = 2, .rows = 8, .end = {.more = true, .cursor = 5}});  // begun anew
  EXPECT_FALSE(outcome->result.has_value());
  for (const auto& [stream, asked] : TakeAsked()) {
    EXPECT_THAT(asked.keys[0], 5u);
    EXPECT_THAT(asked.keys[1], 2u);
    Answer(*stream, asked, {.epoch = 2, .rows = 2});
  }
  ASSERT_TRUE(outcome->result.has_value());
  EXPECT_EQ((*outcome->result)->rows, 4 * 10u);
}

TEST_F(ReducingTest, ASliceThatIsLostWithItsStreamIsAskedForAgain) {
  const auto outcome = Reduce(table, {.op = table::ReduceOp::kRows});
  AnswerAll({.rows = 10, .end = {.more = true, .cursor = 77}});
  const auto asked = TakeAsked();
  ASSERT_FALSE(asked.empty());
  for (const auto& [stream, request] : asked) stream->Break();
  for (int i = 0; i < 50 && !outcome->result.has_value(); ++i) {
    h.clock.now += absl::Milliseconds(100);
    h.coordinator.RunAll();
    h.Enter([&] { h.core->OnTime(); });
    for (const auto& [stream, request] : TakeAsked()) {
      EXPECT_EQ(request.keys[0], 77u);
      Answer(*stream, request, {.rows = 1});
    }
  }
  ASSERT_TRUE(outcome->result.has_value());
  EXPECT_EQ((*outcome->result)->rows, 4 * 11u) << "nothing twice, and nothing lost";
}

TEST_F(ReducingTest, EndsAtItsDeadlineWhateverTheSlices) {
  const auto outcome = Reduce(table, {.op = table::ReduceOp::kRows}, absl::Seconds(2));
  for (int i = 0; i < 10 && !outcome->result.has_value(); ++i) {
    AnswerAll({.rows = 1, .end = {.more = true, .cursor = 1}});
    h.clock.now += absl::Milliseconds(500);
    h.Enter([&] { h.core->OnTime(); });
  }
  ASSERT_TRUE(outcome->result.has_value());
  EXPECT_THAT(*outcome->result, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("reduction of")));
}

TEST_F(ReducingTest, AShardThatBreaksTheRulesEndsTheClient) {
  const auto outcome = Reduce(table, {.op = table::ReduceOp::kRows});
  const auto asked = TakeAsked();
  ASSERT_FALSE(asked.empty());
  // A certificate below what was asked for.
  Answer(*asked[0].first, asked[0].second, {.rows = 1, .min_clock = 2});
  ASSERT_TRUE(outcome->result.has_value());
  EXPECT_FALSE(outcome->result->ok());
  EXPECT_FALSE(h.core->failure().ok());
}

TEST_F(ReducingTest, OfAFewBlocksAsksTheirSegmentsOnly) {
  const uint64_t block = ranged->placement.RowsPerBlock();
  EXPECT_THAT(SegmentsOf(ranged->placement, {.first = 0, .last = block - 1}),
              ElementsAre(ranged->placement.OfBlock(0)));
  EXPECT_THAT(SegmentsOf(ranged->placement, {.first = block - 1, .last = block}),
              ElementsAre(ranged->placement.OfBlock(0), ranged->placement.OfBlock(1)));
  EXPECT_THAT(SegmentsOf(ranged->placement, {}), SizeIs(4));
  EXPECT_THAT(SegmentsOf(table->placement, {.first = 3, .last = 3}), SizeIs(4)) << "rows of pages";
}

TEST_F(ReducingTest, WhatCannotBeAnsweredIsNotSent) {
  const auto wrong = Reduce(ranged, {.op = table::ReduceOp::kTop, .k = 0});
  ASSERT_TRUE(wrong->result.has_value());
  EXPECT_THAT(*wrong->result,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("k: 0; expected 1 to 1024")));
  const auto beyond = Reduce(ranged, {.op = table::ReduceOp::kSum, .first = 10'000});
  EXPECT_THAT(*beyond->result, StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("keys 0 to 9999")));
  EXPECT_THAT(TakeAsked(), SizeIs(0));
}

TEST(ReducingLevel, NeedsShardsOfLevel2) {
  CoreHarness h;
  ASSERT_THAT(h.Open(), IsOk());
  const auto table = h.OpenTable("w", {.dim = 1}).value();
  std::optional<absl::StatusOr<table::Partial>> result;
  h.Enter([&] {
    h.core->Reduce({.table = table, .query = {}, .ended = [&](auto of) { result = std::move(of); }});
  });
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(*result, StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("feature level 2")));
}

}  // namespace
}  // namespace paceline::sdk
