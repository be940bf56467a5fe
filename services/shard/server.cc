#include "services/shard/server.h"

#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/connections.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/reflection.h"
#include "libs/rpc/status.h"
#include "libs/wire/texts.h"
#include "libs/world/real_clock.h"
#include "libs/world/soon.h"
#include "paceline/v1/replication.grpc.pb.h"
#include "services/shard/new_stream.h"

namespace paceline::shard {
namespace {

constexpr char kReadiness[] = "readiness";
// So many calls of the coordinator run at once; it repeats those that are refused.
constexpr int kThreadsMax = 64;
// How often the timer asks whether segments are due to be visited.
constexpr absl::Duration kVisitPause = absl::Milliseconds(20);

// OK if this address serves peers.
absl::Status Served(const Shard& shard, bool at_peers) {
  if (at_peers || shard.PeersAmongClients()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(shard.options().name,
                   " serves shards and the coordinator at another address, which the map has: ask there"));
}

// A stream that is not served here.
class TurnedAway final : public world::AcceptedStream {
 public:
  explicit TurnedAway(absl::Status why) : why_(std::move(why)) {}
  void Attach(std::shared_ptr<world::StreamPort> port) override { port->Close(why_); }
  void OnFrame(absl::Cord) override {}
  bool NextFrame(absl::Cord*) override { return false; }
  void OnFinished() override {}
  void OnBroken(absl::Status) override {}

 private:
  const absl::Status why_;
};

// As NewStream, for those that may open such a stream at this address.
std::shared_ptr<world::AcceptedStream> ServedStream(Shard& shard, world::StreamKind kind, bool at_peers) {
  absl::Status here;
  if (kind == world::StreamKind::kReplicate) {
    here = Served(shard, at_peers);
  } else if (at_peers) {
    here = absl::UnimplementedError("streams of clients are served at another address, which the map has");
  }
  if (!here.ok()) return std::make_shared<TurnedAway>(std::move(here));
  return NewStream(shard, kind);
}

}  // namespace

class Server::Control : public v1::ShardControl::Service {
 public:
  Control(Shard& shard, bool at_peers) : shard_(shard), at_peers_(at_peers) {}

  grpc::Status Install(grpc::ServerContext*, const v1::InstallRequest* request,
                       v1::InstallReply* reply) override {
    if (const absl::Status here = Served(shard_, at_peers_); !here.ok()) return rpc::ToGrpc(here);
    if (const absl::Status wrong = wire::CheckTexts(*request); !wrong.ok()) return rpc::ToGrpc(wrong);
    absl::StatusOr<v1::InstallReply> installed = shard_.Install(*request);
    if (!installed.ok()) return rpc::ToGrpc(installed.status());
    *reply = *std::move(installed);
    return grpc::Status::OK;
  }

  grpc::Status MakeChange(grpc::ServerContext* context, const v1::Change* request,
                          v1::ChangeReply* reply) override {
    return Await(*context, &Shard::MakeChange, *request, reply);
  }
  grpc::Status Fence(grpc::ServerContext* context, const v1::FenceRequest* request,
                     v1::FenceReply* reply) override {
    return Await(*context, &Shard::Fence, *request, reply);
  }
  grpc::Status Recruit(grpc::ServerContext* context, const v1::RecruitRequest* request,
                       v1::RecruitReply* reply) override {
    return Await(*context, &Shard::Recruit, *request, reply);
  }
  grpc::Status HandOver(grpc::ServerContext* context, const v1::HandOverRequest* request,
                        v1::HandOverReply* reply) override {
    return Await(*context, &Shard::HandOver, *request, reply);
  }
  grpc::Status Identify(grpc::ServerContext*, const v1::IdentifyRequest*, v1::IdentifyReply* reply) override {
    if (const absl::Status here = Served(shard_, at_peers_); !here.ok()) return rpc::ToGrpc(here);
    reply->set_nonce(shard_.options().nonce);
    return grpc::Status::OK;
  }
  grpc::Status EmptyFolder(grpc::ServerContext* context, const v1::EmptyFolderRequest* request,
                           v1::EmptyFolderReply* reply) override {
    return Await(*context, &Shard::EmptyFolder, *request, reply);
  }

