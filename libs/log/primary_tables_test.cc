// Tables dropped, their rates changed, and jobs closed, at one primary.
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/planted.h"
#include "libs/log/primary.h"
#include "libs/log/testing.h"

namespace paceline::log {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr JobId kJob{1};
constexpr JobId kOther{2};
constexpr SessionId kWorker{7};
constexpr SessionId kReader{8};
constexpr SessionId kStranger{9};  // of the other job

std::shared_ptr<const TableInfo> SgdTable(uint32_t id, JobId job, float lr = 1) {
  TableInfo info;
  info.id = TableId(id);
  info.job = job;
  info.name = "weights";  // the same in both jobs
  info.schema.rule = table::Sgd{lr};
  info.schema.init = table::Constant{100};
  return std::make_shared<const TableInfo>(std::move(info));
}

class MemoryBudget : public RowMemory, public StagingRoom, public RecordSink {
 public:
  bool Admits(uint64_t more) override { return bytes + static_cast<int64_t>(more) <= most; }
  void Grown(int64_t by) override { bytes += by; }
  void RowsUpdated(uint64_t) override {}
  void Applied(const Segment&, const AppliedRecord& applied) override { log.push_back(applied.record()); }
  int64_t bytes = 0;
  int64_t most = int64_t{1} << 40;
  std::vector<Record> log;
};

class Acks : public AckSink {
 public:
  void Committed(wire::Mark mark) override { upto = mark.number; }
  PartNumber upto = 0;
};

class Answers : public ReadSink {
 public:
  void Served(size_t, const wire::Certificate&, const Wait&) override { ++served; }
  void Refused(size_t, v1::Refusal refusal) override { refusals.push_back(refusal.message()); }
  int served = 0;
  std::vector<std::string> refusals;
};

class PrimaryTablesTest : public ::testing::Test {
 protected:
  PrimaryTablesTest() {
    Session(v1::Change::kOpen, kWorker, kJob);
    Session(v1::Change::kOpen, kReader, kJob);
    Session(v1::Change::kOpen, kStranger, kOther);
    Session(v1::Change::kJoin, kWorker, kJob);
  }

  bool Session(v1::Change::ActionCase action, SessionId session, JobId job) {
    return primary.Change(ChangeOf(action, session, job), {}, &why, &passed);
  }
  // Pushes a gradient of `g` for the key.
  std::optional<v1::Refusal> Push(SessionId session, const std::shared_ptr<const TableInfo>& table,
                                  Clock clock, float g = 1) {
    Update update = MakeUpdate(session, ++numbers[session], {{key, g}}, clock);
    update.table = table->id;
    auto refusal = primary.Take({.update = update, .job = table->job, .table = table, .acks = acks});
    if (refusal.has_value()) --numbers[session];
    return refusal;
  }
  std::shared_ptr<Answers> Pull(SessionId session, const std::shared_ptr<const TableInfo>& table,
                                Clock min_clock = 0) {
    auto answers = std::make_shared<Answers>();
    primary.Serve({.session = session,
                   .job = table->job,
                   .table = table,
                   .keys = absl::string_view(reinterpret_cast<const char*>(&key), sizeof(key)),
                   .out = reinterpret_cast<std::byte*>(&value),
                   .min_clock = min_clock,
                   .sink = answers},
                  absl::UnixEpoch());
    return answers;
  }
  float ValueOf(const std::shared_ptr<const TableInfo>& table) {
    EXPECT_EQ(Pull(table->job == kJob ? kReader : kStranger, table)->served, 1);
    return value;
  }
  void Tick(Clock clock) { primary.Tick(kWorker, clock, {.counts = {numbers[kWorker], 0}}); }
  bool Rates(uint64_t number, float lr, Clock clock, bool at_once = false) {
    passed.reset();
    return primary.Change(
        ChangeRule{
            .table = weights, .number = number, .rule = table::Sgd{lr}, .clock = clock, .at_once = at_once},
        &why, &passed);
  }

