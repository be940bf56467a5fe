#include "libs/log/session_changes.h"

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::HasSubstr;

constexpr JobId kSessionJob{1};
constexpr SessionId kWorker{7};
constexpr SessionId kNew{8};

class SessionChangesTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::optional<Record>> Judge(v1::Change::ActionCase action, SessionId session,
                                              Clock start = 0) {
    v1::Change change = ChangeOf(action, session, kSessionJob, start);
    if (change.has_evict()) change.mutable_evict()->set_reason("silent");
    if (change.has_evict()) change.mutable_evict()->set_data_lost(data_lost);
    change.set_number(number);
    return sessions.Judge(change, segment, &behind);
  }
  // True if a record was written.
  bool Do(v1::Change::ActionCase action, SessionId session, Clock start = 0) {
    const auto judged = Judge(action, session, start);
    if (!judged.ok() || !judged->has_value()) return false;
    segment.Apply(**judged);
    return true;
  }

  Segment segment = SegmentWith(kSessionJob, {kWorker});
  SessionChanges sessions;
  std::optional<Clock> behind;
  bool data_lost = false;
  uint64_t number = 0;
};

TEST_F(SessionChangesTest, ASessionIsOpenedOnceAndNeverAfterItWasClosed) {
  EXPECT_TRUE(Do(v1::Change::kOpen, kNew));
  EXPECT_FALSE(Do(v1::Change::kOpen, kNew));
  EXPECT_TRUE(Judge(v1::Change::kOpen, kNew).ok());
  EXPECT_TRUE(Do(v1::Change::kEvict, kNew));
  EXPECT_FALSE(Do(v1::Change::kEvict, kNew));
  EXPECT_THAT(Judge(v1::Change::kOpen, kNew).status().message(), HasSubstr("was closed and stays so"));
}

TEST_F(SessionChangesTest, AJoinBelowTheMinClockIsRefusedNamingIt) {
  EXPECT_THAT(Judge(v1::Change::kJoin, kNew).status().message(), HasSubstr("is not open"));
  ASSERT_TRUE(Do(v1::Change::kOpen, kNew));
  segment.Apply(Advance{.job = kSessionJob, .min_clock = 3});
  EXPECT_FALSE(Judge(v1::Change::kJoin, kNew, 2).ok());
  EXPECT_EQ(behind, 3u);
  EXPECT_TRUE(Do(v1::Change::kJoin, kNew, 3));
  EXPECT_FALSE(Do(v1::Change::kJoin, kNew, 3));
}

TEST_F(SessionChangesTest, ALateJoinOfAFinishedWorkerWritesNothing) {
  segment.Apply(Finish{.session = kWorker, .clock = 2});
  EXPECT_TRUE(Judge(v1::Change::kJoin, kWorker).ok());
  EXPECT_FALSE(Do(v1::Change::kJoin, kWorker));
}

TEST_F(SessionChangesTest, ALastTickWaitsForThePartsItSeals) {
  clock::LineCounts seals;
  seals.At(Line::kArrival) = 1;
  sessions.Finishes(kWorker, 4, seals);
  EXPECT_EQ(sessions.TakeFinish(kSessionJob, segment), std::nullopt);
  segment.Apply(MakeUpdate(kWorker, 1, {{5, 1.0f}}));
  EXPECT_EQ(sessions.TakeFinish(JobId(2), segment), std::nullopt);
  const auto finish = sessions.TakeFinish(kSessionJob, segment);
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->session, kWorker);
  EXPECT_EQ(finish->clock, 4u);
  EXPECT_EQ(sessions.TakeFinish(kSessionJob, segment), std::nullopt);
}

TEST_F(SessionChangesTest, AnEvictedWorkerHasNoLastTick) {
  sessions.Finishes(kWorker, 4, {});
  EXPECT_TRUE(Do(v1::Change::kEvict, kWorker));
  EXPECT_EQ(sessions.TakeFinish(kSessionJob, segment), std::nullopt);
}