 private:
  template <class Request, class Reply>
  grpc::Status Await(const grpc::ServerContext& context,
                     void (Shard::*change)(const Request&, std::function<void(absl::StatusOr<Reply>)>),
                     const Request& request, Reply* reply) {
    if (const absl::Status here = Served(shard_, at_peers_); !here.ok()) return rpc::ToGrpc(here);
    if (const absl::Status wrong = wire::CheckTexts(request); !wrong.ok()) return rpc::ToGrpc(wrong);
    struct Outcome {
      Notification done;
      absl::StatusOr<Reply> reply = absl::UnknownError("");
    };
    // Outlives this call if it gives up first.
    auto outcome = std::make_shared<Outcome>();
    (shard_.*change)(request, [outcome](absl::StatusOr<Reply> changed) {
      outcome->reply = std::move(changed);
      outcome->done.Notify();
    });
    const absl::Duration left = rpc::Left(context.raw_deadline());
    if (!outcome->done.WaitForNotificationWithTimeout(std::min(left, absl::Seconds(5)))) {
      return {grpc::StatusCode::DEADLINE_EXCEEDED, "the shard's executors are busy; ask again"};
    }
    if (!outcome->reply.ok()) return rpc::ToGrpc(outcome->reply.status());
    *reply = *std::move(outcome->reply);
    return grpc::Status::OK;
  }

