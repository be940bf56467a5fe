// The adapters, with real gRPC on loopback and a shard that says yes.
#include "services/coordinator/server.h"

#include <grpcpp/grpcpp.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "libs/base/feature_level.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/leadership.h"
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

// A shard that is primary of everything and commits every request.
class YesShard final : public v1::ShardControl::Service {
 public:
  YesShard() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  std::atomic<int> fences = 0;
  std::atomic<int> recruits = 0;
  std::atomic<int> hand_overs = 0;
  std::atomic<bool> older = false;  // it is of level 1

 private:
  grpc::Status Fence(grpc::ServerContext*, const v1::FenceRequest* request, v1::FenceReply* reply) override {
    fences += 1;
    for (const auto& asked : request->segments()) {
      v1::FenceReply::Segment& segment = *reply->add_segments();
      segment.set_segment(asked.segment());
      segment.set_fenced(true);
    }
    return grpc::Status::OK;
  }
  grpc::Status Recruit(grpc::ServerContext*, const v1::RecruitRequest* request,
                       v1::RecruitReply* reply) override {
    recruits += 1;
    for (const auto& asked : request->segments()) reply->add_taken(asked.segment());
    return grpc::Status::OK;
  }
  grpc::Status HandOver(grpc::ServerContext*, const v1::HandOverRequest* request,
                        v1::HandOverReply* reply) override {
    hand_overs += 1;
    for (const auto& asked : request->segments()) reply->add_begun(asked.segment());
    return grpc::Status::OK;
  }
  grpc::Status Install(grpc::ServerContext*, const v1::InstallRequest* request,
                       v1::InstallReply* reply) override {
    const std::lock_guard lock(mutex_);
    map_version_ = std::max(map_version_, request->map().version());
    catalogue_version_ = std::max(catalogue_version_, request->catalogue().version());
    reply->set_map_version(map_version_);
    reply->set_catalogue_version(catalogue_version_);
    return grpc::Status::OK;
  }
  grpc::Status MakeChange(grpc::ServerContext*, const v1::Change* request, v1::ChangeReply* reply) override {
    if (older) return {grpc::StatusCode::UNIMPLEMENTED, ""};
    for (uint32_t s = 0; s < 8; ++s) reply->add_committed(s);
    reply->set_map_version(request->map_version());
    return grpc::Status::OK;
  }
  grpc::Status ChangeSession(grpc::ServerContext*, const v1::SessionChange* request,
                             v1::SessionChangeReply* reply) override {
    for (uint32_t s = 0; s < 8; ++s) reply->add_committed(s);
    reply->set_map_version(request->map_version());
    return grpc::Status::OK;
  }

  std::mutex mutex_;  // guards the versions
  uint64_t map_version_ = 0;
  uint64_t catalogue_version_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : ServerTest(1, 0) {}
  ServerTest(uint32_t shards, uint32_t replicas) {
    ServerOptions options;
    options.coordinator.shards = shards;
    options.coordinator.replicas = replicas;
    if (replicas > 0) options.coordinator.shard_silent = absl::Minutes(1);  // these shards do not beat
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
                             const Request& request, absl::Duration timeout = absl::Seconds(20)) {
    grpc::ClientContext context;
    context.set_deadline(rpc::After(timeout));
    Reply reply;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &reply);
    if (!status.ok()) return rpc::FromGrpc(status);
    return reply;
  }

  absl::StatusOr<v1::JoinClusterReply> JoinShard(const std::string& address,
                                                 const std::string& name = "shard-0", uint64_t nonce = 5) {
    v1::JoinClusterRequest request;
    request.set_feature_level(kFeatureLevel);
    request.set_name(name);
    request.set_address(address);
    request.set_nonce(nonce);
    return Call(&v1::Coordinator::StubInterface::JoinCluster, request);
  }
  static v1::OpenSessionRequest OpenRequest(uint64_t nonce) {
    v1::OpenSessionRequest request;
    request.set_feature_level(kFeatureLevel);
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
  table.set_token(session->secret());
  table.set_name("weights");
  table.set_create(true);
  table.mutable_schema()->set_kind(v1::TABLE_KIND_SPARSE);
  table.mutable_schema()->set_dim(4);
  table.mutable_schema()->mutable_rule()->mutable_add();
  EXPECT_THAT(Call(&Stub::OpenTable, table), IsOk());
  v1::JoinJobRequest join;
  join.set_session(session->session());
  join.set_token(session->secret());
  EXPECT_THAT(Call(&Stub::JoinJob, join), IsOk());
  v1::KeepAliveRequest alive;
  alive.set_session(session->session());
  alive.set_token(session->secret());
  EXPECT_THAT(Call(&Stub::KeepAlive, alive), IsOk());
  v1::FinishWorkerRequest finish;
  finish.set_session(session->session());
  finish.set_token(session->secret());
  EXPECT_THAT(Call(&Stub::FinishWorker, finish), IsOk());
  v1::CloseSessionRequest close;
  close.set_session(session->session());
  close.set_token(session->secret());
  EXPECT_THAT(Call(&Stub::CloseSession, close), IsOk());
  EXPECT_THAT(Call(&Stub::KeepAlive, alive),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("was closed")));
  const auto catalogue = Call(&Stub::GetCatalogue, v1::GetCatalogueRequest());
  ASSERT_THAT(catalogue, IsOk());
  EXPECT_EQ(catalogue->tables_size(), 1);
}

