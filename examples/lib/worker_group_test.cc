#include "examples/lib/worker_group.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "examples/lib/steady_now.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// The group starts this very program as its workers: see main() below. What they do is an argument.
namespace paceline::examples {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void Say(WorkerReport::Stage stage, const std::string& job) {
  WorkerReport report;
  report.stage = stage;
  report.examples = 7;
  report.began = 1;
  report.error = stage == WorkerReport::Stage::kFailed ? "what went wrong in " + job : "";
  std::printf("a library's own words\n%s\n", ToLine(report).c_str());
  std::fflush(stdout);
}

// example BEHAVIOUR --worker RANK --job NAME
int PlayWorker(const std::string& behaviour, int rank, const std::string& job) {
  Say(WorkerReport::Stage::kTraining, job);
  if (behaviour == "finish") {
    Say(WorkerReport::Stage::kDone, job);
    return 0;
  }
  if (rank == 1 && behaviour == "fail") {
    Say(WorkerReport::Stage::kFailed, job);
    return 3;
  }
  if (rank == 1 && behaviour == "leave") return 0;
  if (rank == 1 && behaviour == "crash") raise(SIGKILL);
  if (behaviour == "lone survivor") {
    if (rank > 0) raise(SIGKILL);
    Say(WorkerReport::Stage::kDone, job);
    return 0;
  }
  if (behaviour == "all crash") raise(SIGKILL);
  pause();  // until told to end
  return 0;
}

std::unique_ptr<WorkerGroup> Group(const std::string& behaviour, uint32_t workers,
                                   bool others_take_over = false) {
  absl::StatusOr<std::unique_ptr<WorkerGroup>> group =
      WorkerGroup::Start({"example", behaviour}, "the job", workers, others_take_over);
  EXPECT_TRUE(group.ok()) << group.status();
  return group.ok() ? *std::move(group) : nullptr;
}

// Waits until the group is done, fails or `until` holds.
absl::Status Await(
    WorkerGroup* group, const std::function<bool()>& until = [] { return false; }) {
  const absl::Time deadline = SteadyNow() + absl::Seconds(30);
  while (!group->done() && !until()) {
    if (absl::Status s = group->Wait(absl::Seconds(1)); !s.ok()) return s;
    if (SteadyNow() > deadline) return absl::DeadlineExceededError("nothing came");
  }
  return absl::OkStatus();
}

TEST(WorkerGroupTest, IsDoneWhenAllAre) {
  const std::unique_ptr<WorkerGroup> group = Group("finish", 3);
  const absl::Status status = Await(group.get());
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(group->reports().size(), 3u);
  for (const WorkerReport& report : group->reports()) {
    EXPECT_EQ(report.stage, WorkerReport::Stage::kDone);
    EXPECT_EQ(report.examples, 7u);
  }
}

TEST(WorkerGroupTest, AFailureNamesTheWorkerItsEndAndItsError) {
  const absl::Status status = Await(Group("fail", 2).get());
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("worker 1 (process "), HasSubstr("exit code 3"),
                                                   HasSubstr("what went wrong in the job")));
}

TEST(WorkerGroupTest, ACrashNamesTheSignal) {
  const absl::Status status = Await(Group("crash", 3).get());
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("worker 1 "), HasSubstr("signal 9 (Killed)")));
}

TEST(WorkerGroupTest, OthersTakeOverFromOneThatIsKilled) {
  const std::unique_ptr<WorkerGroup> group = Group("lone survivor", 3, /*others_take_over=*/true);
  const absl::Status status = Await(group.get());
  EXPECT_TRUE(status.ok()) << status;
  for (const WorkerReport& report : group->reports()) EXPECT_EQ(report.examples, 7u);
  EXPECT_GT(group->reports()[2].ended, 0) << "its time ended with it";
}

TEST(WorkerGroupTest, NobodyTakesOverFromTheLastOneNorFromOneThatFails) {
  EXPECT_THAT(std::string(Await(Group("all crash", 2, /*others_take_over=*/true).get()).message()),
              HasSubstr("signal 9 (Killed)"));
  EXPECT_THAT(std::string(Await(Group("fail", 2, /*others_take_over=*/true).get()).message()),
              HasSubstr("what went wrong in the job"));
}

TEST(WorkerGroupTest, EndingEarlyIsAFailureToo) {
  const absl::Status status = Await(Group("leave", 2).get());
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("worker 1 "), HasSubstr("exit code 0")));
}

TEST(WorkerGroupTest, ASignalStopsItAndTheGroupsEndIsThatOfItsWorkers) {
  std::unique_ptr<WorkerGroup> group = Group("wait", 2);
  const auto all_train = [&] {
    for (const WorkerReport& report : group->reports()) {
      if (report.stage != WorkerReport::Stage::kTraining) return false;
    }
    return true;
  };
  ASSERT_TRUE(Await(group.get(), all_train).ok());
  kill(getpid(), SIGTERM);
  const absl::Status status = Await(group.get());
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(group->signal(), SIGTERM);
  const absl::Time before = SteadyNow();
  group.reset();  // would hang, or take its five seconds, if a worker did not hear of it
  EXPECT_LT(SteadyNow() - before, absl::Seconds(4));
}

TEST(WorkerGroupTest, DescribesEnds) {
  EXPECT_EQ(DescribeEnd(2 << 8), "ended with exit code 2");
  EXPECT_EQ(DescribeEnd(SIGSEGV), "was killed by signal 11 (Segmentation fault)");
}

}  // namespace
}  // namespace paceline::examples

int main(int argc, char** argv) {
  if (argc == 6 && std::strcmp(argv[2], "--worker") == 0) {
    return paceline::examples::PlayWorker(argv[1], std::atoi(argv[3]), argv[5]);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
