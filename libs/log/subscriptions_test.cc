#include "libs/log/subscriptions.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr JobId kJob{1};
constexpr SessionId kReader{7};
constexpr SessionId kOther{8};

// A subscriber's stream that keeps what it hears.
struct Sink : UpdateSink {
  std::shared_ptr<const void> Reserve(uint64_t bytes) override {
    asked = bytes;
    return room ? std::make_shared<const int>() : nullptr;
  }
  void Updated(SetUpdate update) override { updates.push_back(std::move(update)); }
  void Ended(SegmentId, TableId, v1::Refusal refusal) override { ended.push_back(std::move(refusal)); }
  bool gone() const override { return over; }

  std::vector<SetUpdate> updates;
  std::vector<v1::Refusal> ended;
  uint64_t asked = 0;
  bool room = true;
  bool over = false;
};

class SubscriptionsTest : public ::testing::Test {
 protected:
  Subscriptions::View View() const {
    // The test sets how far the log is committed; by default as far as it goes.
    return {segment, tracker, Epoch(1), Lsn(0), committed.value_or(segment.version())};
  }
  std::optional<v1::Refusal> Change(uint64_t set, std::vector<uint64_t> keys, bool leave = false) {
    const absl::string_view bytes(reinterpret_cast<const char*>(keys.data()), keys.size() * 8);
    return subscriptions.Change({.session = kReader,
                                 .job = kJob,
                                 .table = SumTable(kJob),
                                 .set = set,
                                 .every = every,
                                 .budget = budget,
                                 .leave = leave,
                                 .keys = bytes,
                                 .sink = sink},
                                View());
  }
  void Push(uint64_t key, float value, SessionId by = kOther) {
    const Update update = MakeUpdate(by, ++numbers[by], {{key, value}});
    tracker.Apply(update, segment, [&] { segment.Apply(update); });
  }
  void Advance(Clock min_clock) {
    segment.Apply(log::Advance{.job = kJob, .min_clock = min_clock});
    subscriptions.Tell(View());
  }
  static float ValueOf(const SetUpdate& update, size_t row) {
    float value;
    std::memcpy(&value, update.values.data() + row * sizeof(float), sizeof(value));
    return value;
  }

  Segment segment = SegmentWith(kJob, {kReader, kOther});
  mutable ChangeTracker tracker;
  Subscriptions subscriptions;
  std::shared_ptr<Sink> sink = std::make_shared<Sink>();
  std::map<SessionId, PartNumber> numbers;
  std::optional<Lsn> committed;
  uint32_t every = 1;
  uint64_t budget = 0;
};

TEST_F(SubscriptionsTest, AnUpdateHasTheRowsOfTheSetThatHaveChanged) {
  Push(5, 1);
  EXPECT_EQ(Change(1, {5, 6}), std::nullopt);
  const Lsn begun = segment.version();
  Push(5, 2);
  Push(9, 1);
  Push(3, 4, kReader);
  EXPECT_THAT(sink->updates, IsEmpty()) << "the min clock has not advanced";
  Advance(1);
  ASSERT_THAT(sink->updates, SizeIs(1));
  const SetUpdate& update = sink->updates[0];
  EXPECT_EQ(update.after, begun);
  EXPECT_EQ(update.certificate.version, segment.version());
  EXPECT_EQ(update.certificate.min_clock, 1u);
  EXPECT_EQ(update.certificate.own, 1u);
  EXPECT_EQ(update.certificate.epoch, Epoch(1));
  EXPECT_EQ(update.set, 1u);
  EXPECT_TRUE(update.known);
  EXPECT_THAT(update.keys, ElementsAre(5));
  EXPECT_EQ(ValueOf(update, 0), 3);
}

TEST_F(SubscriptionsTest, EachUpdateFollowsTheOneBefore) {
  Change(1, {5});
  Push(5, 1);
  Advance(1);
  Push(5, 0);  // changes nothing
  Advance(2);
  ASSERT_THAT(sink->updates, SizeIs(2));
  EXPECT_EQ(sink->updates[1].after, sink->updates[0].certificate.version);
  EXPECT_THAT(sink->updates[1].keys, IsEmpty()) << "it is sent though nothing has changed";
  EXPECT_EQ(sink->updates[1].certificate.min_clock, 2u);
}