TEST_F(ServerTest, AShardOfLevelOneIsAskedByTheCallsThatItKnows) {
  shard_.older = true;
  ASSERT_THAT(JoinShard(shard_.address()), IsOk());
  EXPECT_THAT(Open(7), IsOk());
}

TEST_F(ServerTest, TheAnswerComesWithinTheClientsTime) {
  // No shard has joined: the client hears so, rather than nothing.
  const auto session =
      Call(&v1::Coordinator::StubInterface::OpenSession, OpenRequest(7), absl::Milliseconds(500));
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
  late.set_feature_level(kFeatureLevel);
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
  join.set_token(session->secret());
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
  while (!Problems().empty()) continue;  // the server hears of it in its own time
  // It no longer counts: another one alone does not start.
  const auto other = Open(8);
  ASSERT_THAT(other, IsOk());
  join.set_session(other->session());
  join.set_token(other->secret());
  EXPECT_THAT(Call(&v1::Coordinator::StubInterface::JoinJob, join, absl::Milliseconds(500)),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("of 2 workers")));
}

TEST_F(ServerTest, EndingAnswersWaitingRequests) {
  ASSERT_THAT(JoinShard(shard_.address()), IsOk());
  const auto session = Open(7);
  ASSERT_THAT(session, IsOk());
  grpc::ClientContext watching;
  const auto watch = stub_->WatchMap(&watching, v1::WatchMapRequest());
  v1::Map map;
  ASSERT_TRUE(watch->Read(&map));
  v1::JoinJobRequest join;
  join.set_session(session->session());
  join.set_token(session->secret());
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
        close.set_token(session->secret());
        EXPECT_THAT(Call(&v1::Coordinator::StubInterface::CloseSession, close), IsOk());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(Problems(), Not(Contains(AllOf(HasSubstr("session"), HasSubstr("waits")))));
}

class ReplicatedServerTest : public ServerTest {
 protected:
  ReplicatedServerTest() : ServerTest(2, 1) {}
  // Asks until the shards' status satisfies `holds`.
  template <class Holds>
  bool Eventually(Holds holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      const auto status = Call(&v1::Coordinator::StubInterface::Status, v1::StatusRequest());
      if (status.ok() && holds(*status)) return true;
      std::this_thread::yield();
    }
    return false;
  }
  YesShard other_;
};

TEST_F(ReplicatedServerTest, FencesPromotesRecruitsAndHandsOver) {
  using Stub = v1::Coordinator::StubInterface;
  const auto joined = JoinShard(shard_.address());
  ASSERT_THAT(joined, IsOk());
  ASSERT_THAT(JoinShard(other_.address(), "shard-1", 6), IsOk());
  v1::ChangeConfigsRequest wishes;
  wishes.mutable_from()->set_shard(joined->shard());
  wishes.mutable_from()->set_incarnation(joined->incarnation());
  for (uint32_t s = 0; s < 8; ++s) {
    v1::ConfigWish& wish = *wishes.add_wishes();
    wish.set_segment(s);
    wish.set_epoch(1);
    wish.set_kind(v1::ConfigWish::PROMOTE);
  }
  const auto granted = Call(&Stub::ChangeConfigs, wishes);
  ASSERT_THAT(granted, IsOk());
  ASSERT_EQ(granted->segments_size(), 8);
  EXPECT_TRUE(Eventually([](const auto& status) { return status.takeovers() == 4; }));
  EXPECT_EQ(shard_.fences, 1) << "one call for all of its segments";
  EXPECT_EQ(other_.fences, 0);
  EXPECT_TRUE(Eventually([this](const auto&) { return shard_.recruits > 0; }));
  v1::HandOverShardRequest hand_over;
  hand_over.set_shard("shard-0");
  hand_over.set_timeout_ms(300);
  const auto kept = Call(&Stub::HandOverShard, hand_over);
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ(kept->handed_over(), 0u);
  EXPECT_THAT(kept->kept(), Contains(HasSubstr("is catching up")));
  EXPECT_THAT(kept->kept(), Contains(HasSubstr("has not taken over in time")));
  EXPECT_GT(shard_.hand_overs, 0);
  hand_over.set_shard("shard-9");
  EXPECT_THAT(Call(&Stub::HandOverShard, hand_over), StatusIs(StatusCode::kNotFound));
}

// -- two coordinators on one store --

