#include "libs/tcp/dialer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "libs/carrier/descriptor.h"
#include "libs/carrier/test_util/stream_ends.h"
#include "libs/tcp/connect.h"
#include "libs/tcp/preamble.h"

namespace paceline::tcp {
namespace {

using carrier::Caller;
using carrier::Descriptor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GrpcDialerHere final : public world::Dialer {
 public:
  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind,
                                          std::shared_ptr<world::StreamHandler>) override {
    dialed.push_back(address);
    return nullptr;
  }
  std::vector<std::string> dialed;
};

// Listens on the loopback interface. Does with a connection what a test wants.
struct Door {
  Door() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_EQ(listen(socket.get(), 8), 0);
    socklen_t size = sizeof(to);
    EXPECT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&to), &size), 0);
    port = ntohs(to.sin_port);
  }
  std::string address(const std::string& host = "127.0.0.1") const { return absl::StrCat(host, ":", port); }

  Descriptor socket;
  int port = 0;
};

class DirectDialerTest : public ::testing::Test {
 protected:
  // Dials somebody who does not take that, and then again.
  void DialTwice(const std::string& address) {
    const auto caller = std::make_shared<Caller>();
    const auto port = dialer_.Dial(address, world::StreamKind::kPull, caller);
    EXPECT_NE(port, nullptr);
    ASSERT_TRUE(caller->AwaitBroken().has_value());
    EXPECT_TRUE(absl::IsUnavailable(*caller->AwaitBroken())) << *caller->AwaitBroken();
    EXPECT_TRUE(grpc_.dialed.empty());
    (void)dialer_.Dial(address, world::StreamKind::kPull, std::make_shared<Caller>());
  }

  GrpcDialerHere grpc_;
  const std::shared_ptr<carrier::Loop> loop_ = std::make_shared<carrier::Loop>(carrier::Loop::Options{});
  DirectDialer dialer_{grpc_, loop_};
};

// As a gRPC server, and as a proxy that knows HTTP/2 only.
TEST_F(DirectDialerTest, WhoTakesGrpcOnlyIsDialedSo) {
  for (const bool says_something : {true, false}) {
    const Door door;
    grpc_.dialed.clear();
    std::thread server([&] {
      const Descriptor connection(accept4(door.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (says_something) (void)!send(connection.get(), "\0\0\6\4\0\0\0\0\0\0\5\0\20\0\0", 15, MSG_NOSIGNAL);
    });
    DialTwice(door.address());
    server.join();
    EXPECT_THAT(grpc_.dialed, ElementsAre(door.address()));
  }
}

// One that is stopped still accepts connections.
TEST_F(DirectDialerTest, WhoDoesNotAnswerIsDialedOverGrpc) {
  const Door door;
  DialTwice(door.address());
  EXPECT_THAT(grpc_.dialed, ElementsAre(door.address()));
}

// It may come back, and is then dialed without gRPC.
TEST_F(DirectDialerTest, WhoIsNotThereIsNotAvoided) {
  std::string address;
  {
    const Door door;
    address = door.address();
  }
  DialTwice(address);
  EXPECT_TRUE(grpc_.dialed.empty());
  EXPECT_EQ(dialer_.direct_streams(), 2u);
}

TEST_F(DirectDialerTest, WhatIsNoAddressBreaksTheStream) {
  for (const auto& [address, why] : {std::pair("nowhere.invalid:1", "cannot resolve nowhere.invalid"),
                                     std::pair("127.0.0.1", "expected HOST:PORT")}) {
    const auto caller = std::make_shared<Caller>();
    const auto port = dialer_.Dial(address, world::StreamKind::kPull, caller);
    ASSERT_TRUE(caller->AwaitBroken().has_value());
    EXPECT_THAT(caller->AwaitBroken()->message(), HasSubstr(why));
  }
}

// As one behind something that forwards to nobody for a while.
TEST_F(DirectDialerTest, WhoHasTakenAStreamBeforeIsNotAvoidedForAnEnd) {
  const Door door;
  std::thread server([&] {
    for (const bool answers : {true, false}) {
      const Descriptor connection(accept4(door.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (answers) (void)!send(connection.get(), kMagic, sizeof(kMagic), MSG_NOSIGNAL);
      Preamble preamble;
      (void)!recv(connection.get(), &preamble, sizeof(preamble), MSG_WAITALL);
    }
  });
  for (int i = 0; i < 2; ++i) {
    const auto caller = std::make_shared<Caller>();
    const auto port = dialer_.Dial(door.address(), world::StreamKind::kPull, caller);
    EXPECT_NE(port, nullptr) << i;
    ASSERT_TRUE(caller->AwaitBroken().has_value());
  }
  server.join();
  EXPECT_EQ(dialer_.direct_streams(), 2u);
  (void)dialer_.Dial(door.address(), world::StreamKind::kPull, std::make_shared<Caller>());
  EXPECT_TRUE(grpc_.dialed.empty());
}

TEST_F(DirectDialerTest, TheLoopMayEndFirst) {
  const Door door;
  const auto caller = std::make_shared<Caller>();
  auto port = dialer_.Dial(door.address(), world::StreamKind::kPull, caller);
  loop_->Stop(absl::CancelledError("the test is done"));
  EXPECT_TRUE(caller->AwaitBroken().has_value()) << "Stop has waited for it";
  (void)dialer_.Dial(door.address(), world::StreamKind::kPull, std::make_shared<Caller>());
  EXPECT_THAT(grpc_.dialed, ElementsAre(door.address())) << "there is no loop for it any more";
  port->Kick();
  port = nullptr;
}

TEST(Connect, KnowsNamesAndBothFamilies) {
  const Door door;
  for (const char* host : {"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"}) {
    const auto connected = Connect(door.address(host), absl::Seconds(4));
    EXPECT_TRUE(connected.ok()) << host << ": " << connected.status();
  }
}

}  // namespace
}  // namespace paceline::tcp