TEST_F(SubscriptionsTest, KeysJoinAndLeave) {
  Change(1, {5});
  Change(2, {6});
  Change(3, {5}, /*leave=*/true);
  EXPECT_EQ(subscriptions.keys(), 1u);
  Push(5, 1);
  Push(6, 1);
  Advance(1);
  ASSERT_THAT(sink->updates, SizeIs(1));
  EXPECT_THAT(sink->updates[0].keys, ElementsAre(6));
  EXPECT_EQ(sink->updates[0].set, 3u);
  Change(4, {}, /*leave=*/true);
  EXPECT_TRUE(subscriptions.empty());
  EXPECT_EQ(subscriptions.keys(), 0u);
  Advance(2);
  EXPECT_THAT(sink->updates, SizeIs(1));
}

TEST_F(SubscriptionsTest, UpdatesComeAsOftenAsAskedFor) {
  every = 2;
  Change(1, {5});
  for (Clock clock = 1; clock <= 5; ++clock) Advance(clock);
  ASSERT_THAT(sink->updates, SizeIs(2));
  EXPECT_EQ(sink->updates[0].certificate.min_clock, 2u);
  EXPECT_EQ(sink->updates[1].certificate.min_clock, 4u);
  Advance(9);
  EXPECT_EQ(sink->updates.back().certificate.min_clock, 9u) << "clocks may pass at once";
}

TEST_F(SubscriptionsTest, AnUpdateLeavesOnceItsVersionIsCommitted) {
  Change(1, {5});
  committed = segment.version();
  Push(5, 1);
  Advance(1);
  const Lsn built = segment.version();
  Push(5, 1);
  EXPECT_FALSE(subscriptions.Tell(View()));
  EXPECT_THAT(sink->updates, IsEmpty());
  committed = Lsn(built.v - 1);
  EXPECT_FALSE(subscriptions.Tell(View()));
  Advance(2);
  committed = built;
  EXPECT_TRUE(subscriptions.Tell(View()));
  ASSERT_THAT(sink->updates, SizeIs(1)) << "the next one is built now, and waits in its turn";
  EXPECT_EQ(sink->updates[0].certificate.version, built);
  EXPECT_EQ(sink->updates[0].certificate.min_clock, 1u) << "that of its version";
  EXPECT_EQ(ValueOf(sink->updates[0], 0), 1) << "as of its version";
  committed = segment.version();
  EXPECT_TRUE(subscriptions.Tell(View()));
  ASSERT_THAT(sink->updates, SizeIs(2));
  EXPECT_EQ(sink->updates[1].after, built);
  EXPECT_EQ(ValueOf(sink->updates[1], 0), 2);
}

TEST_F(SubscriptionsTest, WithoutRoomALaterUpdateTellsMore) {
  Change(1, {5, 6});
  const Lsn begun = segment.version();
  sink->room = false;
  Push(5, 1);
  Advance(1);
  EXPECT_GT(sink->asked, 0u);
  EXPECT_THAT(sink->updates, IsEmpty());
  Push(6, 1);
  Advance(2);
  sink->room = true;
  subscriptions.Tell(View());
  ASSERT_THAT(sink->updates, SizeIs(1));
  EXPECT_EQ(sink->updates[0].after, begun);
  EXPECT_THAT(sink->updates[0].keys, ElementsAre(5, 6));
  EXPECT_EQ(sink->updates[0].certificate.min_clock, 2u);
}

TEST_F(SubscriptionsTest, BeyondTheChangeLogTheSubscriberIsToldSo) {
  tracker = ChangeTracker(/*rows_max=*/4);
  Change(1, {5});
  for (uint64_t key = 100; key < 106; ++key) Push(key, 1);
  segment.Apply(log::Advance{.job = kJob, .min_clock = 1});
  EXPECT_TRUE(subscriptions.Tell(View())) << "that too is an answer";
  ASSERT_THAT(sink->updates, SizeIs(1));
  EXPECT_FALSE(sink->updates[0].known);
  EXPECT_TRUE(subscriptions.empty());
  Advance(2);
  EXPECT_THAT(sink->updates, SizeIs(1));
  Change(2, {5});
  Push(5, 1);
  Advance(3);
  ASSERT_THAT(sink->updates, SizeIs(2));
  EXPECT_THAT(sink->updates[1].keys, ElementsAre(5)) << "begun anew";
}

