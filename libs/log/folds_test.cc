#include "libs/log/folds.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr JobId kFoldJob{1};
constexpr SessionId kFast{7};
constexpr SessionId kSlow{8};

class BoundedRoom : public StagingRoom {
 public:
  bool Stage(uint64_t bytes, bool ahead) override {
    if (staged + bytes > (ahead ? max / 2 : max)) return false;
    staged += bytes;
    return true;
  }
  void Unstage(uint64_t bytes) override { staged -= bytes; }
  uint64_t staging_max() const override { return max; }
  uint64_t max = 1 << 20;
  uint64_t staged = 0;
};

class SilentSink : public AckSink {
 public:
  void Committed(wire::Mark) override {}
};

class FoldsTest : public ::testing::Test {
 protected:
  FoldsTest() { segment.Apply(OpenTable{AggregatedTable(kFoldJob)}); }
  Part PartOf(SessionId session, PartNumber number, Clock at) {
    Update update = MakeUpdate(session, number, {{5, 1.0f}}, at);
    update.line = Line::kAggregated;
    update.table = kFoldedTable;
    return {.update = update, .job = kFoldJob, .table = AggregatedTable(kFoldJob), .acks = sink};
  }
  absl::Status Stage(SessionId session, PartNumber number, Clock at) {
    const Part part = PartOf(session, number, at);
    if (absl::Status fits = folds.Check(part, segment); !fits.ok()) return fits;
    const absl::Status found = folds.FindRoom(part, at > clock().min_clock(), segment, now);
    if (found.ok()) folds.Put(part, part.update);
    return found;
  }
  void Tick(SessionId session, Clock at) { clock().Tick(session, at, {}, folds.Here(session, segment)); }
  // Applies the next record. nullopt: the min clock stays.
  std::optional<Folds::Step> Next(std::optional<Clock> stop = std::nullopt) {
    auto step = folds.Next(kFoldJob, clock(), stop);
    if (step.has_value()) segment.Apply(step->record);
    return step;
  }
  clock::JobClock& clock() { return segment.ClockOf(kFoldJob); }

  absl::Time now = absl::UnixEpoch();
  Segment segment = SegmentWith(kFoldJob, {kFast, kSlow});
  std::shared_ptr<BoundedRoom> room = std::make_shared<BoundedRoom>();
  std::shared_ptr<AckSink> sink = std::make_shared<SilentSink>();
  Folds folds{room};
};

// Its record must fit a message.
TEST_F(FoldsTest, AClockFoldsNoMoreThanARecordMayHave) {
  room->max = 2 * Folds::kFoldBytesMax;
  Part large = PartOf(kFast, 1, 0);
  large.update = MakeUpdate(kFast, 1, std::vector<std::pair<uint64_t, float>>(1 << 16, {5, 1.0f}));
  large.update.line = Line::kAggregated;
  large.update.table = kFoldedTable;
  const uint64_t bytes = Staging::FoldedBytesOf(large.update, 1);
  EXPECT_EQ(bytes, (1 << 16) * (sizeof(uint64_t) + sizeof(float)));
  for (uint64_t folded = bytes; folded <= Folds::kFoldBytesMax; folded += bytes) {
    ASSERT_TRUE(folds.Check(large, segment).ok()) << folded;
    folds.Put(large, large.update);
    ++large.update.number;
  }
  const absl::Status refused = folds.Check(large, segment);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("more --ring-bits"));
  large.update.clock = 1;
  EXPECT_TRUE(folds.Check(large, segment).ok()) << "another clock is another record";
}

TEST_F(FoldsTest, ARowThatAllWorkersPushCountsOnce) {
  room->max = 8 * Folds::kFoldBytesMax;
  auto model = std::make_shared<TableInfo>(*AggregatedTable(kFoldJob));
  model->id = TableId(6);
  model->schema.kind = table::Kind::kRanged;
  model->schema.rows = 1 << 16;
  segment.Apply(OpenTable{model});
  Part all = PartOf(kFast, 1, 0);
  all.table = model;
  const uint64_t range[] = {0, model->schema.rows};
  const std::string values(model->schema.rows * sizeof(float), '\0');
  all.update.table = model->id;
  all.update.form = KeyForm::kRanges;
  all.update.count = 1;
  all.update.keys = {reinterpret_cast<const char*>(range), sizeof(range)};
  all.update.values = values;
  for (uint64_t folded = 0; folded < 2 * Folds::kFoldBytesMax;
       folded += Staging::FoldedBytesOf(all.update, 1)) {
    ASSERT_TRUE(folds.Check(all, segment).ok()) << folds.Check(all, segment);
    folds.Put(all, all.update);
    ++all.update.number;
  }
}

