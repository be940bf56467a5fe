#include "libs/log/part_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::HasSubstr;

constexpr JobId kCheckJob{1};
constexpr SessionId kWorker{7};

class LittleMemory : public RowMemory {
 public:
  bool Admits(uint64_t more_bytes) override { return more_bytes <= left; }
  void Grown(int64_t) override {}
  uint64_t left = 0;
};

class PartCheckTest : public ::testing::Test {
 protected:
  static Part PartOf(float value, Clock clock = 0) {
    return {.update = MakeUpdate(kWorker, 1, {{5, value}}, clock),
            .job = kCheckJob,
            .table = SumTable(kCheckJob),
            .acks = nullptr};
  }
  Segment segment = SegmentWith(kCheckJob, {kWorker});
};

TEST_F(PartCheckTest, TakesValidPartsAndNamesFaults) {
  EXPECT_TRUE(CheckContent(PartOf(1), segment).ok());
  const absl::Status wrong = CheckContent(PartOf(std::numeric_limits<float>::quiet_NaN()), segment);
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.message(), HasSubstr("table 'sum'"));
}

TEST_F(PartCheckTest, AClockThatTheWorkerHasSealedIsOver) {
  segment.ClockOf(kCheckJob).Tick(kWorker, 2, {}, {});
  EXPECT_THAT(CheckContent(PartOf(1, 1), segment).message(), HasSubstr("already sealed"));
  EXPECT_TRUE(CheckContent(PartOf(1, 2), segment).ok());
}

TEST_F(PartCheckTest, AFinishedWorkerCannotPush) {
  segment.Apply(Finish{.session = kWorker, .clock = 1});
  EXPECT_THAT(CheckContent(PartOf(1), segment).message(), HasSubstr("has finished"));
}

TEST_F(PartCheckTest, ADroppedTableStaysSo) {
  segment.Apply(DropTable{.table = kSumTable});
  EXPECT_EQ(CheckContent(PartOf(1), segment).code(), absl::StatusCode::kNotFound);
}

TEST_F(PartCheckTest, WithoutMemoryOnlyKnownRowsFit) {
  LittleMemory memory;
  EXPECT_EQ(CheckFits(PartOf(1), segment, memory).code(), absl::StatusCode::kResourceExhausted);
  segment.Apply(PartOf(1).update);
  EXPECT_TRUE(CheckFits(PartOf(1), segment, memory).ok());
}

}  // namespace
}  // namespace paceline::log