TEST_F(SubscriptionsTest, SoItIsIfTooManyRowsHaveChanged) {
  std::vector<uint64_t> keys;
  // Each takes 12 bytes.
  for (uint64_t key = 0; key <= Subscriptions::kBytesMax / 12; ++key) keys.push_back(key);
  tracker = ChangeTracker(/*rows_max=*/2 * keys.size());
  Change(1, keys);
  std::vector<std::pair<uint64_t, float>> rows;
  for (const uint64_t key : keys) rows.emplace_back(key, 1.0f);
  const Update update = MakeUpdate(kOther, 1, rows);
  tracker.Apply(update, segment, [&] { segment.Apply(update); });
  EXPECT_TRUE(tracker.Since(kSumTable, Lsn(segment.version().v - 1), UINT64_MAX).has_value());
  Advance(1);
  ASSERT_THAT(sink->updates, SizeIs(1));
  EXPECT_FALSE(sink->updates[0].known);
}

// A row takes 12 bytes.
TEST_F(SubscriptionsTest, WithinABudgetRowsGoFirstThatWereMovedMost) {
  budget = 24;
  Change(1, {1, 2, 3, 4});
  for (const uint64_t key : {1, 2, 3, 4}) Push(key, 100);
  Advance(1);
  ASSERT_THAT(sink->updates, SizeIs(1));
  EXPECT_THAT(sink->updates[0].keys, ElementsAre(1, 2)) << "all were moved alike";
  EXPECT_THAT(sink->updates[0].left_out, ElementsAre(3, 4));
  Push(1, 1);     // by a hundredth
  Push(2, 1000);  // by nine tenths
  Advance(2);
  EXPECT_THAT(sink->updates.back().keys, ElementsAre(3, 4)) << "they are due: from 0 to 100";
  EXPECT_THAT(sink->updates.back().left_out, ElementsAre(1, 2));
  EXPECT_EQ(sink->updates.back().certificate.min_clock, 2u);
  Push(3, 50);
  budget = 12;
  Change(2, {5});
  Advance(3);
  EXPECT_THAT(sink->updates.back().keys, ElementsAre(2));
  EXPECT_EQ(ValueOf(sink->updates.back(), 0), 1100);
  EXPECT_THAT(sink->updates.back().left_out, ElementsAre(3)) << "1 was named before";
  Advance(4);
  EXPECT_THAT(sink->updates.back().keys, ElementsAre(3));
  Advance(5);
  EXPECT_THAT(sink->updates.back().keys, ElementsAre(1));
  EXPECT_EQ(ValueOf(sink->updates.back(), 0), 101);
  Advance(6);
  EXPECT_THAT(sink->updates.back().keys, IsEmpty()) << "nothing is due";
}

TEST_F(SubscriptionsTest, SmallMovesAddUp) {
  budget = 12;
  Change(1, {1, 2});
  for (const uint64_t key : {1, 2}) Push(key, 100);
  Advance(1);
  Advance(2);
  int sent = 0;
  for (Clock clock = 3; clock < 43; ++clock) {
    Push(1, 10);
    Push(2, 1);
    Advance(clock);
    sent += sink->updates.back().keys == std::vector<uint64_t>{2} ? 1 : 0;
  }
  EXPECT_GT(sent, 2);
  EXPECT_LT(sent, 20);
}

TEST_F(SubscriptionsTest, ARowThatIsNamedAgainIsDueNoMore) {
  budget = 12;
  Change(1, {1, 2, 3});
  for (const uint64_t key : {1, 2, 3}) Push(key, 1);
  Advance(1);
  EXPECT_THAT(sink->updates.back().left_out, ElementsAre(2, 3));
  Change(2, {2}, /*leave=*/true);
  Change(3, {3});  // its reader has it anew
  Advance(2);
  EXPECT_THAT(sink->updates.back().keys, IsEmpty());
  Push(3, 1);
  Push(1, 8);
  Advance(3);
  EXPECT_THAT(sink->updates.back().keys, ElementsAre(1));
  EXPECT_THAT(sink->updates.back().left_out, ElementsAre(3)) << "and is named anew";
}

