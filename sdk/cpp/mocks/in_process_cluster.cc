#include "paceline/mocks/in_process_cluster.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"
#include "libs/base/mutex.h"
#include "libs/base/status.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/status.h"
#include "libs/world/real_clock.h"
#include "metadata/records.pb.h"
#include "paceline/v1/coordinator.grpc.pb.h"
#include "services/coordinator/metadata/facts/keys.h"
#include "services/coordinator/server.h"
#include "services/coordinator/store/memory_store.h"
#include "services/shard/control/membership_client.h"
#include "services/shard/near_streams.h"
#include "services/shard/replication/grpc_peers.h"
#include "services/shard/server.h"
#include "services/shard/shard.h"

namespace paceline::mocks {
namespace {

constexpr int kThreads = 2;  // of a shard
constexpr absl::Duration kCallTimeout = absl::Seconds(10);

// Where clients look for sockets, the shards have theirs. Empty: nowhere.
std::string SocketDir() {
  const char* const folder = std::getenv("PACELINE_SOCKET_DIR");
  return folder == nullptr ? "" : folder;
}

// A paceline-shard without a process of its own.
class ShardHere {
 public:
  static absl::StatusOr<std::unique_ptr<ShardHere>> Start(int number, const std::string& coordinator,
                                                          uint64_t memory_budget_bytes) {
    const std::string name = absl::StrCat("shard-", number);
    std::unique_ptr<ShardHere> here(new ShardHere(name, coordinator, memory_budget_bytes));
    ABSL_ASSIGN_OR_RETURN(here->server_, shard::Server::Start(here->shard_, {.threads = kThreads}));
    if (const std::string folder = SocketDir(); !folder.empty()) {
      ABSL_ASSIGN_OR_RETURN(
          here->near_, shard::NearStreams::Serve(here->shard_, {.folder = folder,
                                                                .address = here->server_->address(),
                                                                .peer_address = here->server_->peer_address(),
                                                                .threads = kThreads}));
    }
    v1::JoinClusterRequest join;
    join.set_feature_level(kFeatureLevel);
    join.set_name(name);
    join.set_address(here->server_->address());
    join.set_peer_address(here->server_->peer_address());
    join.set_nonce(static_cast<uint64_t>(number) + 1);
    here->membership_ = std::make_unique<shard::MembershipClient>(here->shard_, coordinator, join,
                                                                  [](const absl::Status&) {});
    return here;
  }

  ~ShardHere() {
    membership_.reset();
    server_.reset();
    near_.reset();
    shard_.Stop();
    peers_.Stop();
  }

 private:
  ShardHere(const std::string& name, const std::string& coordinator, uint64_t memory_budget_bytes)
      : peers_(coordinator, clock_, {.socket_dir = SocketDir()}),
        shard_({.name = name, .executors = kThreads, .memory_budget_bytes = memory_budget_bytes}, clock_,
               probe_, &peers_) {}

  // In the order of use; they end in the opposite one.
  const world::RealClock clock_;
  shard::Probe probe_;
  shard::GrpcPeers peers_;
  shard::Shard shard_;
  std::unique_ptr<shard::Server> server_;
  std::unique_ptr<shard::NearStreams> near_;  // null: no shared memory
  std::unique_ptr<shard::MembershipClient> membership_;
};

}  // namespace

class InProcessCluster::Impl {
 public:
  absl::Status Start(const Options& options) {
    coordinator::ServerOptions server;
    server.coordinator.shards = static_cast<uint32_t>(options.shards);
    server.coordinator.replicas = static_cast<uint32_t>(options.replicas);
    server.coordinator.ring_bits = options.ring_bits;
    server.coordinator.session_timeout = options.session_timeout;
    server.coordinator.keep_alive = std::min(server.coordinator.keep_alive, options.session_timeout / 4);
    disk_->shared = true;  // see SecretOf
    ABSL_ASSIGN_OR_RETURN(auto store, coordinator::MemoryStore::Open(disk_));
    ABSL_ASSIGN_OR_RETURN(coordinator_, coordinator::Server::Start(server, std::move(store)));
    address_ = coordinator_->address();
    stub_ = v1::Coordinator::NewStub(grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(),
                                                               rpc::ControlPlaneArguments()));
    MutexLock lock(&mutex_);
    for (int s = 0; s < options.shards; ++s) {
      ABSL_ASSIGN_OR_RETURN(auto shard, ShardHere::Start(s, address_, options.memory_budget_bytes));
      shards_.push_back(std::move(shard));
    }
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }

  absl::Status Close(uint64_t session, const std::string& reason) {
    grpc::ClientContext context;
    context.set_deadline(rpc::After(kCallTimeout));
    v1::CloseSessionRequest request;
    request.set_session(session);
    ABSL_ASSIGN_OR_RETURN(*request.mutable_token(), SecretOf(session));
    request.set_reason(reason);
    v1::CloseSessionReply reply;
    return rpc::FromGrpc(stub_->CloseSession(&context, request, &reply));
  }

  void StopShard(int number) {
    std::unique_ptr<ShardHere> shard;
    {
      MutexLock lock(&mutex_);
      if (number < 0 || static_cast<size_t>(number) >= shards_.size()) return;
      shard = std::move(shards_[number]);
    }
  }

 private:
  // The session's secret, which only its owner was told: the store has it.
  absl::StatusOr<std::string> SecretOf(uint64_t session) const {
    ABSL_ASSIGN_OR_RETURN(const auto store, coordinator::MemoryStore::Open(disk_));
    ABSL_ASSIGN_OR_RETURN(const auto entry,
                          store->Get(coordinator::keys::Of(coordinator::keys::kSessions, session)));
    coordinator::SessionRecord record;
    if (entry.has_value()) record.ParseFromString(entry->value);
    return record.secret();
  }

  const std::shared_ptr<coordinator::MemoryStore::Disk> disk_ =
      std::make_shared<coordinator::MemoryStore::Disk>();
  std::unique_ptr<coordinator::Server> coordinator_;
  std::string address_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
  Mutex mutex_;
  std::vector<std::unique_ptr<ShardHere>> shards_ ABSL_GUARDED_BY(mutex_);  // null: was stopped
};

InProcessCluster::InProcessCluster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
InProcessCluster::~InProcessCluster() = default;

absl::StatusOr<std::unique_ptr<InProcessCluster>> InProcessCluster::Start(const Options& options) {
  if (options.shards < 1) {
    return absl::InvalidArgumentError(absl::StrCat("shards: ", options.shards, "; expected 1 or more"));
  }
  if (options.replicas < 0 || options.replicas >= options.shards) {
    return absl::InvalidArgumentError(absl::StrCat("replicas: ", options.replicas, " with ", options.shards,
                                                   " shards; expected 0 or more, and fewer than shards"));
  }
  auto impl = std::make_unique<Impl>();
  ABSL_RETURN_IF_ERROR(impl->Start(options));
  return std::unique_ptr<InProcessCluster>(new InProcessCluster(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<InProcessCluster>> InProcessCluster::Start() {
  return Start(Options());
}

const std::string& InProcessCluster::coordinator() const {
  return impl_->address();
}

absl::StatusOr<std::unique_ptr<Client>> InProcessCluster::Connect(ClientOptions options) const {
  options.coordinator = coordinator();
  return Client::Connect(std::move(options));
}

absl::Status InProcessCluster::Evict(const Client& client, const std::string& reason) {
  return impl_->Close(client.session(), reason);
}

void InProcessCluster::StopShard(int shard) {
  impl_->StopShard(shard);
}

}  // namespace paceline::mocks
