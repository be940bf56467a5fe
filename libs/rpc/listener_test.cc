#include "libs/rpc/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/base/test_util/status_matchers.h"
#include "paceline/v1/control.grpc.pb.h"

namespace paceline::rpc {
namespace {

using paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::chrono::seconds kLongEnough{60};

TEST(DescriptorLimitsTest, APartIsKeptFromConnectionsAndSomeOfThatFromThoseOfOtherMachines) {
  const DescriptorLimits few = LimitsOf(100);
  EXPECT_EQ(few.others, 75u);
  EXPECT_EQ(few.local, 88u);
  const DescriptorLimits many = LimitsOf(1 << 20);
  EXPECT_EQ(many.others, (1u << 20) - 1024);
  EXPECT_EQ(many.local, (1u << 20) - 512);
}

// The process's limit of descriptors, until the end of the scope.
class Limit {
 public:
  explicit Limit(rlim_t soft) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = soft;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~Limit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

class ListenerTest : public ::testing::Test {
 protected:
  void Serve(const std::string& address) {
    auto opened = Listener::Open(address);
    ASSERT_TRUE(opened.ok()) << opened.status();
    listener = *std::move(opened);
    grpc::ServerBuilder builder;
    listener->AddTo(builder);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    listener->Start([this](bool full) {
      Notification& heard = full ? full_ : room_;
      if (!heard.HasBeenNotified()) heard.Notify();
    });
  }
  ~ListenerTest() override {
    if (listener != nullptr) listener->Stop();
    if (server_ != nullptr) server_->Shutdown();
  }

  // The answer that a new client gets.
  static grpc::StatusCode Call(const std::string& address) {
    const auto stub =
        v1::ShardControl::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kLongEnough);
    v1::InstallReply reply;
    return stub->Install(&context, {}, &reply).error_code();
  }

  // Connects and says nothing. -1: there is no descriptor for it.
  int ConnectIdle() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return fd;
    const std::string& address = listener->address();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }

  std::unique_ptr<Listener> listener;
  Notification full_, room_;

 private:
  v1::ShardControl::Service service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ListenerTest, AClientRefusedForLackOfDescriptorsGetsInLater) {
  Serve("127.0.0.1:0");
  ASSERT_EQ(Call(listener->address()), grpc::StatusCode::UNIMPLEMENTED);
  std::vector<int> idle;
  const Limit limit(200);
  // These are of the same process, and so take descriptors too. Not the last ones: UBSan looks at the type of
  // an object through a pipe.
  for (int fd = 0; fd < 190 && (fd = ConnectIdle()) >= 0;) idle.push_back(fd);
  ASSERT_GT(idle.size(), 50u);
  ASSERT_TRUE(full_.WaitForNotificationWithTimeout(absl::FromChrono(kLongEnough)));
  EXPECT_GT(listener->counts()->refused, 0u);
  for (const int fd : idle) close(fd);
  EXPECT_EQ(Call(listener->address()), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(room_.WaitForNotificationWithTimeout(absl::FromChrono(kLongEnough)));
  EXPECT_FALSE(listener->counts()->full);
}

TEST_F(ListenerTest, TakesPortsNamesAndEveryAddress) {
  for (const char* address : {"127.0.0.1:0", "localhost:0", "0.0.0.0:0", "[::]:0"}) {
    SCOPED_TRACE(address);
    auto opened = Listener::Open(address);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_THAT((*opened)->address(),
                StartsWith(std::string(address).substr(0, std::string(address).size() - 1)));
    EXPECT_THAT((*opened)->address(), ::testing::Not(::testing::EndsWith(":0")));
  }
  Serve("0.0.0.0:0");
  const std::string port = listener->address().substr(listener->address().rfind(':'));
  EXPECT_EQ(Call("127.0.0.1" + port), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(ListenerTest, AnAddressThatCannotBeHadIsNamed) {
  Serve("127.0.0.1:0");
  EXPECT_THAT(Listener::Open(listener->address()),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(listener->address()), HasSubstr("in use"), HasSubstr("--listen"))));
  EXPECT_THAT(Listener::Open("127.0.0.1"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("HOST:PORT")));
  EXPECT_THAT(Listener::Open("127.0.0.1:http"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Listener::Open("no.such.host.invalid:0"), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace paceline::rpc
