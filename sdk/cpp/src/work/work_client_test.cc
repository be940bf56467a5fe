// The client's part of a work queue: what it reports, and when.
#include "sdk/cpp/src/work/work_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/test_util/status_matchers.h"
#include "sdk/cpp/src/testing/core_harness.h"

namespace paceline::sdk {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using testing::CoreHarness;
using ::testing::ElementsAre;
using testing::FakeCluster;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A coordinator that hands out items 0, 1, 2 … of 100 items of ten examples.
struct WorkClientTest : ::testing::Test {
  explicit WorkClientTest(uint32_t level = 1) {
    h.cluster.feature_level = level;
    h.coordinator.on_work = [this](const v1::ReportWorkRequest& request) { return Answer(request); };
    EXPECT_THAT(h.Open(), IsOk());
    table = h.OpenTable("w", {.dim = 1}).value();
    spec.set_examples(1000);
    spec.set_per_item(10);
    spec.set_passes(1);
    h.Enter([&] {
      h.core->OpenWork("train", spec, absl::Seconds(60), [](absl::StatusOr<uint32_t> queue) {
        EXPECT_THAT(queue, IsOk());
        EXPECT_EQ(*queue, 1u);
      });
    });
    h.Advance(absl::Milliseconds(1));
  }

  absl::StatusOr<v1::ReportWorkReply> Answer(const v1::ReportWorkRequest& request) {
    if (!failure.ok()) return failure;
    for (const auto& [item, of] : wire::FromItems(spec, request.begun())) held[item] = of;
    for (const auto& [item, of] : wire::FromItems(spec, request.done())) held.erase(item);
    for (const auto& [item, of] : wire::FromItems(spec, request.given_back())) held.erase(item);
    const auto not_begun = std::ranges::count_if(held, [](const auto& of) { return !of.second.begun; });
    for (auto n = static_cast<uint32_t>(not_begun);
         n < request.ahead() && to_give > 0 && next < wire::ItemsOf(spec); ++n, --to_give) {
      held[next] = {.mark = wire::RangeOf(spec, next).begin};
      ++next;
    }
    v1::ReportWorkReply reply;
    reply.set_number(request.number());
    *reply.mutable_held() = wire::ToItems(spec, held);
    reply.set_complete(complete && held.empty());
    reply.set_give_back(std::exchange(give_back, 0));
    reply.set_ask_again_ms(200);
    if (held.empty() && !reply.complete()) reply.set_waits_for("worker 2 (session 9), which holds 3 items");
    return reply;
  }

  using Result = std::optional<absl::StatusOr<std::optional<WorkItem>>>;
  std::shared_ptr<Result> Next(absl::Duration timeout = absl::Seconds(60)) {
    auto result = std::make_shared<Result>();
    h.Enter([&] { h.core->work(1).Next(timeout, [result](auto item) { *result = item; }); });
    return result;
  }
  WorkItem Begun() {
    const auto result = Next();
    h.Advance(absl::Milliseconds(100));
    if (result->has_value() && (*result)->ok() && (**result)->has_value()) return (**result)->value();
    ADD_FAILURE() << "no item";
    return {};
  }
  absl::Status Mark(const WorkItem& item, uint64_t position) {
    absl::Status status;
    h.Enter([&] { status = h.core->work(1).Mark(item, position); });
    return status;
  }
  absl::Status Done(const WorkItem& item) {
    absl::Status status;
    h.Enter([&] { status = h.core->work(1).Done(item); });
    return status;
  }
  uint64_t MarkReported(uint64_t item) const {
    uint64_t mark = 0;
    for (const v1::WorkItems& run : h.coordinator.work_reports.back().begun()) {
      if (run.first() == item) mark = run.mark();
    }
    return mark;
  }
  static std::vector<uint64_t> Numbers(const wire::WorkItemsField& field) {
    std::vector<uint64_t> numbers;
    for (const v1::WorkItems& run : field) {
      for (uint64_t i = 0; i < run.count(); ++i) numbers.push_back(run.first() + i);
    }
    return numbers;
  }

