#include "tools/paceline/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "libs/base/test_util/status_matchers.h"
#include "libs/world/real_clock.h"

namespace paceline::tool {
namespace {

using ::paceline::testing::StatusIs;
using Ended = Supervisor::Ended;
using Signalled = Supervisor::Signalled;

constexpr absl::Duration kLong = absl::Minutes(1);  // never waited for, unless the test fails

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    EXPECT_EQ(pipe2(output_, O_CLOEXEC), 0);
    absl::StatusOr<std::unique_ptr<Supervisor>> made = Supervisor::Create();
    EXPECT_TRUE(made.ok()) << made.status();
    supervisor_ = *std::move(made);
  }
  ~SupervisorTest() override {
    supervisor_.reset();
    for (const int end : output_) close(end);
  }

  const Child* StartShell(const std::string& script) {
    ChildOptions options;
    options.name = "shell";
    options.arguments = {"sh", "-c", script};
    options.environment = {"WORD=given"};
    options.output = output_[1];
    const absl::StatusOr<const Child*> child = supervisor_->Start(options);
    EXPECT_TRUE(child.ok()) << child.status();
    return *child;
  }
  // Waits for what the children wrote.
  std::string Read() {
    EXPECT_TRUE(std::holds_alternative<Supervisor::Readable>(Wait(output_[0])));
    char text[100] = {};
    EXPECT_GT(read(output_[0], text, sizeof(text) - 1), 0);
    return text;
  }
  Supervisor::Event Wait(int file = -1) { return supervisor_->Wait(world::MonotonicNow() + kLong, file); }

  int output_[2] = {};
  std::unique_ptr<Supervisor> supervisor_;
};

TEST_F(SupervisorTest, TellsEachEndOnce) {
  const Child* first = StartShell("exit 3");
  const Child* second = StartShell("kill -KILL $$");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(std::holds_alternative<Ended>(Wait()));
  EXPECT_TRUE(std::holds_alternative<Supervisor::TimedOut>(supervisor_->Wait(world::MonotonicNow())));
  EXPECT_EQ(DescribeEnd(first->end.value()), "ended with exit code 3");
  EXPECT_EQ(ExitCodeOf(first->end.value()), 3);
  EXPECT_EQ(DescribeEnd(second->end.value()), "was killed by signal 9 (Killed)");
  EXPECT_EQ(ExitCodeOf(second->end.value()), 128 + SIGKILL);
}

TEST_F(SupervisorTest, AChildHasItsEnvironmentAndNoInput) {
  StartShell("cat; echo \"$WORD $(test -n \"$PATH\" && echo kept)\"");
  EXPECT_EQ(Read(), "given kept\n");
}

TEST_F(SupervisorTest, SaysWhyAProgramCannotRun) {
  ChildOptions options;
  options.arguments = {"/no/such/program"};
  EXPECT_THAT(supervisor_->Start(options), StatusIs(absl::StatusCode::kNotFound));
  options.arguments = {"/dev/null"};
  EXPECT_THAT(supervisor_->Start(options), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(std::holds_alternative<Supervisor::TimedOut>(supervisor_->Wait(world::MonotonicNow())));
}

TEST_F(SupervisorTest, HearsSignalsAndTheirSenders) {
  kill(getpid(), SIGTERM);
  const Supervisor::Event event = Wait();
  ASSERT_TRUE(std::holds_alternative<Signalled>(event));
  EXPECT_EQ(std::get<Signalled>(event).signal, SIGTERM);
  EXPECT_FALSE(std::get<Signalled>(event).by_terminal);
}

TEST_F(SupervisorTest, StopLetsAChildEndInItsOwnWay) {
  const Child* child = StartShell("trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done");
  EXPECT_EQ(Read(), "ready\n");
  supervisor_->Stop({child}, kLong);
  EXPECT_EQ(ExitCodeOf(child->end.value()), 4);
}

TEST_F(SupervisorTest, StopKillsAChildThatDoesNotEnd) {
  const Child* child = StartShell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
  EXPECT_EQ(Read(), "ready\n");
  supervisor_->Stop({child}, absl::Milliseconds(1));
  EXPECT_EQ(ExitCodeOf(child->end.value()), 128 + SIGKILL);
}

TEST_F(SupervisorTest, ASignalEndsThePatienceOfStop) {
  const Child* child = StartShell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
  EXPECT_EQ(Read(), "ready\n");
  kill(getpid(), SIGINT);
  supervisor_->Stop({child}, kLong);
  EXPECT_EQ(ExitCodeOf(child->end.value()), 128 + SIGKILL);
}

TEST_F(SupervisorTest, StopLeavesTheEndsOfOthersToWait) {
  const Child* other = StartShell("exit 0");
  const Child* child = StartShell("while :; do sleep 0.01; done");
  supervisor_->Stop({child}, kLong);
  const Supervisor::Event event = Wait();
  ASSERT_TRUE(std::holds_alternative<Ended>(event));
  EXPECT_EQ(std::get<Ended>(event).child, other);
}

}  // namespace
}  // namespace paceline::tool
