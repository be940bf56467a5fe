// Values that a caller lends: where they are shared, when they are the caller's again, and what is sent then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "libs/world/random.h"
#include "sdk/cpp/src/push/loan.h"
#include "sdk/cpp/src/test_util/push_fixture.h"

namespace paceline::sdk {
namespace {

using ::paceline::testing::IsOk;
using testing::FakeStream;
using ::testing::IsEmpty;
using testing::PushTest;

constexpr uint64_t kFirst = 512;  // where a block begins
constexpr uint64_t kRows = 9'000;
constexpr uint32_t kDim = 32;  // blocks are as large as they get

struct LentTest : PushTest {
  LentTest() : values(kRows * kDim) {
    std::iota(values.begin(), values.end(), 1.0f);
    wide = h.OpenTable("wide", {.kind = table::Kind::kRanged, .dim = kDim, .rows = 10'000}).value();
  }

  // Pushes them over a stream that is there already.
  void Lend(Loan& loan) {
    Connect(wide->placement.Of(kFirst).v);
    batch = LendRange(*h.core->routes(), wide->placement, kDim, kFirst, kRows, loan.Take(), AllocateFresh);
    push = h.PushBatch(wide, batch);
  }
  bool Shares(const absl::Cord& frame) const {
    const char* const begin = reinterpret_cast<const char*>(values.data());
    return std::any_of(frame.chunk_begin(), frame.chunk_end(), [&](absl::string_view chunk) {
      return chunk.data() >= begin && chunk.data() < begin + values.size() * sizeof(float);
    });
  }
  // The stream that the first rows go over.
  FakeStream& Stream() { return h.PushStream(h.cluster.PrimaryOf(wide->placement.Of(kFirst).v)); }
  // All that was sent so far is lost.
  void BreakAndGoOn() {
    Stream().Break();
    h.Advance(absl::Seconds(5));
    EXPECT_THAT(push->status.value(), IsOk());
  }
  void ExpectPushed(uint64_t rows = kRows) {
    for (const uint64_t key : {kFirst, kFirst + 1, kFirst + rows / 2, kFirst + rows - 1}) {
      std::vector<float> row(kDim);
      std::iota(row.begin(), row.end(), static_cast<float>((key - kFirst) * kDim + 1));
      EXPECT_EQ(h.cluster.Row(wide->placement.Of(key).v, wide->id.v, key), row);
    }
  }

  std::vector<float> values;
  std::shared_ptr<const TableInfo> wide;
  std::shared_ptr<Batch> batch;
  std::shared_ptr<testing::CoreHarness::Outcome> push;
};

TEST_F(LentTest, PiecesAreThoseRowsOfTheCaller) {
  world::SplitMix64 random(3);
  for (int i = 0; i < 50; ++i) {
    const uint64_t first = world::Uniform(random, 9'000);
    const uint64_t count = world::Uniform(random, 10'000 - first);
    std::vector<float> lent(count * kDim);
    std::iota(lent.begin(), lent.end(), 1.0f);
    Loan loan(lent);
    batch = LendRange(*h.core->routes(), wide->placement, kDim, first, count, loan.Take(), AllocateFresh);
    std::vector<float> seen(count * kDim);
    for (const Batch::Piece& piece : batch->pieces) {
      uint64_t range[2];
      ASSERT_EQ(batch->KeyBytes(piece), sizeof(range));
      std::memcpy(range, batch->Keys(piece).data(), sizeof(range));
      EXPECT_EQ(range[1], piece.rows);
      EXPECT_EQ(wide->placement.Of(range[0]), piece.segment);
      EXPECT_EQ(wide->placement.Of(range[0] + range[1] - 1), piece.segment);
      std::memcpy(seen.data() + (range[0] - first) * kDim, batch->Values(piece).data(),
                  batch->ValueBytes(piece));
    }
    EXPECT_EQ(seen, lent);
    EXPECT_EQ(batch->rows, count);
  }
}

TEST_F(LentTest, FramesShareThemAndGiveThemBackOnceCommitted) {
  h.dialer.lets_go_of_frames = true;
  Loan loan(values);
  Lend(loan);
  batch.reset();
  {
    const absl::Cord frame = Stream().Take().value();
    EXPECT_TRUE(Shares(frame));
    BreakAndGoOn();
    EXPECT_FALSE(loan.AwaitReturn(absl::ZeroDuration()));  // that frame may still be read
  }
  EXPECT_TRUE(loan.AwaitReturn(absl::ZeroDuration()));
  ExpectPushed();
  EXPECT_THAT(h.cluster.violations, IsEmpty());
}

TEST_F(LentTest, ACarrierThatDoesNotLetGoGetsCopies) {
  Loan loan(values);
  Lend(loan);
  batch.reset();
  const absl::Cord frame = Stream().Take().value();
  EXPECT_FALSE(Shares(frame));
  BreakAndGoOn();
  EXPECT_TRUE(loan.AwaitReturn(absl::ZeroDuration()));
  ExpectPushed();
}

TEST_F(LentTest, WhatIsSentAgainAfterTheyAreGivenBackIsTheSame) {
  h.dialer.lets_go_of_frames = true;
  Loan loan(values);
  Lend(loan);
  ASSERT_TRUE(Stream().Take().has_value());  // lost
  const Buffer copy = AllocateFresh(values.size() * sizeof(float));
  std::memcpy(copy.get(), values.data(), values.size() * sizeof(float));
  batch->values = copy;
  batch->lent = false;
  ASSERT_TRUE(loan.AwaitReturn(absl::ZeroDuration()));
  std::ranges::fill(values, -1.0f);
  BreakAndGoOn();
  ExpectPushed();
}

// A stream that lent values go over, and one that they do not.
struct BreakOffTest : LentTest {
  BreakOffTest() {
    h.dialer.lets_go_of_frames = true;
    for (uint32_t segment = 0; segment < 4; ++segment) PushTo(segment, 1);
    h.Run();
    for (uint32_t segment = 0; other == nullptr || other == &Stream(); ++segment) {
      other = &h.PushStream(h.cluster.PrimaryOf(segment));
    }
    batch = LendRange(*h.core->routes(), wide->placement, kDim, kFirst, 512, loan.Take(), AllocateFresh);
    push = h.PushBatch(wide, batch);
    lent = &Stream();
  }
  void BreakOff(bool surely) {
    h.Enter([&] { h.core->BreakOffPushes(absl::UnavailableError("unread"), surely); });
  }

  FakeStream* other = nullptr;
  FakeStream* lent = nullptr;
  Loan loan{values};
};

TEST_F(BreakOffTest, OnlyAStreamWithAFrameThatWasNotReceivedIsBroken) {
  ASSERT_TRUE(lent->Take().has_value());
  BreakOff(false);
  EXPECT_TRUE(lent->closing());
  EXPECT_FALSE(other->closing());
  h.Advance(absl::Seconds(5));
  EXPECT_THAT(push->status.value(), IsOk());
  ExpectPushed(512);
}

TEST_F(BreakOffTest, AFrameThatWasReceivedBreaksOnlyForSure) {
  h.Run();
  EXPECT_THAT(push->status.value(), IsOk());
  BreakOff(false);
  EXPECT_FALSE(lent->closing());
  BreakOff(true);
  EXPECT_TRUE(lent->closing());
  EXPECT_FALSE(other->closing());
}

TEST_F(BreakOffTest, AStreamThatIsBeingDialedGoesOn) {
  ASSERT_TRUE(lent->Take().has_value());
  h.unreachable.insert(lent->address);
  lent->Break();
  h.Advance(absl::Seconds(1));
  FakeStream& dialing = Stream();
  ASSERT_NE(&dialing, lent);
  BreakOff(true);
  EXPECT_FALSE(dialing.closing());
  h.unreachable.clear();
  h.Advance(absl::Seconds(5));
  EXPECT_THAT(push->status.value(), IsOk());
}

}  // namespace
}  // namespace paceline::sdk
