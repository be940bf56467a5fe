// The program itself: its output, its end, and its memory over a restart.
#include <fcntl.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libs/base/feature_level.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/base/version.h"
#include "libs/rpc/status.h"
#include "paceline/v1/coordinator.grpc.pb.h"

extern char** environ;

namespace paceline::coordinator {
namespace {

using ::testing::HasSubstr;

class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments) {
    std::vector<char*> argv = {const_cast<char*>("paceline-coordinator")};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    int ends[2] = {};
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    const char* program = std::getenv("PACELINE_COORDINATOR");
    EXPECT_EQ(posix_spawn(&pid_, program, &actions, nullptr, argv.data(), environ), 0) << program;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
  }
  ~Process() {
    if (pid_ != 0) End(SIGKILL);
    close(output_);
  }

  // Reads what the process says until `word` has come; everything if it never does.
  std::string ReadUntil(const std::string& word) {
    char byte = 0;
    while (said_.find(word) == std::string::npos && read(output_, &byte, 1) == 1) said_.push_back(byte);
    return said_;
  }
  // The exit code, or minus the signal that ended it.
  int End(int signal) {
    kill(pid_, signal);
    return Wait();
  }
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  int output_ = -1;
  std::string said_;
};

class CoordinatorProcess : public ::testing::Test {
 protected:
  CoordinatorProcess() {
    std::string name = ::testing::TempDir() + "/paceline_coordinator_XXXXXX";
    dir_ = mkdtemp(name.data());
  }
  ~CoordinatorProcess() override { std::filesystem::remove_all(dir_); }

  std::vector<std::string> Arguments() const {
    return {"--listen",    "127.0.0.1:0",  "--data-dir", dir_ + "/data",
            "--port-file", dir_ + "/port", "--shards",   "2"};
  }
  // The answer of the process whose address is in the port file.
  absl::StatusOr<v1::StatusReply> Status() {
    grpc::ClientContext context;
    v1::StatusReply reply;
    const grpc::Status status = Stub()->Status(&context, v1::StatusRequest(), &reply);
    if (!status.ok()) return rpc::FromGrpc(status);
    return reply;
  }
  std::unique_ptr<v1::Coordinator::Stub> Stub() const {
    return v1::Coordinator::NewStub(grpc::CreateChannel(PortFile(), grpc::InsecureChannelCredentials()));
  }
  std::string PortFile() const {
    std::string address;
    std::ifstream(dir_ + "/port") >> address;
    return address;
  }

  std::string dir_;
};

TEST_F(CoordinatorProcess, ServesAndEndsInOrder) {
  Process process(Arguments());
  process.ReadUntil("coordinator serves");
  const std::string said = process.ReadUntil("version=");
  EXPECT_THAT(said, HasSubstr("address=" + PortFile()));
  const auto status = Status();
  ASSERT_THAT(status, testing::IsOk());
  EXPECT_EQ(status->version(), kVersion);
  EXPECT_EQ(status->shards_wanted(), 2u);
  EXPECT_EQ(process.End(SIGTERM), 0);
  EXPECT_THAT(process.ReadUntil("has ended"), HasSubstr("coordinator has ended"));
}

// The answer to a question for its services, as it is on the wire, or why there is none.
absl::StatusOr<std::string> ListServices(const std::string& address) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice list_services("\x3a\x01*");
  grpc::ByteBuffer reply;
  grpc::Status status;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                            grpc::ByteBuffer(&list_services, 1), &queue);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* ignored = nullptr;
  bool ok = false;
  queue.Next(&ignored, &ok);
  if (!status.ok()) return rpc::FromGrpc(status);
  grpc::Slice bytes;
  EXPECT_TRUE(reply.DumpToSingleSlice(&bytes).ok());
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

TEST_F(CoordinatorProcess, ReflectsWithItsFlagOnly) {
  {
    Process process(Arguments());
    process.ReadUntil("coordinator serves");
    EXPECT_THAT(ListServices(PortFile()), testing::StatusIs(absl::StatusCode::kUnimplemented));
  }
  std::vector<std::string> arguments = Arguments();
  arguments.push_back("--reflection");
  Process process(arguments);
  process.ReadUntil("coordinator serves");
  const auto services = ListServices(PortFile());
  ASSERT_THAT(services, testing::IsOk());
  EXPECT_THAT(*services, HasSubstr("paceline.v1.Coordinator"));
}

