#include "services/coordinator/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "libs/base/status.h"
#include "libs/rpc/channel.h"
#include "libs/world/real_clock.h"
#include "services/coordinator/grpc_shard_caller.h"
#include "services/coordinator/service.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kTimerEvery = absl::Milliseconds(20);

// The core and the lock everything enters it by. Shared with calls under way, which may outlive the server.
struct Room {
  absl::Mutex mutex;
  CoordinatorCore* core ABSL_GUARDED_BY(mutex) = nullptr;  // null before it is made and after it is gone

  bool Enter(absl::FunctionRef<void(CoordinatorCore&)> inside) ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    if (core == nullptr) return false;
    inside(*core);
    return true;
  }
};

}  // namespace

class Server::Impl {
 public:
  Impl()
      : caller([room = room](absl::FunctionRef<void()> inside) {
          room->Enter([&](CoordinatorCore&) { inside(); });
        }),
        service(
            [room = room](absl::FunctionRef<void(CoordinatorCore&)> inside) { return room->Enter(inside); },
            clock) {}

  const world::RealClock clock;
  const std::shared_ptr<Room> room = std::make_shared<Room>();
  GrpcShardCaller caller;
  std::unique_ptr<CoordinatorCore> core;
  Service service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
  absl::Notification stop;
  std::thread timer;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Options options, Store& store, Probe& probe,
                                                      const std::string& address) {
  auto impl = std::make_unique<Impl>();
  {
    // Answers to calls made while it is being made wait outside until it is there.
    absl::MutexLock lock(&impl->room->mutex);
    ABSL_ASSIGN_OR_RETURN(impl->core,
                          CoordinatorCore::Create(options, store, impl->clock, impl->caller, probe));
    impl->room->core = impl->core.get();
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  // Two processes on one port would share it silently otherwise.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  rpc::ApplyDataPlaneArguments(builder);
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  std::unique_ptr<Server> server(new Server(std::move(impl)));
  if (server->impl_->server == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, "; choose another --listen, or port 0"));
  }
  server->impl_->address = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  server->impl_->timer = std::thread([room = server->impl_->room, stop = &server->impl_->stop] {
    while (!stop->WaitForNotificationWithTimeout(kTimerEvery)) {
      room->Enter([](CoordinatorCore& core) { core.OnTime(); });
    }
  });
  return server;
}

Server::~Server() {
  if (impl_->server != nullptr) impl_->server->GetHealthCheckService()->SetServingStatus(false);
  impl_->room->Enter([](CoordinatorCore& core) { core.Stop(); });
  if (impl_->server != nullptr) {
    impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
  }
  impl_->stop.Notify();
  if (impl_->timer.joinable()) impl_->timer.join();
  absl::MutexLock lock(&impl_->room->mutex);
  impl_->room->core = nullptr;
  impl_->core = nullptr;
}

const std::string& Server::address() const {
  return impl_->address;
}

Gauges Server::gauges() {
  Gauges gauges;
  impl_->room->Enter([&](CoordinatorCore& core) { gauges = core.gauges(); });
  return gauges;
}

bool Server::deposed() {
  bool deposed = false;
  impl_->room->Enter([&](CoordinatorCore& core) { deposed = core.deposed(); });
  return deposed;
}

}  // namespace paceline::coordinator
