#include "libs/rpc/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "grpc/grpc.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::rpc {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

TEST(KeepGrpcUp, OutlivesTheLastObject) {
  BlockEndSignals();  // which gRPC's threads would take from other tests
  const auto use = [] {
    grpc_init();
    grpc_shutdown();
  };
  use();
  ASSERT_FALSE(grpc_is_initialized());
  KeepGrpcUp();
  use();
  EXPECT_TRUE(grpc_is_initialized());
}

TEST(PortFile, AppearsWhole) {
  char folder[] = "/tmp/paceline-process-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/port";
  EXPECT_THAT(WritePortFile(path, "127.0.0.1:4711"), IsOk());
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "127.0.0.1:4711\n");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  // A folder stands in the way of the file's name.
  std::filesystem::create_directories(std::string(folder) + "/taken/x");
  EXPECT_THAT(WritePortFile(std::string(folder) + "/taken", "127.0.0.1:1"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("--port-file")));
  std::filesystem::remove_all(folder);
}

TEST(PortFile, NamesTheFlagWhereItCannotBeWritten) {
  EXPECT_THAT(WritePortFile("", "127.0.0.1:1"), IsOk());
  EXPECT_THAT(WritePortFile("/proc/none/port", "127.0.0.1:1"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("--port-file")));
}

TEST(EndSignals, ReachTheThreadThatWaits) {
  const sigset_t end_signals = BlockEndSignals();
  kill(getpid(), SIGTERM);
  const timespec patience{.tv_sec = 20, .tv_nsec = 0};
  EXPECT_EQ(sigtimedwait(&end_signals, nullptr, &patience), SIGTERM);
  sigset_t inherited;
  std::thread([&] { pthread_sigmask(SIG_BLOCK, nullptr, &inherited); }).join();
  EXPECT_TRUE(sigismember(&inherited, SIGTERM) && sigismember(&inherited, SIGINT));
}

}  // namespace
}  // namespace paceline::rpc