TEST_F(SubscriptionsTest, WithoutABudgetAllThatIsDueIsSent) {
  budget = 12;
  Change(1, {1, 2, 3});
  for (const uint64_t key : {1, 2, 3}) Push(key, 1);
  Advance(1);
  budget = 0;
  Change(2, {4});
  Advance(2);
  EXPECT_THAT(sink->updates.back().keys, ElementsAre(2, 3));
  EXPECT_THAT(sink->updates.back().left_out, IsEmpty());
}

// What an update would leave out is not forgotten if there is no room for it.
TEST_F(SubscriptionsTest, WithoutRoomNothingIsLeftOutInSilence) {
  budget = 12;
  Change(1, {1, 2});
  sink->room = false;
  for (const uint64_t key : {1, 2}) Push(key, 1);
  Advance(1);
  EXPECT_THAT(sink->updates, IsEmpty());
  sink->room = true;
  Advance(2);
  ASSERT_THAT(sink->updates, SizeIs(1));
  EXPECT_THAT(sink->updates[0].keys, ElementsAre(1));
  EXPECT_THAT(sink->updates[0].left_out, ElementsAre(2));
}

TEST_F(SubscriptionsTest, WithoutRoomAnUpdateIsNotChosenAtEachCommit) {
  budget = 120;
  Change(1, {1, 2, 3});
  sink->room = false;
  Push(1, 1);
  Advance(1);
  const uint64_t asked = sink->asked;
  Push(2, 1);
  EXPECT_FALSE(subscriptions.Tell(View()));
  EXPECT_EQ(sink->asked, asked) << "it asks whether there is room by now";
  sink->room = true;
  EXPECT_TRUE(subscriptions.Tell(View()));
  ASSERT_THAT(sink->updates, SizeIs(1));
  EXPECT_THAT(sink->updates[0].keys, ElementsAre(1, 2));
}

TEST_F(SubscriptionsTest, KeysBeyondTheBoundEndTheSet) {
  std::vector<uint64_t> keys(Subscriptions::kKeysMax);
  for (uint64_t key = 0; key < keys.size(); ++key) keys[key] = key;
  EXPECT_EQ(Change(1, keys), std::nullopt);
  const auto refusal = Change(2, {keys.size()});
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason(), v1::Refusal::OVER_BUDGET);
  EXPECT_TRUE(subscriptions.empty());
  EXPECT_EQ(subscriptions.keys(), 0u);
  EXPECT_EQ(Change(3, {1}), std::nullopt);
}

TEST_F(SubscriptionsTest, AStreamThatIsGoneIsForgotten) {
  Change(1, {5});
  sink->over = true;
  Advance(1);
  EXPECT_TRUE(subscriptions.empty());
  EXPECT_THAT(sink->updates, IsEmpty());
}

TEST_F(SubscriptionsTest, ASessionThatIsClosedIsToldNothing) {
  Change(1, {5});
  segment.Apply(Evict{.session = kReader});
  Advance(1);
  EXPECT_TRUE(subscriptions.empty());
  EXPECT_THAT(sink->updates, IsEmpty());
}

TEST_F(SubscriptionsTest, EndsAreTold) {
  Change(1, {5});
  v1::Refusal why;
  why.set_reason(v1::Refusal::MOVED);
  subscriptions.End(kFoldedTable, segment.id(), why);
  EXPECT_THAT(sink->ended, IsEmpty()) << "another table";
  subscriptions.End(kSumTable, segment.id(), why);
  EXPECT_THAT(sink->ended, SizeIs(1));
  Change(2, {5});
  subscriptions.EndAll(segment.id(), why);
  EXPECT_THAT(sink->ended, SizeIs(2));
  EXPECT_TRUE(subscriptions.empty());
}

}  // namespace
}  // namespace paceline::log