TEST_F(SessionChangesTest, ALastTickIsTakenForItsOwnJobWhateverElseWaits) {
  constexpr JobId kOtherJob{2};
  segment.Apply(OpenSession{.session = kNew, .job = kOtherJob, .closed_floor = {}, .secret_sha256 = {}});
  segment.Apply(Join{.session = kNew, .start = 0, .rank = 0});
  sessions.Finishes(SessionId(1), 1, {});  // its session is not open here
  sessions.Finishes(kWorker, 4, {});
  sessions.Finishes(kNew, 5, {});
  const auto of_other = sessions.TakeFinish(kOtherJob, segment);
  ASSERT_TRUE(of_other);
  EXPECT_EQ(of_other->session, kNew);
  EXPECT_EQ(of_other->clock, 5u);
  EXPECT_EQ(sessions.TakeFinish(kOtherJob, segment), std::nullopt);
  ASSERT_TRUE(sessions.TakeFinish(kSessionJob, segment));
}

TEST_F(SessionChangesTest, ALastTickOfAClockThatATickHasPassedIsOfTheLaterOne) {
  segment.ClockOf(kSessionJob).Tick(kWorker, 9, {}, {});
  sessions.Finishes(kWorker, 4, {});
  EXPECT_EQ(sessions.TakeFinish(kSessionJob, segment)->clock, 9u);
}

TEST_F(SessionChangesTest, AnEvictionNamesTheClocksThatCount) {
  segment.Apply(Advance{.job = kSessionJob, .min_clock = 3});
  EXPECT_EQ(std::get<Evict>(**Judge(v1::Change::kEvict, kWorker)).counts_below, 3u);
  EXPECT_EQ(std::get<Evict>(**Judge(v1::Change::kEvict, kNew)).counts_below, 0u) << "it was never here";
}

TEST_F(SessionChangesTest, ReasonsAreForgottenOnceThereAreTooMany) {
  const auto reason_is_known = [&] {
    return absl::StrContains(sessions.NotOpen(SessionId(1000), kSessionJob, segment, "").message(), "silent");
  };
  for (uint64_t i = 0; i < SessionChanges::kReasonsMax; ++i) {
    ASSERT_TRUE(Do(v1::Change::kEvict, SessionId(1000 + i)));
  }
  EXPECT_TRUE(reason_is_known());
  ASSERT_TRUE(Do(v1::Change::kEvict, SessionId(9000)));
  EXPECT_FALSE(reason_is_known());
}

TEST_F(SessionChangesTest, SaysWhyASessionIsNotOpen) {
  const auto not_open = [&](SessionId session) {
    return sessions.NotOpen(session, kSessionJob, segment, "; open a new one");
  };
  EXPECT_EQ(not_open(kNew).reason(), v1::Refusal::FENCED);
  EXPECT_EQ(not_open(kNew).message(), "session 8 of job 1 is not open in segment 0; open a new one");
  sessions.BeganEmpty();
  EXPECT_EQ(not_open(kNew).reason(), v1::Refusal::DATA_LOSS);
  EXPECT_TRUE(Do(v1::Change::kEvict, kWorker));
  EXPECT_EQ(not_open(kWorker).reason(), v1::Refusal::FENCED);
  EXPECT_THAT(not_open(kWorker).message(), HasSubstr("(silent)"));
  data_lost = true;
  EXPECT_TRUE(Do(v1::Change::kEvict, kNew));
  EXPECT_EQ(not_open(kNew).reason(), v1::Refusal::DATA_LOSS);
}

// Its record could not be read by shards that know no numbers.
TEST_F(SessionChangesTest, ThatDataIsLostIsLoggedOnceChangesHaveNumbers) {
  data_lost = true;
  EXPECT_TRUE(Do(v1::Change::kEvict, kNew));
  EXPECT_FALSE(segment.HasLostData(kNew));
  number = 3;
  EXPECT_TRUE(Do(v1::Change::kEvict, kWorker));
  EXPECT_TRUE(segment.HasLostData(kWorker));
  const SessionChanges of_the_next_primary;
  EXPECT_EQ(of_the_next_primary.NotOpen(kWorker, kSessionJob, segment, "").reason(), v1::Refusal::DATA_LOSS);
}

}  // namespace
}  // namespace paceline::log
