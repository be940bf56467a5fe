// The adapters, with real gRPC on loopback and a shard that says yes.
#include "services/coordinator/server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <thread>

#include "libs/base/test_util/status_matchers.h"
#include "libs/rpc/status.h"
#include "paceline/v1/control.grpc.pb.h"
#include "paceline/v1/coordinator.grpc.pb.h"
#include "services/coordinator/store/memory_store.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A shard that is primary of everything and commits whatever it is asked.
class YesShard final : public v1::ShardControl::Service {
 public:
  YesShard() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  grpc::Status Install(grpc::ServerContext*, const v1::InstallRequest* request,
                       v1::InstallReply* reply) override {
    reply->set_map_version(request->map().version());
    reply->set_catalogue_version(request->catalogue().version());
    return grpc::Status::OK;
  }
  grpc::Status ChangeSession(grpc::ServerContext*, const v1::SessionChange* request,
                             v1::SessionChangeReply* reply) override {
    for (uint32_t s = 0; s < 8; ++s) reply->add_committed(s);
    reply->set_map_version(request->map_version());
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    ServerOptions options;
    options.coordinator.shards = 1;
    options.coordinator.ring_bits = 3;
    auto server = Server::Start(options, *MemoryStore::Open(std::make_shared<MemoryStore::Disk>()));
    EXPECT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    stub_ = v1::Coordinator::NewStub(channel_);
  }

  // Calls a method and returns its reply or why there is none.
  template <class Request, class Reply>
  absl::StatusOr<Reply> Call(grpc::Status (v1::Coordinator::StubInterface::*method)(grpc::ClientContext*,
                                                                                    const Request&, Reply*),
                             const Request& request,
                             std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    Reply reply;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &reply);
    if (!status.ok()) return rpc::FromGrpc(status);
    return reply;
  }

  absl::StatusOr<v1::JoinClusterReply> JoinShard(const std::string& address) {
    v1::JoinClusterRequest request;
    request.set_feature_level(1);
    request.set_name("shard-0");
    request.set_address(address);
    request.set_nonce(5);
    return Call(&v1::Coordinator::StubInterface::JoinCluster, request);
  }
  static v1::OpenSessionRequest OpenRequest(uint64_t nonce) {
    v1::OpenSessionRequest request;
    request.set_feature_level(1);
    request.set_job("ctr");
    request.set_nonce(nonce);
    return request;
  }
  absl::StatusOr<v1::OpenSessionReply> Open(uint64_t nonce) {
    return Call(&v1::Coordinator::StubInterface::OpenSession, OpenRequest(nonce));
  }
  std::vector<std::string> Problems() {
    const auto status = Call(&v1::Coordinator::StubInterface::Status, v1::StatusRequest());
    if (!status.ok()) return {status.status().ToString()};
    return {status->problems().begin(), status->problems().end()};
  }

  YesShard shard_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Coordinator::StubInterface> stub_;
};

TEST_F(ServerTest, ServesAWholeLife) {
  using Stub = v1::Coordinator::StubInterface;
  ASSERT_THAT(JoinShard(shard_.address()), IsOk());
  const auto session = Open(7);
  ASSERT_THAT(session, IsOk());
  v1::OpenTableRequest table;
  table.set_session(session->session());
  table.set_name("weights");
  table.set_create(true);
  table.mutable_schema()->set_kind(v1::TABLE_KIND_SPARSE);
  table.mutable_schema()->set_dim(4);
  table.mutable_schema()->mutable_rule()->mutable_add();
  EXPECT_THAT(Call(&Stub::OpenTable, table), IsOk());
  v1::JoinJobRequest join;
  join.set_session(session->session());
  EXPECT_THAT(Call(&Stub::JoinJob, join), IsOk());
  v1::KeepAliveRequest alive;
  alive.set_session(session->session());
  EXPECT_THAT(Call(&Stub::KeepAlive, alive), IsOk());
  v1::FinishWorkerRequest finish;
  finish.set_session(session->session());
  EXPECT_THAT(Call(&Stub::FinishWorker, finish), IsOk());
  v1::CloseSessionRequest close;
  close.set_session(session->session());
  EXPECT_THAT(Call(&Stub::CloseSession, close), IsOk());
  EXPECT_THAT(Call(&Stub::KeepAlive, alive),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("was closed")));
  const auto catalogue = Call(&Stub::GetCatalogue, v1::GetCatalogueRequest());
  ASSERT_THAT(catalogue, IsOk());
  EXPECT_EQ(catalogue->tables_size(), 1);
}

