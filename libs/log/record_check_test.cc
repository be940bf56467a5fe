#include "libs/log/record_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/log/test_util/random_history.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

constexpr JobId kJob{1};
constexpr SessionId kSession{7};

TEST(RecordCheckTest, RecordsOfAPrimaryApply) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    RandomHistory history(seed);
    Segment copy(RandomHistory::kSegment, RandomHistory::kRingBits);
    for (int step = 0; step < 300; ++step) {
      const Record& record = history.Next();
      ASSERT_THAT(CheckApplies(copy, record), IsOk()) << "seed " << seed << " record " << step;
      copy.Apply(record);
    }
  }
}

class MisfitTest : public ::testing::Test {
 protected:
  MisfitTest() {
    segment.Apply(BeginEpoch{Epoch(5)});
    segment.Apply(OpenTable{SumTable(kJob)});
    segment.Apply(OpenTable{Blocks()});
    segment.Apply(OpenSession{.session = kSession, .job = kJob, .closed_floor = SessionId(3)});
    segment.Apply(DropTable{TableId(9)});
  }
  static std::shared_ptr<const TableInfo> Blocks() {
    TableInfo info = *SumTable(kJob);
    info.id = TableId(6);
    info.schema.kind = table::Kind::kRanged;
    info.schema.rows = 100;
    return std::make_shared<const TableInfo>(std::move(info));
  }
  void Expect(const Record& record, const char* what) {
    EXPECT_THAT(CheckApplies(segment, record), StatusIs(StatusCode::kDataLoss, HasSubstr(what)));
  }

  Segment segment{SegmentId(0), 0};
};

TEST_F(MisfitTest, NamesTheMisfit) {
  TableInfo dropped = *SumTable(kJob);
  dropped.id = TableId(9);
  Expect(OpenTable{std::make_shared<const TableInfo>(dropped)}, "table 9 was dropped");
  Expect(OpenSession{.session = SessionId(2), .job = kJob, .closed_floor = {}}, "session 2 was closed");
  Expect(Join{.session = SessionId(8)}, "session 8 is not open");
  Expect(Finish{.session = SessionId(8)}, "session 8 is not open");
  Expect(MakeUpdate(SessionId(8), 1, {}), "session 8 is not open");
  Expect(Fold{.job = kJob, .tables = {}, .numbers = {{SessionId(8), 1}}}, "session 8 is not open");
  Expect(Fold{.job = kJob, .tables = {{.table = kFoldedTable, .keys = {1}, .values = {1}}}, .numbers = {}},
         "table 5 is not open");
  Expect(Fold{.job = kJob, .tables = {{.table = kSumTable, .keys = {1}, .values = {1, 2}}}, .numbers = {}},
         "2 floats for 1 rows of 1");
  Expect(ChangeRule{.table = AggregatedTable(kJob), .number = 1, .rule = table::Add{}},
         "table 5 is not open");
  Expect(ChangeRule{.table = SumTable(kJob), .number = 1, .rule = table::Sgd{}}, "keeps its rule");
  Expect(BeginEpoch{Epoch(5)}, "epoch 5 begins after 5");
  segment.Apply(ChangeRule{.table = SumTable(kJob), .number = 2, .rule = table::Add{}});
  Expect(ChangeRule{.table = SumTable(kJob), .number = 1, .rule = table::Add{}}, "rates 1 come after 2");
  segment.Apply(Advance{.job = kJob, .min_clock = 4});
  Expect(Join{.session = kSession, .start = 3}, "below the min clock 4");
  segment.Apply(Join{.session = kSession, .start = 4});
  segment.Apply(Finish{.session = kSession, .clock = 5});
  Expect(Join{.session = kSession, .start = 6}, "has finished");
}

TEST_F(MisfitTest, KeysLieInTheSegmentAndTheTable) {
  Update update = MakeUpdate(kSession, 1, {{99, 1.0f}});
  update.table = TableId(6);
  EXPECT_THAT(CheckApplies(segment, update), IsOk());
  update = MakeUpdate(kSession, 1, {{100, 1.0f}});
  update.table = TableId(6);
  Expect(update, "key 100 of a table of 100 rows");
  const uint64_t range[] = {90, 11};
  update.form = KeyForm::kRanges;
  update.keys = {reinterpret_cast<const char*>(range), sizeof(range)};
  Expect(update, "11 rows of 1");
  const std::string values(44, '\0');
  update.values = values;
  Expect(update, "leaves table 6");
  update.table = kSumTable;
  Expect(update, "sparse");

  Segment half(SegmentId(0), 1);
  half.Apply(OpenTable{SumTable(kJob)});
  half.Apply(OpenSession{.session = kSession, .job = kJob, .closed_floor = {}});
  size_t elsewhere = 0;
  for (uint64_t key = 0; key < 100; ++key) {
    const auto fits = CheckApplies(half, MakeUpdate(kSession, 1, {{key, 1.0f}}));
    elsewhere += fits.code() == StatusCode::kDataLoss ? 1 : 0;
  }
  EXPECT_GT(elsewhere, 20u);
  EXPECT_LT(elsewhere, 80u);
}

}  // namespace
}  // namespace paceline::log