// A store in memory that both may use, each from threads of its own.
class LockedStore final : public Store {
 public:
  LockedStore(std::shared_ptr<std::mutex> mutex, std::unique_ptr<MemoryStore> store)
      : mutex_(std::move(mutex)), store_(std::move(store)) {}
  ~LockedStore() override {
    const std::lock_guard lock(*mutex_);
    store_.reset();
  }
  absl::StatusOr<std::optional<Entry>> Get(absl::string_view key) const override {
    const std::lock_guard lock(*mutex_);
    return store_->Get(key);
  }
  absl::StatusOr<std::vector<std::pair<std::string, Entry>>> List(absl::string_view prefix) const override {
    const std::lock_guard lock(*mutex_);
    return store_->List(prefix);
  }
  absl::Status Commit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) override {
    const std::lock_guard lock(*mutex_);
    return store_->Commit(conditions, writes);
  }

 private:
  const std::shared_ptr<std::mutex> mutex_;
  std::unique_ptr<MemoryStore> store_;
};

class TwoServersTest : public ::testing::Test {
 protected:
  TwoServersTest() {
    disk_->shared = true;
    for (auto& server : servers_) server = StartOne();
  }
  std::unique_ptr<MemoryStore> OpenStore() {
    const std::lock_guard lock(*mutex_);
    return *MemoryStore::Open(disk_);
  }
  std::unique_ptr<Server> StartOne() {
    ServerOptions options;
    options.coordinator.ring_bits = 3;
    options.coordinator.leader_lease = absl::Seconds(2);
    auto server = Server::Start(options, std::make_unique<LockedStore>(mutex_, OpenStore()));
    EXPECT_THAT(server, IsOk());
    return *std::move(server);
  }
  static std::unique_ptr<v1::Coordinator::Stub> StubTo(const Server& server) {
    return v1::Coordinator::NewStub(
        grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  }
  static v1::StatusReply StatusOf(const Server& server) {
    grpc::ClientContext context;
    v1::StatusReply reply;
    EXPECT_TRUE(StubTo(server)->Status(&context, v1::StatusRequest(), &reply).ok());
    return reply;
  }
  // Waits until one of them leads, and makes it the first.
  void AwaitLeader() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (StatusOf(*servers_[0]).standby()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::swap(servers_[0], servers_[1]);
    }
    while (StatusOf(*servers_[1]).leader() != servers_[0]->address()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
  }

  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  std::shared_ptr<MemoryStore::Disk> disk_ = std::make_shared<MemoryStore::Disk>();
  std::array<std::unique_ptr<Server>, 2> servers_;
};

TEST_F(TwoServersTest, AStandbySendsClientsToTheLeader) {
  AwaitLeader();
  const auto stub = StubTo(*servers_[1]);
  const auto names_leader = [&](const grpc::ClientContext& context) {
    const auto leadership = rpc::LeadershipIn(context);
    return leadership.has_value() && !leadership->leads && leadership->leader == servers_[0]->address();
  };
  grpc::ClientContext at_once;
  v1::JoinClusterReply joined;
  EXPECT_EQ(stub->JoinCluster(&at_once, v1::JoinClusterRequest(), &joined).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(names_leader(at_once));
  grpc::ClientContext later;
  v1::OpenSessionReply opened;
  EXPECT_EQ(stub->OpenSession(&later, v1::OpenSessionRequest(), &opened).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(names_leader(later));
  grpc::ClientContext watching;
  const auto watch = stub->WatchMap(&watching, v1::WatchMapRequest());
  v1::Map map;
  EXPECT_FALSE(watch->Read(&map));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(names_leader(watching));
  // An error from the leader itself says that it leads.
  grpc::ClientContext refused;
  EXPECT_EQ(StubTo(*servers_[0])->JoinCluster(&refused, v1::JoinClusterRequest(), &joined).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(rpc::LeadershipIn(refused)->leads);
}

TEST_F(TwoServersTest, ADeposedLeaderEndsItsWaitingRequests) {
  AwaitLeader();
  const auto stub = StubTo(*servers_[0]);
  grpc::ClientContext watching;
  const auto watch = stub->WatchMap(&watching, v1::WatchMapRequest());
  grpc::ClientContext context;
  context.set_deadline(rpc::After(absl::Seconds(30)));
  absl::Status answer;
  std::thread waiting([&] {
    v1::OpenSessionRequest request;
    request.set_feature_level(kFeatureLevel);
    request.set_job("ctr");
    request.set_nonce(7);
    v1::OpenSessionReply reply;
    answer = rpc::FromGrpc(stub->OpenSession(&context, request, &reply));
  });
  // As another coordinator does that has seen no sign of it for a lease.
  LockedStore store(mutex_, OpenStore());
  EXPECT_THAT(Facts::Load(store, 3), IsOk());
  v1::Map map;
  EXPECT_FALSE(watch->Read(&map));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  waiting.join();
  EXPECT_THAT(answer, StatusIs(StatusCode::kUnavailable));
  EXPECT_FALSE(rpc::LeadershipIn(context)->leads);
}

TEST_F(TwoServersTest, WhenOneEndsTheOtherLeads) {
  AwaitLeader();
  servers_[0] = StartOne();
  AwaitLeader();
}

}  // namespace
}  // namespace paceline::coordinator
