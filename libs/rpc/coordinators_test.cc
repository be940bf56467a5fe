// The choice of the next coordinator, with real servers that lead, stand by or do not exist.
#include "libs/rpc/coordinators.h"

#include <atomic>

#include "libs/base/test_util/status_matchers.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/leadership.h"

namespace paceline::rpc {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A coordinator that knows only whether it leads.
class FakeCoordinator final : public v1::Coordinator::Service {
 public:
  FakeCoordinator() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
  }
  void End() { server_->Shutdown(rpc::After(absl::ZeroDuration())); }

  grpc::Status Beat(grpc::ServerContext* context, const v1::BeatRequest*, v1::BeatReply*) override {
    asked += 1;
    if (leads && healthy) return grpc::Status::OK;
    TellLeadership(*context, {.leads = leads, .leader = leader});
    return {grpc::StatusCode::UNAVAILABLE, leads ? "no shard has joined" : "this coordinator stands by"};
  }

  std::string address;
  std::atomic<bool> leads = false;
  std::atomic<bool> healthy = true;
  std::string leader;
  std::atomic<int> asked = 0;

 private:
  std::unique_ptr<grpc::Server> server_;
};

absl::Status Ask(Coordinators& coordinators) {
  const auto one = coordinators.Current();
  grpc::ClientContext context;
  context.set_deadline(rpc::After(absl::Seconds(20)));
  v1::BeatReply reply;
  return coordinators.Heard(*one, one->stub->Beat(&context, v1::BeatRequest(), &reply), context);
}

TEST(CoordinatorsTest, TheOneThatAnswersIsAskedAgain) {
  FakeCoordinator a;
  FakeCoordinator b;
  b.leads = true;
  Coordinators coordinators(a.address + "," + b.address);
  EXPECT_THAT(Ask(coordinators), StatusIs(StatusCode::kUnavailable, HasSubstr(a.address)));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Ask(coordinators), IsOk());
  EXPECT_EQ(a.asked, 1);
  EXPECT_EQ(b.asked, 3);
}

TEST(CoordinatorsTest, ADeadCoordinatorIsLeft) {
  FakeCoordinator a;
  FakeCoordinator b;
  a.leads = b.leads = true;
  Coordinators coordinators(a.address + "," + b.address);
  EXPECT_THAT(Ask(coordinators), IsOk());
  a.End();
  EXPECT_THAT(Ask(coordinators), StatusIs(StatusCode::kUnavailable, HasSubstr("coordinator " + a.address)));
  EXPECT_THAT(Ask(coordinators), IsOk());
  EXPECT_EQ(b.asked, 1);
}

TEST(CoordinatorsTest, ALeaderThatCannotServeIsNotLeft) {
  FakeCoordinator a;
  FakeCoordinator b;
  a.leads = true;
  a.healthy = false;
  Coordinators coordinators(a.address + "," + b.address);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Ask(coordinators), StatusIs(StatusCode::kUnavailable, HasSubstr("no shard has joined")));
  }
  EXPECT_EQ(b.asked, 0);
}

TEST(CoordinatorsTest, TheLeaderThatIsNamedIsAskedListedOrNot) {
  FakeCoordinator a;
  FakeCoordinator b;
  FakeCoordinator c;
  c.leads = true;
  a.leader = c.address;
  Coordinators two(a.address + "," + b.address);
  EXPECT_THAT(Ask(two), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Ask(two), IsOk());
  EXPECT_EQ(b.asked, 0);
  c.End();
  b.leads = true;
  EXPECT_THAT(Ask(two), StatusIs(StatusCode::kUnavailable, HasSubstr(c.address)));
  EXPECT_THAT(Ask(two), IsOk()) << "back to the list";
  EXPECT_EQ(b.asked, 1);
}

TEST(CoordinatorsTest, AfterAStandbyTheEarlierFailureIsReported) {
  FakeCoordinator a;
  FakeCoordinator b;
  Coordinators coordinators(a.address + "," + b.address);
  a.End();
  EXPECT_THAT(Ask(coordinators), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Ask(coordinators),
              StatusIs(StatusCode::kUnavailable,
                       AllOf(HasSubstr("stands by"), HasSubstr("before it, coordinator " + a.address))));
}

TEST(CoordinatorsTest, OnlyHostsWithPortsAreAddresses) {
  for (const char* right : {"localhost:7070", "a:1,b:2", "[::1]:7070", "unix:/run/x", "dns:///a:1,b:2"}) {
    EXPECT_THAT(CheckCoordinators(right), IsOk()) << right;
  }
  for (const char* wrong : {"", "localhost", "a:1,", ",a:1", "a:1,b", "a:0", "a:x", ":1"}) {
    EXPECT_THAT(CheckCoordinators(wrong), StatusIs(StatusCode::kInvalidArgument, HasSubstr("host:port")))
        << wrong;
  }
}

}  // namespace
}  // namespace paceline::rpc