  CoreHarness h;
  std::shared_ptr<const TableInfo> table;
  v1::WorkSpec spec;
  // The coordinator's state.
  std::map<uint64_t, wire::HeldItem> held;
  uint64_t next = 0;
  uint32_t to_give = 1000;
  uint32_t give_back = 0;
  bool complete = false;
  absl::Status failure;
};

TEST_F(WorkClientTest, ItemsComeAheadSoThatNobodyWaitsForThem) {
  EXPECT_EQ(h.coordinator.work_reports.size(), 1u) << "as soon as the queue is open";
  const auto first = Next();
  h.Enter([] {});
  ASSERT_TRUE(first->has_value()) << "without a round trip";
  EXPECT_EQ((**first)->value().number, 0u);
  EXPECT_EQ((**first)->value().begin, 0u);
  EXPECT_EQ((**first)->value().end, 10u);
}

TEST_F(WorkClientTest, PassesInOrderAreNotAskedOfAClusterThatDoesNotKnowThem) {
  spec.set_passes_in_order(true);
  std::optional<absl::StatusOr<uint32_t>> opened;
  h.Enter([&] {
    h.core->OpenWork("documents", spec, absl::Seconds(60),
                     [&opened](absl::StatusOr<uint32_t> queue) { opened = std::move(queue); });
  });
  h.Run();
  ASSERT_TRUE(opened.has_value());
  EXPECT_THAT(*opened, StatusIs(StatusCode::kUnimplemented, HasSubstr("feature level 2")));
}

TEST_F(WorkClientTest, WantsWorkForTheTimeItIsToHoldAhead) {
  to_give = 3;
  for (int i = 0; i < 3; ++i) {
    const WorkItem item = Begun();
    h.Advance(absl::Seconds(2));
    EXPECT_THAT(Done(item), IsOk());
  }
  h.Advance(absl::Seconds(2));
  EXPECT_THAT(h.coordinator.work_reports.back().ahead(), AllOf(::testing::Ge(25u), ::testing::Le(31u)));
}

TEST_F(WorkClientTest, AnItemIsDoneOnceItsPushesAreCommitted) {
  const WorkItem item = Begun();
  h.unreachable = {FakeCluster::AddressOf(0), FakeCluster::AddressOf(1)};
  h.Push(table, std::vector<uint64_t>{1, 2, 3, 4}, std::vector<float>(4, 1));
  EXPECT_THAT(Mark(item, 5), IsOk());
  EXPECT_THAT(Done(item), IsOk());
  h.Advance(absl::Seconds(3));
  EXPECT_EQ(MarkReported(0), 0u);
  EXPECT_THAT(h.coordinator.work_reports.back().done(), IsEmpty());
  h.unreachable.clear();
  h.Advance(absl::Seconds(3));
  EXPECT_FALSE(held.contains(0));
}

struct FilteredWorkTest : WorkClientTest {
  FilteredWorkTest() : WorkClientTest(/*level=*/2) {}
};

// Who died would take with him what he holds back, and nobody would train it again.
TEST_F(FilteredWorkTest, AnItemIsDoneOnlyWithWhatWasHeldBackOfIt) {
  const auto filtered = h.OpenTable("f", {.dim = 1}, Ssp{}, {.significant = 10}).value();
  const WorkItem item = Begun();
  h.Push(filtered, std::vector<uint64_t>{1}, std::vector<float>{20});
  EXPECT_THAT(Mark(item, 3), IsOk());
  h.Push(filtered, std::vector<uint64_t>{2}, std::vector<float>{3});
  EXPECT_THAT(Mark(item, 6), IsOk());
  h.Advance(absl::Seconds(3));
  EXPECT_EQ(MarkReported(0), 3u) << "the update of the next one is held back";
  EXPECT_THAT(Done(item), IsOk());
  EXPECT_FALSE(h.core->filters().holds());
  EXPECT_GT(h.core->unacknowledged_bytes(), 0u);
  h.Advance(absl::Seconds(3));
  EXPECT_FALSE(held.contains(0));
}

// Such a push goes through the filter when it starts, which is after the mark.
TEST_F(FilteredWorkTest, AMarkCoversWhatIsHeldBackOfPushesThatStartAfterIt) {
  const auto filtered = h.OpenTable("f", {.dim = 1}, Ssp{}, {.significant = 10}).value();
  const WorkItem item = Begun();
  h.Enter([&] { h.core->OnHeld(1); });
  EXPECT_THAT(Mark(item, 5), IsOk());
  h.unreachable = {FakeCluster::AddressOf(0), FakeCluster::AddressOf(1)};
  h.Push(filtered, std::vector<uint64_t>{1}, std::vector<float>{3});
  h.Enter([&] { h.core->OnHeldEnded(1); });
  h.Advance(absl::Seconds(3));
  EXPECT_EQ(MarkReported(0), 0u) << "its update is not committed";
  h.unreachable.clear();
  h.Advance(absl::Seconds(3));
  EXPECT_EQ(MarkReported(0), 5u);
  EXPECT_FALSE(h.core->filters().holds());
}

TEST_F(FilteredWorkTest, AnItemIsDoneOnlyWithWhatStartsAfterIt) {
  const auto filtered = h.OpenTable("f", {.dim = 1}, Ssp{}, {.significant = 10}).value();
  const WorkItem item = Begun();
  h.Enter([&] { h.core->OnHeld(1); });
  EXPECT_THAT(Done(item), IsOk());
  h.Push(filtered, std::vector<uint64_t>{1}, std::vector<float>{3});
  h.Enter([&] { h.core->OnHeldEnded(1); });
  h.Advance(absl::Seconds(3));
  EXPECT_FALSE(h.core->filters().holds());
  EXPECT_FALSE(held.contains(0));
}

TEST_F(FilteredWorkTest, WhoLeavesSendsWhatIsHeldBack) {
  const auto filtered = h.OpenTable("f", {.dim = 1}, Ssp{}, {.significant = 10}).value();
  (void)Begun();
  h.Push(filtered, std::vector<uint64_t>{1}, std::vector<float>{3});
  ASSERT_TRUE(h.core->filters().holds());
  std::optional<absl::Status> left;
  h.Enter([&] { h.core->work(1).Leave(absl::Seconds(10), [&](absl::Status status) { left = status; }); });
  EXPECT_FALSE(h.core->filters().holds());
  EXPECT_GT(h.core->unacknowledged_bytes(), 0u);
  h.Advance(absl::Seconds(3));
  EXPECT_THAT(left, ::testing::Optional(IsOk()));
}

TEST_F(WorkClientTest, AMarkWaitsForUpdatesOfThisClockToAggregatedTables) {
  const auto folded = h.OpenTable("folded", {.dim = 1, .aggregated = true}).value();
  const WorkItem item = Begun();
  h.Push(folded, std::vector<uint64_t>{1}, std::vector<float>{1});
  EXPECT_THAT(Mark(item, 5), IsOk());
  h.Advance(absl::Seconds(3));
  EXPECT_EQ(MarkReported(0), 0u) << "nobody has ended the clock";
  EXPECT_THAT(h.Tick(), IsOk());
  h.Advance(absl::Seconds(3));
  EXPECT_EQ(MarkReported(0), 5u);
}

TEST_F(WorkClientTest, APushThatIsHeldCountsToo) {
  const WorkItem item = Begun();
  h.Enter([&] { h.core->OnHeld(1); });
  EXPECT_THAT(Mark(item, 5), IsOk());
  h.Advance(absl::Seconds(3));
  EXPECT_EQ(MarkReported(0), 0u);
  h.unreachable = {FakeCluster::AddressOf(0), FakeCluster::AddressOf(1)};
  h.Push(table, std::vector<uint64_t>{1, 2, 3, 4}, std::vector<float>(4, 1));
  h.Enter([&] { h.core->OnHeldEnded(1); });
  h.Advance(absl::Seconds(3));
  EXPECT_EQ(MarkReported(0), 0u);
  h.unreachable.clear();
  h.Advance(absl::Seconds(3));
  EXPECT_EQ(MarkReported(0), 5u);
}

TEST_F(WorkClientTest, WrongMarksAreRefused) {
  const WorkItem item = Begun();
  EXPECT_THAT(Mark(item, 11), StatusIs(StatusCode::kInvalidArgument, HasSubstr("from 0 to 10")));
  EXPECT_THAT(Mark({.number = 50}, 501), StatusIs(StatusCode::kInvalidArgument, HasSubstr("item 50")));
  EXPECT_THAT(Done(item), IsOk());
  EXPECT_THAT(Done(item), StatusIs(StatusCode::kInvalidArgument, HasSubstr("item 0")));
}

TEST_F(WorkClientTest, WhoIsOutOfWorkWaitsAndSaysForWhom) {
  to_give = 0;
  EXPECT_THAT(Done(Begun()), IsOk());
  EXPECT_THAT(Done(Begun()), IsOk());
  const auto waits = Next(absl::Seconds(5));
  h.Advance(absl::Seconds(1));
  EXPECT_FALSE(waits->has_value());
  EXPECT_GT(h.coordinator.work_reports.back().waiting(), 0u);
  h.Advance(absl::Seconds(5));
  ASSERT_TRUE(waits->has_value());
  EXPECT_THAT(**waits, StatusIs(StatusCode::kDeadlineExceeded,
                                AllOf(HasSubstr("work queue 'train'"), HasSubstr("worker 2 (session 9)"))));
  const auto again = Next();
  to_give = 1;
  h.Advance(absl::Seconds(1));
  ASSERT_TRUE(again->has_value());
  EXPECT_EQ((**again)->value().number, 2u);
  EXPECT_GT(h.core->stats().wait.work, 5.0);
}

TEST_F(WorkClientTest, TheEndComesWhenTheQueueIsComplete) {
  to_give = 0;
  complete = true;
  EXPECT_THAT(Done(Begun()), IsOk());
  EXPECT_THAT(Done(Begun()), IsOk());
  const auto end = Next();
  h.Advance(absl::Seconds(1));
  ASSERT_TRUE(end->has_value());
  ASSERT_THAT(**end, IsOk());
  EXPECT_FALSE((**end)->has_value());
  const size_t reports = h.coordinator.work_reports.size();
  h.Advance(absl::Seconds(10));
  EXPECT_EQ(h.coordinator.work_reports.size(), reports) << "there is nothing more to tell";
}

TEST_F(WorkClientTest, WorkGoesOnWhileNoCoordinatorIsThere) {
  to_give = 6;  // beside the first two
  WorkItem item = Begun();
  for (int i = 0; i < 3; ++i) {
    h.Advance(absl::Seconds(2));
    EXPECT_THAT(Done(item), IsOk());
    item = Begun();
  }
  h.Advance(absl::Seconds(2));
  failure = absl::UnavailableError("it restarts");
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(Done(item), IsOk());
    item = Begun();
    h.Advance(absl::Seconds(2));
  }
  const auto waits = Next();
  h.Advance(absl::Seconds(2));
  EXPECT_FALSE(waits->has_value());
  std::optional<Waiting> waiting;
  h.Enter([&] { waiting = h.core->work(1).Waits(); });
  EXPECT_THAT(waiting->whom, HasSubstr("it restarts"));
  failure = absl::OkStatus();
  to_give = 100;
  h.Advance(absl::Seconds(2));
  EXPECT_TRUE(waits->has_value());
}