TEST_F(CoordinatorProcess, KnowsItsFactsAfterItWasKilled) {
  {
    Process process(Arguments());
    process.ReadUntil("coordinator serves");
    grpc::ClientContext context;
    v1::JoinClusterRequest request;
    v1::JoinClusterReply reply;
    request.set_feature_level(kFeatureLevel);
    request.set_name("shard-0");
    request.set_address("127.0.0.1:1");
    request.set_nonce(5);
    ASSERT_TRUE(Stub()->JoinCluster(&context, request, &reply).ok());
    EXPECT_EQ(process.End(SIGKILL), -SIGKILL);
  }
  Process again(Arguments());
  again.ReadUntil("coordinator serves");
  const auto status = Status();
  ASSERT_THAT(status, testing::IsOk());
  ASSERT_EQ(status->shards_size(), 1);
  EXPECT_EQ(status->shards(0).info().name(), "shard-0");
  EXPECT_EQ(again.End(SIGINT), 0);
}

TEST_F(CoordinatorProcess, ASecondOneOnTheSameDirectoryDoesNotStart) {
  Process first(Arguments());
  first.ReadUntil("coordinator serves");
  Process second(Arguments());
  EXPECT_THAT(second.ReadUntil("another --data-dir"), HasSubstr("in use by another coordinator"));
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(Status(), testing::IsOk());
}

TEST_F(CoordinatorProcess, SaysWhichRingItsClusterHas) {
  Process first(Arguments());
  first.ReadUntil("coordinator serves");
  EXPECT_EQ(first.End(SIGTERM), 0);
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), {"--ring-bits", "7"});
  Process second(arguments);
  EXPECT_THAT(second.ReadUntil("(never)"), HasSubstr("ring_bits: 7, but this cluster was created with 6, "
                                                     "which never changes: start with --ring-bits 6"));
  EXPECT_EQ(second.Wait(), 1);
}

TEST_F(CoordinatorProcess, LogsJsonLines) {
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), {"--log-format", "json"});
  Process process(arguments);
  process.ReadUntil("coordinator serves");
  EXPECT_THAT(process.ReadUntil("}\n"), HasSubstr("\"message\":\"coordinator serves"));
}

TEST_F(CoordinatorProcess, ShowsMetrics) {
  Process process(Arguments());
  process.ReadUntil("coordinator serves");
  EXPECT_THAT(process.ReadUntil(" store="), HasSubstr(" metrics=127.0.0.1:"));
}

TEST_F(CoordinatorProcess, NamesTheFlagThatIsWrong) {
  const auto said = [&](std::vector<std::string> arguments) {
    Process process(arguments);
    const std::string words = process.ReadUntil("(never)");
    EXPECT_EQ(process.Wait(), 2) << words;
    return words;
  };
  EXPECT_THAT(said({}), HasSubstr("--data-dir"));
  EXPECT_THAT(said({}), HasSubstr("--store"));
  EXPECT_THAT(said({"--store", "http://a:1"}), HasSubstr("--store: 'http://a:1'; expected etcd://"));
  EXPECT_THAT(said({"--store", "etcd://a:1", "--leader-lease", "9ms"}), HasSubstr("leader_lease"));
  EXPECT_THAT(said({"--store", "etcd://a:1", "--data-dir", dir_}), HasSubstr("--data-dir"));
  EXPECT_THAT(said({"--data-dir", dir_, "--keep-alive", "soon"}), HasSubstr("--keep-alive: 'soon'"));
  EXPECT_THAT(said({"--data-dir", dir_, "--session-timeout", "1s"}), HasSubstr("session_timeout"));
  EXPECT_THAT(said({"--data-dir", dir_, "--ring-bits", "40"}), HasSubstr("ring_bits"));
  EXPECT_THAT(said({"--data-dir", dir_, "--log-format", "xml"}), HasSubstr("--log-format"));
  Process version({"--version"});
  EXPECT_THAT(version.ReadUntil("(never)"), HasSubstr(std::string(kVersion)));
  EXPECT_EQ(version.Wait(), 0);
}

}  // namespace
}  // namespace paceline::coordinator
