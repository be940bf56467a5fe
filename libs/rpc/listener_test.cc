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
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
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
  void Serve(const std::string& address, bool direct = false) {
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
    }, direct ? [this](carrier::Descriptor connection, const tcp::Preamble& preamble) {
      direct_.push_back(preamble);
      taken_.push_back(std::move(connection));
      came_.Notify();
    } : Listener::TakeDirect());
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

  // How a connection ends that has said `bytes`: with an end, or with the first bytes that come back.
  std::string SayAndHear(const std::string& bytes) const {
    const carrier::Descriptor connection(ConnectIdle());
    EXPECT_EQ(send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    (void)shutdown(connection.get(), SHUT_WR);
    char heard[9] = {};
    const ssize_t got = recv(connection.get(), heard, sizeof(heard), 0);
    return got <= 0 ? "" : std::string(heard, static_cast<size_t>(got));
  }

  std::unique_ptr<Listener> listener;
  Notification full_, room_;
  std::vector<tcp::Preamble> direct_;  // of the listener's thread, until `came_`
  std::vector<carrier::Descriptor> taken_;
  Notification came_;

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

TEST_F(ListenerTest, AStreamWithoutGrpcIsToldByItsFirstBytes) {
  Serve("127.0.0.1:0", /*direct=*/true);
  ASSERT_EQ(Call(listener->address()), grpc::StatusCode::UNIMPLEMENTED);
  const carrier::Descriptor silent(ConnectIdle());  // holds nobody up
  const tcp::Preamble preamble = tcp::PreambleOf(world::StreamKind::kSubscribe);
  const carrier::Descriptor connection(ConnectIdle());
  // In two pieces, with another connection between them.
  ASSERT_EQ(send(connection.get(), &preamble, 3, MSG_NOSIGNAL), 3);
  EXPECT_EQ(Call(listener->address()), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_FALSE(came_.HasBeenNotified());
  const std::string rest = std::string(reinterpret_cast<const char*>(&preamble) + 3, 13) + "after";
  ASSERT_EQ(send(connection.get(), rest.data(), rest.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(rest.size()));
  ASSERT_TRUE(came_.WaitForNotificationWithTimeout(absl::FromChrono(kLongEnough)));
  EXPECT_EQ(tcp::KindOf(direct_.front()), world::StreamKind::kSubscribe);
  char after[6] = {};
  EXPECT_EQ(recv(taken_.front().get(), after, sizeof(after), 0), 5)
      << "the preamble has been read, and no more";
  EXPECT_STREQ(after, "after");
}

TEST_F(ListenerTest, WhoEndsAmidItsFirstBytesIsForgotten) {
  Serve("127.0.0.1:0", /*direct=*/true);
  EXPECT_EQ(SayAndHear("PACE"), "");
  EXPECT_EQ(SayAndHear(""), "");
  // gRPC's settings, as in tcp's own tests: by them a client knows that it must ask in another way.
  EXPECT_THAT(SayAndHear("PACE of another kind"), AllOf(SizeIs(9), EndsWith(std::string("\4\0\0\0\0\0", 6))));
  EXPECT_FALSE(came_.HasBeenNotified());
}

TEST_F(ListenerTest, WithoutATakerGrpcGetsAll) {
  Serve("127.0.0.1:0");
  const tcp::Preamble preamble = tcp::PreambleOf(world::StreamKind::kPush);
  EXPECT_THAT(SayAndHear(std::string(reinterpret_cast<const char*>(&preamble), sizeof(preamble))), SizeIs(9));
}

TEST_F(ListenerTest, TakesPortsNamesAndEveryAddress) {
  for (const char* address : {"127.0.0.1:0", "localhost:0", "0.0.0.0:0", "[::]:0"}) {
    SCOPED_TRACE(address);
    auto opened = Listener::Open(address);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_THAT((*opened)->address(),
                StartsWith(std::string(address).substr(0, std::string(address).size() - 1)));
    EXPECT_THAT((*opened)->address(), ::testing::Not(EndsWith(":0")));
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