TEST_F(ServerTest, TheAnswerComesWithinTheClientsTime) {
  // No shard has joined: the client hears so, rather than nothing.
  const auto session =
      Call(&v1::Coordinator::StubInterface::OpenSession, OpenRequest(7), std::chrono::milliseconds(500));
  EXPECT_THAT(session, StatusIs(StatusCode::kUnavailable, HasSubstr("0 of 1 shards have joined")));
}

TEST_F(ServerTest, AWatcherHearsOfEveryChange) {
  grpc::ClientContext context;
  const auto watch = stub_->WatchMap(&context, v1::WatchMapRequest());
  ASSERT_THAT(JoinShard(shard_.address()), IsOk());
  v1::Map map;
  ASSERT_TRUE(watch->Read(&map));
  EXPECT_EQ(map.version(), 1u);
  v1::JoinClusterRequest late;
  late.set_feature_level(1);
  late.set_name("shard-1");
  late.set_address(shard_.address());
  late.set_nonce(6);
  ASSERT_THAT(Call(&v1::Coordinator::StubInterface::JoinCluster, late), IsOk());
  ASSERT_TRUE(watch->Read(&map));
  EXPECT_EQ(map.version(), 2u);
  context.TryCancel();
  while (watch->Read(&map)) continue;
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ServerTest, ACancelledCallIsAbandoned) {
  ASSERT_THAT(JoinShard(shard_.address()), IsOk());
  const auto session = Open(7);
  ASSERT_THAT(session, IsOk());
  v1::JoinJobRequest join;
  join.set_session(session->session());
  join.set_workers(2);
  grpc::ClientContext context;
  std::thread waiting([&] {
    v1::JoinJobReply reply;
    EXPECT_EQ(stub_->JoinJob(&context, join, &reply).error_code(), grpc::StatusCode::CANCELLED);
  });
  while (Problems().empty()) continue;
  EXPECT_THAT(Problems(), Contains(HasSubstr("1 of 2 workers")));
  context.TryCancel();
  waiting.join();
  // It no longer counts: another one alone does not start.
  const auto other = Open(8);
  ASSERT_THAT(other, IsOk());
  join.set_session(other->session());
  EXPECT_THAT(Call(&v1::Coordinator::StubInterface::JoinJob, join, std::chrono::milliseconds(500)),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("of 2 workers")));
}

TEST_F(ServerTest, EndingAnswersWhatWaits) {
  ASSERT_THAT(JoinShard(shard_.address()), IsOk());
  const auto session = Open(7);
  ASSERT_THAT(session, IsOk());
  grpc::ClientContext watching;
  const auto watch = stub_->WatchMap(&watching, v1::WatchMapRequest());
  v1::Map map;
  ASSERT_TRUE(watch->Read(&map));
  v1::JoinJobRequest join;
  join.set_session(session->session());
  join.set_workers(2);
  absl::Status answer;
  std::thread waiting([&] { answer = Call(&v1::Coordinator::StubInterface::JoinJob, join).status(); });
  while (Problems().empty()) continue;
  server_.reset();
  waiting.join();
  EXPECT_THAT(answer, StatusIs(StatusCode::kUnavailable, HasSubstr("stopping")));
  EXPECT_FALSE(watch->Read(&map));
  const grpc::Status end = watch->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(end.error_message(), HasSubstr("stopping"));
}

TEST_F(ServerTest, AnAddressThatIsTakenIsNamed) {
  ServerOptions options;
  options.coordinator.ring_bits = 3;
  options.listen = server_->address();
  EXPECT_THAT(Server::Start(options, *MemoryStore::Open(std::make_shared<MemoryStore::Disk>())),
              StatusIs(StatusCode::kUnavailable, HasSubstr(server_->address())));
}

TEST_F(ServerTest, ManyClientsAtOnce) {
  ASSERT_THAT(JoinShard(shard_.address()), IsOk());
  std::vector<std::thread> clients;
  for (uint64_t c = 0; c < 4; ++c) {
    clients.emplace_back([this, c] {
      for (uint64_t n = 1; n <= 10; ++n) {
        const auto session = Open(100 * c + n);
        EXPECT_THAT(session, IsOk());
        v1::CloseSessionRequest close;
        close.set_session(session->session());
        EXPECT_THAT(Call(&v1::Coordinator::StubInterface::CloseSession, close), IsOk());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(Problems(), Not(Contains(AllOf(HasSubstr("session"), HasSubstr("waits")))));
}

}  // namespace
}  // namespace paceline::coordinator