  const uint64_t key = 5;
  float value = -1;
  std::map<SessionId, PartNumber> numbers;
  std::string why;
  std::optional<Clock> passed;
  std::shared_ptr<MemoryBudget> budget = std::make_shared<MemoryBudget>();
  std::shared_ptr<Acks> acks = std::make_shared<Acks>();
  Primary primary{SegmentId(0), 0, Epoch(1), budget};
  const std::shared_ptr<const TableInfo> weights = SgdTable(1, kJob);
  const std::shared_ptr<const TableInfo> theirs = SgdTable(2, kOther);
};

// -- memory --

TEST_F(PrimaryTablesTest, BeyondTheBudgetRowsThatAreThereAreUpdatedAndNoneIsBorn) {
  EXPECT_FALSE(Push(kWorker, weights, 0));
  budget->most = budget->bytes - 1;  // copies have taken the rest, and more
  EXPECT_FALSE(Push(kWorker, weights, 0));
  const auto refusal = Push(kStranger, theirs, 0);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason(), v1::Refusal::OVER_BUDGET);
}

// -- drop --

TEST_F(PrimaryTablesTest, ADroppedTableGivesItsMemoryBack) {
  const int64_t before = budget->bytes;
  EXPECT_FALSE(Push(kWorker, weights, 0));
  EXPECT_GT(budget->bytes, before);
  EXPECT_TRUE(primary.Change(DropTable{weights->id}, &why));
  EXPECT_EQ(budget->bytes, before);
  EXPECT_EQ(primary.segment().FindTable(weights->id), nullptr);
  EXPECT_TRUE(primary.segment().IsDropped(weights->id));
}

TEST_F(PrimaryTablesTest, DroppingIsLoggedOnceAndBeforeAnybodyOpenedItToo) {
  EXPECT_TRUE(primary.Change(DropTable{weights->id}, &why));
  const Lsn logged = primary.segment().version();
  EXPECT_TRUE(primary.Change(DropTable{weights->id}, &why));
  EXPECT_EQ(primary.segment().version(), logged);
  EXPECT_EQ(Push(kWorker, weights, 0)->reason(), v1::Refusal::INVALID);
}

TEST_F(PrimaryTablesTest, LatePartsAndReadsDoNotOpenItAgain) {
  EXPECT_FALSE(Push(kWorker, weights, 0));
  primary.Change(DropTable{weights->id}, &why);
  const Lsn logged = primary.segment().version();
  const auto refusal = Push(kWorker, weights, 0);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason(), v1::Refusal::INVALID);
  EXPECT_EQ(refusal->expected(), 2u) << "its number is still due";
  EXPECT_THAT(refusal->message(), AllOf(HasSubstr("'weights'"), HasSubstr("was dropped")));
  EXPECT_THAT(Pull(kReader, weights)->refusals, ElementsAre(HasSubstr("was dropped")));
  EXPECT_EQ(primary.segment().version(), logged) << "nothing was logged";

  EXPECT_FALSE(
      primary.Take({.update = MakeUpdate(kWorker, 2, {}), .job = kJob, .table = nullptr, .acks = acks}))
      << "an empty part takes the number";
  EXPECT_EQ(acks->upto, 2u);
}

TEST_F(PrimaryTablesTest, APartThatWasTakenBeforeTheDropIsStillAcknowledged) {
  EXPECT_FALSE(Push(kWorker, weights, 0));
  primary.Change(DropTable{weights->id}, &why);
  acks->upto = 0;
  --numbers[kWorker];
  EXPECT_FALSE(Push(kWorker, weights, 0)) << "sent again";
  EXPECT_EQ(acks->upto, 1u);
}

TEST_F(PrimaryTablesTest, ReadsThatWaitAreRefused) {
  const auto mine = Pull(kReader, weights, /*min_clock=*/3);
  const auto other = Pull(kStranger, theirs, /*min_clock=*/3);
  EXPECT_EQ(primary.parked(), 2u);
  primary.Change(DropTable{weights->id}, &why);
  EXPECT_THAT(mine->refusals, ElementsAre(HasSubstr("'weights' was dropped while its read waited")));
  EXPECT_THAT(other->refusals, IsEmpty());
  EXPECT_EQ(primary.parked(), 1u);
}

TEST_F(PrimaryTablesTest, ATableOfTheSameNameStartsAfresh) {
  EXPECT_FALSE(Push(kWorker, weights, 0));
  primary.Change(DropTable{weights->id}, &why);
  const auto again = SgdTable(3, kJob);
  EXPECT_EQ(ValueOf(again), 100);
  EXPECT_FALSE(Push(kWorker, again, 0, 4));
  EXPECT_EQ(ValueOf(again), 96);
}