TEST_F(WorkClientTest, GivesBackTheLastOnesThatItHasNotBegun) {
  to_give = 8;
  for (int i = 0; i < 3; ++i) {
    const WorkItem item = Begun();
    h.Advance(absl::Seconds(2));
    EXPECT_THAT(Done(item), IsOk());
  }
  h.Advance(absl::Seconds(2));
  const WorkItem item = Begun();
  EXPECT_EQ(item.number, 3u);
  give_back = 2;
  h.Advance(absl::Seconds(2));
  EXPECT_THAT(held, ::testing::Not(::testing::AnyOf(::testing::Contains(::testing::Key(8)),
                                                    ::testing::Contains(::testing::Key(9)))));
  EXPECT_EQ(Begun().number, 4u);
}

TEST_F(WorkClientTest, LeavingGivesBackTheRestFromItsMarkOn) {
  const WorkItem item = Begun();
  EXPECT_THAT(Mark(item, 4), IsOk());
  std::optional<absl::Status> left;
  h.Enter([&] { h.core->work(1).Leave(absl::Seconds(10), [&](absl::Status status) { left = status; }); });
  h.Advance(absl::Seconds(1));
  ASSERT_TRUE(left.has_value());
  EXPECT_THAT(*left, IsOk());
  EXPECT_THAT(held, IsEmpty());
  const auto& reports = h.coordinator.work_reports;
  const auto last = std::find_if(reports.rbegin(), reports.rend(),
                                 [](const auto& report) { return report.given_back_size() > 0; });
  ASSERT_NE(last, reports.rend());
  EXPECT_THAT(Numbers(last->given_back()), ElementsAre(0, 1));
  EXPECT_EQ(last->begun(0).mark(), 4u);
  const auto refused = Next();
  h.Enter([] {});
  ASSERT_TRUE(refused->has_value());
  EXPECT_THAT(**refused, StatusIs(StatusCode::kFailedPrecondition, HasSubstr("has left")));
}