TEST_F(FoldsTest, ACompleteClockIsFoldedAndGivesItsRoomBack) {
  ASSERT_TRUE(Stage(kFast, 1, 0).ok());
  ASSERT_TRUE(Stage(kSlow, 1, 0).ok());
  EXPECT_GT(room->staged, 0u);
  EXPECT_EQ(folds.Here(kFast, segment).At(Line::kAggregated), 1u);
  Tick(kFast, 1);
  EXPECT_FALSE(Next()) << "the slow one has not ticked";
  Tick(kSlow, 1);
  const auto step = Next();
  ASSERT_TRUE(step);
  EXPECT_TRUE(std::holds_alternative<Fold>(step->record));
  ASSERT_THAT(step->folded, SizeIs(2));
  EXPECT_EQ(step->folded[0].first, sink);
  EXPECT_EQ(step->folded[0].second, 1u);
  EXPECT_EQ(clock().min_clock(), 1u);
  EXPECT_EQ(room->staged, 0u);
  EXPECT_FALSE(Next());
}

TEST_F(FoldsTest, ClocksWithoutPartsArePassedUpToTheStop) {
  Tick(kFast, 5);
  Tick(kSlow, 5);
  auto step = Next(/*stop=*/2);
  ASSERT_TRUE(step);
  EXPECT_THAT(step->folded, IsEmpty());
  EXPECT_EQ(clock().min_clock(), 2u);
  ASSERT_TRUE(Next());
  EXPECT_EQ(clock().min_clock(), 5u);
}

TEST_F(FoldsTest, AStopIsNeverPassedAndNeverHoldsUpWhatIsBeyondIt) {
  Tick(kFast, 5);
  Tick(kSlow, 5);
  ASSERT_TRUE(Next(/*stop=*/1));
  EXPECT_EQ(clock().min_clock(), 1u);
  ASSERT_TRUE(Next(/*stop=*/1));
  EXPECT_EQ(clock().min_clock(), 2u);
}

TEST_F(FoldsTest, ChecksClocksAndSessions) {
  EXPECT_THAT(folds.Check(PartOf(SessionId(9), 1, 0), segment).message(), HasSubstr("is not a worker"));
  ASSERT_TRUE(Stage(kFast, 1, 1).ok());
  EXPECT_THAT(Stage(kFast, 2, 0).message(), HasSubstr("numbers follow the clocks"));
  segment.Apply(Advance{.job = kFoldJob, .min_clock = 1});
  EXPECT_THAT(Stage(kSlow, 1, 0).message(), HasSubstr("is complete already"));
}

TEST_F(FoldsTest, AnEmptyPartIsOfAClockThatMayBe) {
  ASSERT_TRUE(Stage(kFast, 1, 1).ok());
  Update empty = MakeUpdate(kFast, 2, {});
  EXPECT_EQ(folds.ClockOfEmpty(empty, clock()), 1u);
  empty.clock = 3;
  EXPECT_EQ(folds.ClockOfEmpty(empty, clock()), 3u);
}

TEST_F(FoldsTest, WithoutRoomForTheNextClockAPartIsRefusedForGoodAfterAWhile) {
  const Part part = PartOf(kFast, 1, 0);
  room->max = Staging::BytesOf(part.update);
  room->staged = room->max;
  EXPECT_EQ(Stage(kFast, 1, 0).code(), absl::StatusCode::kResourceExhausted);
  now += Folds::kRoomWaitMax;
  EXPECT_EQ(Stage(kFast, 1, 0).code(), absl::StatusCode::kResourceExhausted);
  now += absl::Milliseconds(1);
  EXPECT_EQ(Stage(kFast, 1, 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Stage(kSlow, 1, 1).code(), absl::StatusCode::kResourceExhausted) << "of a later clock";
  room->max = Staging::BytesOf(part.update) - 1;
  EXPECT_THAT(Stage(kFast, 1, 0).message(), HasSubstr("in segment 0 alone"));
}

TEST_F(FoldsTest, DroppedPartsGiveTheirRoomBack) {
  ASSERT_TRUE(Stage(kFast, 1, 0).ok());
  ASSERT_TRUE(Stage(kSlow, 1, 0).ok());
  const uint64_t both = room->staged;
  folds.Drop(kFast);
  EXPECT_EQ(room->staged, both / 2);
  folds.Clear();
  EXPECT_EQ(room->staged, 0u);
}

}  // namespace
}  // namespace paceline::log