// -- rates --

TEST_F(PrimaryTablesTest, AnUpdateFollowsTheRatesOfItsOwnClock) {
  EXPECT_FALSE(Push(kWorker, weights, 0));
  EXPECT_EQ(ValueOf(weights), 99);
  EXPECT_TRUE(Rates(1, 10, /*clock=*/2));
  EXPECT_FALSE(Push(kWorker, weights, 1));
  EXPECT_EQ(ValueOf(weights), 98) << "clock 1 is before the change";
  EXPECT_FALSE(Push(kWorker, weights, 2));
  EXPECT_EQ(ValueOf(weights), 88) << "though the min clock is still 0";
}

TEST_F(PrimaryTablesTest, ASlowerWorkersUpdatesKeepTheOldRatesAfterTheChange) {
  const SessionId slow{10};
  Session(v1::Change::kOpen, slow, kJob);
  Session(v1::Change::kJoin, slow, kJob);
  EXPECT_TRUE(Rates(1, 10, 2));
  EXPECT_FALSE(Push(kWorker, weights, 2));
  EXPECT_FALSE(Push(slow, weights, 1));
  EXPECT_FALSE(Push(kWorker, weights, 3));
  EXPECT_EQ(ValueOf(weights), 100 - 10 - 1 - 10);
}

TEST_F(PrimaryTablesTest, ASessionWithoutAClockFollowsTheMinClock) {
  EXPECT_TRUE(Rates(1, 10, 2));
  EXPECT_FALSE(Push(kReader, weights, 0));
  EXPECT_EQ(ValueOf(weights), 99);
  Tick(2);
  EXPECT_FALSE(Push(kReader, weights, 0));
  EXPECT_EQ(ValueOf(weights), 89);
}

TEST_F(PrimaryTablesTest, AClockThatIsPassedIsRefusedByName) {
  EXPECT_FALSE(Push(kWorker, weights, 4));
  EXPECT_FALSE(Rates(1, 10, 4));
  EXPECT_EQ(passed, 4u);
  EXPECT_THAT(why, AllOf(HasSubstr("clock 4 is under way"), HasSubstr("'weights' were to change at 4")));
  EXPECT_TRUE(Rates(1, 10, 5));
  Tick(9);
  EXPECT_FALSE(Rates(2, 20, 8)) << "the min clock is past it";
  EXPECT_EQ(passed, 9u);
  EXPECT_TRUE(Rates(2, 20, 9));
}

TEST_F(PrimaryTablesTest, OnlyActiveWorkersCanBePastAClock) {
  const SessionId fast{10};
  Session(v1::Change::kOpen, fast, kJob);
  Session(v1::Change::kJoin, fast, kJob);
  EXPECT_FALSE(Push(fast, weights, 1000));
  EXPECT_FALSE(Rates(1, 10, 2));
  EXPECT_EQ(passed, 1000u);
  Session(v1::Change::kEvict, fast, kJob);
  EXPECT_TRUE(Rates(1, 10, 2));
}

TEST_F(PrimaryTablesTest, AChangeAtOnceCountsFromTheMinClock) {
  EXPECT_FALSE(Push(kWorker, weights, 4));
  EXPECT_TRUE(Rates(1, 10, 0, /*at_once=*/true));
  EXPECT_FALSE(Push(kWorker, weights, 4));
  EXPECT_FALSE(Push(kReader, weights, 0));
  EXPECT_EQ(ValueOf(weights), 100 - 1 - 10 - 10);
}

TEST_F(PrimaryTablesTest, ARepeatedProposalMovesUnlessItIsInForce) {
  EXPECT_TRUE(Rates(1, 10, 3));
  EXPECT_TRUE(Rates(1, 10, 6)) << "the first one was refused elsewhere";
  EXPECT_FALSE(Push(kWorker, weights, 5));
  EXPECT_EQ(ValueOf(weights), 99);
  EXPECT_TRUE(Rates(1, 10, 3)) << "a late call";
  EXPECT_FALSE(Push(kWorker, weights, 5));
  EXPECT_EQ(ValueOf(weights), 98);
  EXPECT_FALSE(Push(kWorker, weights, 6));
  const Lsn logged = primary.segment().version();
  EXPECT_TRUE(Rates(1, 10, 9));
  EXPECT_EQ(primary.segment().version(), logged) << "nobody goes back";
  EXPECT_FALSE(Push(kWorker, weights, 6));
  EXPECT_EQ(ValueOf(weights), 78);
  EXPECT_TRUE(Rates(2, 1, 7));
  EXPECT_TRUE(Rates(1, 10, 8)) << "a call of a change that was followed by another";
  EXPECT_FALSE(Push(kWorker, weights, 8));
  EXPECT_EQ(ValueOf(weights), 77);
}