TEST_F(WorkClientTest, WhileItWaitsItTicksBehindTheSlowest) {
  h.cluster.OpenSession(8);
  h.cluster.Join(8, 0);
  to_give = 0;
  EXPECT_THAT(Done(Begun()), IsOk());
  EXPECT_THAT(Done(Begun()), IsOk());
  const Clock before = h.core->clock();
  const auto waits = Next();
  h.Advance(absl::Seconds(5));
  EXPECT_EQ(h.core->clock(), before + 1) << "one clock ahead of the slowest, so that it waits for nobody";
  EXPECT_FALSE(waits->has_value());
  to_give = 1;
  h.Advance(absl::Seconds(1));
  const Clock working = h.core->clock();
  h.Advance(absl::Seconds(5));
  EXPECT_EQ(h.core->clock(), working) << "its clock is its own again";
}

TEST_F(WorkClientTest, TheEndOfTheSessionEndsEveryCall) {
  to_give = 0;
  EXPECT_THAT(Done(Begun()), IsOk());
  const WorkItem item = Begun();
  const auto waits = Next();
  failure = absl::FailedPreconditionError("session 7 was evicted");
  h.Advance(absl::Seconds(2));
  ASSERT_TRUE(waits->has_value());
  EXPECT_THAT(**waits, StatusIs(StatusCode::kAborted, HasSubstr("connect again")));
  EXPECT_THAT(Done(item), StatusIs(StatusCode::kAborted));
}

}  // namespace
}  // namespace paceline::sdk
