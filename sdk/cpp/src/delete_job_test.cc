// Client::DeleteJob against a coordinator that loses answers.
#include <grpcpp/grpcpp.h>

#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/leadership.h"
#include "paceline/client.h"
#include "paceline/v1/coordinator.grpc.pb.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::testing::SizeIs;

// Carries the first request out, after which another job has the name, and loses the answer.
class ForgetfulCoordinator final : public v1::Coordinator::Service {
 public:
  ForgetfulCoordinator() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
  }
  ~ForgetfulCoordinator() override { server_->Shutdown(rpc::After(absl::ZeroDuration())); }

  grpc::Status Status(grpc::ServerContext*, const v1::StatusRequest*, v1::StatusReply* reply) override {
    for (const uint32_t id : ids) {
      reply->add_jobs()->set_name("ctr");
      reply->mutable_jobs(reply->jobs_size() - 1)->set_job(id);
    }
    return grpc::Status::OK;
  }
  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         v1::DeleteJobReply*) override {
    requests.push_back(*request);
    ids = {ids.empty() ? 9 : ids.back() + 1};
    if (requests.size() > 1) return grpc::Status::OK;
    rpc::TellLeadership(*context, {.leads = true, .leader = ""});
    return {grpc::StatusCode::UNAVAILABLE, "the answer is lost"};
  }

  std::string address;
  std::vector<uint32_t> ids;  // of the jobs that have the name
  std::vector<v1::DeleteJobRequest> requests;

 private:
  std::unique_ptr<grpc::Server> server_;
};

TEST(DeleteJobTest, ARepeatedRequestNamesTheSameJobWithTheSameNonce) {
  ForgetfulCoordinator coordinator;
  coordinator.ids = {3};
  ASSERT_THAT(Client::DeleteJob(coordinator.address, "ctr"), IsOk());
  ASSERT_THAT(coordinator.requests, SizeIs(2));
  for (const v1::DeleteJobRequest& request : coordinator.requests) {
    EXPECT_EQ(request.job(), "ctr");
    EXPECT_EQ(request.job_id(), 3u);
    EXPECT_NE(request.nonce(), 0u);
    EXPECT_EQ(request.nonce(), coordinator.requests[0].nonce());
  }
}

TEST(DeleteJobTest, OfALoadAndTheJobThatItReplacesTheLoadIsMeant) {
  ForgetfulCoordinator coordinator;
  coordinator.ids = {3, 5};
  ASSERT_THAT(Client::DeleteJob(coordinator.address, "ctr"), IsOk());
  EXPECT_EQ(coordinator.requests[0].job_id(), 5u);
}

// The nonce says which one it was.
TEST(DeleteJobTest, AJobThatIsNotThereIsAskedForByItsName) {
  ForgetfulCoordinator coordinator;
  ASSERT_THAT(Client::DeleteJob(coordinator.address, "ctr"), IsOk());
  EXPECT_EQ(coordinator.requests[0].job_id(), 0u);
  EXPECT_EQ(coordinator.requests[1].job_id(), 0u) << "the job of that name is another one by now";
  EXPECT_EQ(coordinator.requests[1].nonce(), coordinator.requests[0].nonce());
}

}  // namespace
}  // namespace paceline
