#include "services/shard/membership.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <chrono>

#include "absl/synchronization/notification.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace paceline::shard {
namespace {

constexpr absl::Duration kBeatEvery = absl::Seconds(1);
constexpr absl::Duration kRetryAfter = absl::Milliseconds(200);
constexpr std::chrono::seconds kCallTimeout{2};

}  // namespace

Membership::Membership(Shard& shard, const std::string& coordinator, v1::JoinClusterRequest join,
                       Superseded superseded)
    : shard_(shard),
      coordinator_(coordinator),
      join_(std::move(join)),
      superseded_(std::move(superseded)),
      stub_(v1::Coordinator::NewStub(grpc::CreateCustomChannel(
          coordinator, grpc::InsecureChannelCredentials(), rpc::ControlPlaneArguments()))) {
  shard_.OnWantCatalogue([this](CatalogueVersion) {
    absl::MutexLock lock(&mutex_);
    catalogue_wanted_ = true;
  });
  thread_ = std::thread([this] { Run(); });
}

Membership::~Membership() {
  shard_.OnWantCatalogue(nullptr);
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void Membership::Run() {
  bool joined = false;
  bool complained = false;
  while (true) {
    const absl::Status status = joined ? Beat() : Join();
    if (status.code() == absl::StatusCode::kFailedPrecondition ||
        status.code() == absl::StatusCode::kInvalidArgument) {
      superseded_(status);
      return;
    }
    if (status.ok() == complained) {
      complained = !status.ok();
      if (complained) {
        spdlog::warn("coordinator away address={} error=\"{}\"; going on without it", coordinator_,
                     std::string(status.message()));
      } else {
        spdlog::info("coordinator is back address={}", coordinator_);
      }
    }
    joined = joined || status.ok();
    if (!Pause(status.ok() ? kBeatEvery : kRetryAfter)) return;
  }
}

absl::Status Membership::Join() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::JoinClusterReply reply;
  if (grpc::Status status = stub_->JoinCluster(&context, join_, &reply); !status.ok())
    return rpc::FromGrpc(status);
  shard_.Identify({.shard = ShardId(reply.shard()), .incarnation = Incarnation(reply.incarnation())});
  spdlog::info("joined the cluster name={} shard={} incarnation={}", join_.name(), reply.shard(),
               reply.incarnation());
  return absl::OkStatus();
}

absl::Status Membership::Beat() {
  // The description outlives this call if an executor is slow to give its part.
  struct Described {
    absl::Notification done;
    v1::BeatRequest beat;
  };
  auto described = std::make_shared<Described>();
  shard_.Describe([described](v1::BeatRequest beat) {
    described->beat = std::move(beat);
    described->done.Notify();
  });
  if (!described->done.WaitForNotificationWithTimeout(absl::Seconds(1))) {
    return absl::DeadlineExceededError("the shard's executors are busy; no beat was sent");
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::BeatReply reply;
  if (grpc::Status status = stub_->Beat(&context, described->beat, &reply); !status.ok())
    return rpc::FromGrpc(status);
  if (reply.catalogue_version() > described->beat.catalogue_version()) FetchCatalogue();
  return absl::OkStatus();
}

void Membership::FetchCatalogue() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  v1::InstallRequest install;
  const grpc::Status status =
      stub_->GetCatalogue(&context, v1::GetCatalogueRequest(), install.mutable_catalogue());
  if (!status.ok()) {
    spdlog::warn("list of tables not fetched error=\"{}\"", status.error_message());
    return;
  }
  if (const auto installed = shard_.Install(install); !installed.ok()) {
    spdlog::error("list of tables refused error=\"{}\"", std::string(installed.status().message()));
  }
}

bool Membership::Pause(absl::Duration duration) {
  const absl::Time until = absl::Now() + duration;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto woken = [this]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_ || catalogue_wanted_; };
      mutex_.AwaitWithDeadline(absl::Condition(&woken), until);
      if (stop_) return false;
      if (!catalogue_wanted_) return true;
      catalogue_wanted_ = false;
    }
    FetchCatalogue();
  }
}

}  // namespace paceline::shard