TEST_F(PrimaryTablesTest, RatesOfADroppedTableDoNotMatter) {
  primary.Change(DropTable{weights->id}, &why);
  EXPECT_TRUE(Rates(1, 10, 3));
  EXPECT_EQ(primary.segment().FindTable(weights->id), nullptr);
}

// -- jobs --

TEST_F(PrimaryTablesTest, JobsDoNotSeeEachOther) {
  EXPECT_FALSE(Push(kWorker, weights, 0, 3));
  EXPECT_FALSE(Push(kStranger, theirs, 0, 5));
  EXPECT_EQ(ValueOf(weights), 97);
  EXPECT_EQ(ValueOf(theirs), 95);
  Tick(4);
  EXPECT_EQ(primary.segment().jobs().at(kJob).min_clock(), 4u);
  EXPECT_FALSE(primary.segment().jobs().contains(kOther) &&
               primary.segment().jobs().at(kOther).min_clock() > 0);
  Session(v1::Change::kJoin, kStranger, kOther);
  EXPECT_EQ(primary.segment().jobs().at(kOther).workers().size(), 1u);
  Session(v1::Change::kEvict, kStranger, kOther);
  EXPECT_EQ(primary.segment().jobs().at(kJob).workers().size(), 1u);
  EXPECT_EQ(Push(kWorker, theirs, 5)->reason(), v1::Refusal::FENCED) << "a session of another job";
}

TEST_F(PrimaryTablesTest, AClosedJobLeavesNothing) {
  EXPECT_FALSE(Push(kWorker, weights, 0));
  EXPECT_FALSE(Push(kStranger, theirs, 0));
  Session(v1::Change::kEvict, kWorker, kJob);
  Session(v1::Change::kEvict, kReader, kJob);
  const CloseJob close{.job = kJob, .tables = {weights->id, TableId(9)}};
  EXPECT_TRUE(primary.Change(close, &why));
  EXPECT_FALSE(primary.segment().jobs().contains(kJob));
  EXPECT_EQ(primary.segment().FindTable(weights->id), nullptr);
  EXPECT_TRUE(primary.segment().IsDropped(TableId(9))) << "though nobody had opened it here";
  EXPECT_NE(primary.segment().FindTable(theirs->id), nullptr);
  const Lsn logged = primary.segment().version();
  EXPECT_TRUE(primary.Change(close, &why));
  EXPECT_EQ(primary.segment().version(), logged);
  EXPECT_EQ(ValueOf(theirs), 99);
}

// -- the log --

TEST_F(PrimaryTablesTest, TheSameLogMakesTheSameSegment) {
  EXPECT_FALSE(Push(kWorker, weights, 0));
  EXPECT_TRUE(Rates(1, 10, 3));
  EXPECT_FALSE(Push(kWorker, weights, 3));
  EXPECT_FALSE(Push(kStranger, theirs, 0));
  EXPECT_TRUE(primary.Change(DropTable{theirs->id}, &why));
  Tick(1);
  Segment replica(SegmentId(0), 0);
  for (const Record& record : budget->log) replica.Apply(record);
  EXPECT_EQ(replica.Hash(), primary.segment().Hash());
  EXPECT_EQ(replica.bytes(), primary.segment().bytes());

  const uint64_t before = primary.segment().Hash();
  EXPECT_TRUE(Rates(2, 20, 9));
  EXPECT_NE(primary.segment().Hash(), before) << "rates that are to come count";
  Segment other(SegmentId(0), 0);
  for (const Record& record : budget->log) {
    Record changed = record;
    if (auto* rates = std::get_if<ChangeRule>(&changed); rates != nullptr && rates->number == 2) {
      rates->rule = table::Sgd{21};
    }
    other.Apply(changed);
  }
  EXPECT_NE(other.Hash(), primary.segment().Hash());
}

}  // namespace
}  // namespace paceline::log