  Shard& shard_;
  const bool at_peers_;
};

// All are served raw, by streams.
class Server::Data
    : public v1::Shard::WithRawMethod_Push<v1::Shard::WithRawMethod_Pull<
          v1::Shard::WithRawMethod_PushPull<v1::Shard::WithRawMethod_Subscribe<v1::Shard::Service>>>> {};

class Server::Replication : public v1::Replication::WithRawMethod_Replicate<v1::Replication::Service> {};

Server::Server(Shard& shard) : shard_(shard), data_(std::make_unique<Data>()) {}

void Server::ServePeers(grpc::ServerBuilder& builder, Side& side, bool at_peers) {
  side.control = std::make_unique<Control>(shard_, at_peers);
  side.replication = std::make_unique<Replication>();
  builder.RegisterService(side.control.get());
  builder.RegisterService(side.replication.get());
  side.streams->Serve(
      [replication = side.replication.get()](auto* context, auto* stream, auto* queue, void* tag) {
        replication->RequestReplicate(context, stream, queue, queue, tag);
      },
      [&shard = shard_, at_peers] { return ServedStream(shard, world::StreamKind::kReplicate, at_peers); });
}

absl::Status Server::Listen(const std::string& address, const char* flag, Side& side) {
  ABSL_ASSIGN_OR_RETURN(side.listener, rpc::Listener::Open(address, flag, connections_));
  return absl::OkStatus();
}

absl::Status Server::ServeDirect(int threads, bool at_peers, Side& side) {
  side.direct = std::make_unique<tcp::DirectServer>(
      tcp::DirectServer::Options{
          .peers = at_peers ? "a shard" : "a client",
          .threads = threads,
          .frame_bytes_max = at_peers ? uint64_t{rpc::kMessageBytesMax} : kClientFrameBytesMax,
          .counts = direct_streams_},
      [&shard = shard_, at_peers](world::StreamKind kind) { return ServedStream(shard, kind, at_peers); });
  if (side.direct->running()) return absl::OkStatus();
  return absl::UnavailableError("no descriptors are left for streams; allow the process more");
}

absl::Status Server::Build(grpc::ServerBuilder& builder, int message_bytes_max, Side& side) {
  side.listener->AddTo(builder);
  rpc::ApplyDataPlaneArguments(builder, message_bytes_max);
  rpc::ApplyLimits(builder, kThreadsMax);
  side.server = builder.BuildAndStart();
  if (side.server == nullptr) return absl::InternalError("gRPC cannot build the server; see its log");
  side.server->GetHealthCheckService()->SetServingStatus(rpc::kConnectionsHealth, true);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Shard& shard, const Listeners& listeners) {
  grpc::EnableDefaultHealthCheckService(true);
  if (listeners.reflection) ABSL_RETURN_IF_ERROR(rpc::ServeReflection());
  std::unique_ptr<Server> server(new Server(shard));
  ABSL_RETURN_IF_ERROR(server->Listen(listeners.peers, "--peer-listen", server->peers_));
  ABSL_RETURN_IF_ERROR(server->Listen(listeners.clients, "--listen", server->clients_));
  grpc::ServerBuilder clients;
  grpc::ServerBuilder peers;
  clients.RegisterService(server->data_.get());
  for (const auto& [builder, side] :
       {std::pair(&clients, &server->clients_), std::pair(&peers, &server->peers_)}) {
    side->streams = std::make_unique<rpc::ServerStreams>(
        *builder, listeners.threads, rpc::StreamGate::Limits(),
        [listener = side->listener.get()](const std::string& peer) {
          spdlog::warn("connection is cut peer={} cause=\"it begins too many streams\"", peer);
          listener->Cut(peer);
        });
  }
  rpc::ServerStreams& streams = *server->clients_.streams;
  Data* data = server->data_.get();
  streams.Serve([data](auto* context, auto* stream, auto* queue,
                       void* tag) { data->RequestPush(context, stream, queue, queue, tag); },
                [&shard] { return shard.NewPushStream(); });
  streams.Serve([data](auto* context, auto* stream, auto* queue,
                       void* tag) { data->RequestPull(context, stream, queue, queue, tag); },
                [&shard] { return shard.NewPullStream(); });
  streams.Serve([data](auto* context, auto* stream, auto* queue,
                       void* tag) { data->RequestPushPull(context, stream, queue, queue, tag); },
                [&shard] { return shard.NewPushPullStream(); });
  streams.Serve([data](auto* context, auto* stream, auto* queue,
                       void* tag) { data->RequestSubscribe(context, stream, queue, queue, tag); },
                [&shard] { return shard.NewSubscribeStream(); });
  server->ServePeers(clients, server->clients_, /*at_peers=*/false);
  server->ServePeers(peers, server->peers_, /*at_peers=*/true);
  ABSL_RETURN_IF_ERROR(server->Build(peers, rpc::kMessageBytesMax, server->peers_));
  ABSL_RETURN_IF_ERROR(server->Build(clients, static_cast<int>(kClientFrameBytesMax), server->clients_));
  server->clients_.server->GetHealthCheckService()->SetServingStatus(kReadiness, false);
  server->peers_.streams->Start();
  server->clients_.streams->Start();
  if (listeners.direct_streams) {
    ABSL_RETURN_IF_ERROR(server->ServeDirect(listeners.threads, /*at_peers=*/false, server->clients_));
    ABSL_RETURN_IF_ERROR(server->ServeDirect(listeners.threads, /*at_peers=*/true, server->peers_));
  }
  for (Side* side : {&server->clients_, &server->peers_}) {
    rpc::Listener::TakeDirect take;
    if (side->direct != nullptr) {
      take = [direct = side->direct.get()](carrier::Descriptor connection, const tcp::Preamble& preamble) {
        direct->Take(std::move(connection), preamble);
      };
    }
    side->listener->Start([s = server.get()](bool full) { s->OnFull(full); }, std::move(take));
  }
  server->timer_ = std::thread([&shard, stop = &server->stop_] {
    world::Soon soon;
    while (!stop->WaitForNotificationWithTimeout(kVisitPause)) {
      if (!shard.context().TakeDue()) continue;
      shard.OnTime();
      soon.KickAll();
    }
  });
  return server;
}

void Server::OnFull(bool full) {
  for (Side* side : {&clients_, &peers_}) {
    side->server->GetHealthCheckService()->SetServingStatus(rpc::kConnectionsHealth, !full);
  }
  rpc::LogFull(full);
}

void Server::SetReady() {
  clients_.server->GetHealthCheckService()->SetServingStatus(kReadiness, true);
}

Server::~Server() {
  // Queues end in order even if their listener never started.
  const bool both = clients_.server != nullptr && peers_.server != nullptr;
  for (Side* side : {&clients_, &peers_}) {
    if (side->listener != nullptr) side->listener->Stop();
    if (side->server != nullptr) side->server->GetHealthCheckService()->SetServingStatus(false);
  }
  if (both) shard_.Stop();
  constexpr absl::Duration kGrace = absl::Milliseconds(500);  // to send what the shard says at its end
  const gpr_timespec end = rpc::After(kGrace);
  const absl::Time direct_end = world::MonotonicNow() + kGrace;
  for (Side* side : {&clients_, &peers_}) {
    if (side->server != nullptr) side->server->Shutdown(end);
    if (side->direct != nullptr) side->direct->Stop(direct_end - world::MonotonicNow());
    if (side->streams != nullptr) side->streams->Shutdown();
  }
  stop_.Notify();
  if (timer_.joinable()) timer_.join();
}

}  // namespace paceline::shard
