#include "services/shard/membership.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "libs/base/status.h"

namespace paceline::shard {
namespace {

constexpr absl::Duration kBeatEvery = absl::Seconds(1);
constexpr absl::Duration kRetryAfter = absl::Milliseconds(200);

}  // namespace

struct Membership::Wishes {
  // False: the coordinator has no such version, as far as is known.
  bool Want(CatalogueVersion version) {
    const std::lock_guard lock(mutex);
    if (newest.has_value() && version > *newest) return false;
    wanted = std::max(wanted, version);
    changed.notify_one();
    return true;
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;
  CatalogueVersion wanted;  // the newest that was named; 0: none
  std::optional<CatalogueVersion>
      newest;  // set when a fetch brought less than was wanted, until the next beat
};

Membership::Membership(Shard& shard, const std::string& coordinators, v1::JoinClusterRequest join,
                       Superseded superseded, Whole whole)
    : shard_(shard),
      join_(std::move(join)),
      superseded_(std::move(superseded)),
      coordinators_(coordinators),
      whole_(std::move(whole)),
      wishes_(std::make_shared<Wishes>()) {
  shard_.OnWantCatalogue([wishes = wishes_](CatalogueVersion version) { return wishes->Want(version); });
  thread_ = std::thread([this] { Run(); });
}

Membership::~Membership() {
  shard_.OnWantCatalogue(nullptr);
  {
    const std::lock_guard lock(wishes_->mutex);
    wishes_->stop = true;
  }
  wishes_->changed.notify_one();
  thread_.join();
}

absl::StatusOr<v1::HandOverShardReply> Membership::Leave(absl::Duration timeout) {
  const auto view = shard_.view();
  v1::HandOverShardRequest request;
  request.set_shard(join_.name());
  request.set_incarnation(view->self.incarnation.v);
  request.set_leave(true);
  request.set_timeout_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(timeout)));
  v1::HandOverShardReply reply;
  // It answers at `timeout` with what was done by then.
  ABSL_RETURN_IF_ERROR(Ask(&v1::Coordinator::Stub::HandOverShard, request, reply, timeout + kCallTimeout));
  return reply;
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
        spdlog::warn("coordinator away address={} error=\"{}\"; going on without it",
                     coordinators_.addresses(), std::string(status.message()));
      } else {
        spdlog::info("coordinator is back address={}", coordinators_.Current()->address);
      }
    }
    // The first beat comes at once: a start counts as one only with it.
    if (!joined && status.ok()) {
      joined = true;
      continue;
    }
    if (!Pause(status.ok() ? kBeatEvery : kRetryAfter)) return;
  }
}

template <class Request, class Reply>
absl::Status Membership::Ask(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*,
                                                                           const Request&, Reply*),
                             const Request& request, Reply& reply, absl::Duration timeout) {
  const auto one = coordinators_.Current();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  return coordinators_.Heard(*one, ((*one->stub).*method)(&context, request, &reply), context);
}

absl::Status Membership::Join() {
  v1::JoinClusterReply reply;
  ABSL_RETURN_IF_ERROR(Ask(&v1::Coordinator::Stub::JoinCluster, join_, reply));
  ABSL_RETURN_IF_ERROR(shard_.CheckDisk(ShardId(reply.shard()), reply.cluster()));
  shard_.Identify({.shard = ShardId(reply.shard()), .incarnation = Incarnation(reply.incarnation())},
                  reply.cluster());
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
  v1::BeatReply reply;
  ABSL_RETURN_IF_ERROR(Ask(&v1::Coordinator::Stub::Beat, described->beat, reply));
  {
    const std::lock_guard lock(wishes_->mutex);
    wishes_->newest.reset();
  }
  if (reply.catalogue_version() > described->beat.catalogue_version()) FetchCatalogue();
  LookWhetherWhole();
  return absl::OkStatus();
}

void Membership::LookWhetherWhole() {
  if (whole_ == nullptr) return;
  v1::StatusReply reply;
  // A coordinator that does not answer is noticed by the beats, and one that stands by knows of no map.
  if (!Ask(&v1::Coordinator::Stub::Status, v1::StatusRequest(), reply).ok()) return;
  if (reply.map_version() == 0 || reply.segments_under_replicated() > 0) return;
  spdlog::info("the cluster is whole map_version={} segments={} replicas={}", reply.map_version(),
               reply.segments(), reply.replicas_wanted());
  std::exchange(whole_, nullptr)();
}

void Membership::FetchCatalogue() {
  CatalogueVersion asked;
  {
    // What is wanted from here on may be of a version made after this fetch, and is fetched again.
    const std::lock_guard lock(wishes_->mutex);
    asked = std::exchange(wishes_->wanted, CatalogueVersion());
  }
  v1::InstallRequest install;
  const absl::Status status =
      Ask(&v1::Coordinator::Stub::GetCatalogue, v1::GetCatalogueRequest(), *install.mutable_catalogue());
  if (!status.ok()) {
    spdlog::warn("list of tables not fetched error=\"{}\"", std::string(status.message()));
    return;
  }
  const auto installed = shard_.Install(install);
  if (!installed.ok()) {
    spdlog::error("list of tables refused error=\"{}\"", std::string(installed.status().message()));
    return;
  }
  const CatalogueVersion held(installed->catalogue_version());
  const std::lock_guard lock(wishes_->mutex);
  if (asked > held) wishes_->newest = held;
  if (wishes_->wanted <= held) wishes_->wanted = CatalogueVersion();
}

bool Membership::Pause(absl::Duration duration) {
  Wishes& wishes = *wishes_;
  const absl::Time until = absl::Now() + duration;
  while (true) {
    {
      std::unique_lock lock(wishes.mutex);
      wishes.changed.wait_until(lock, absl::ToChronoTime(until),
                                [&] { return wishes.stop || wishes.wanted != CatalogueVersion(); });
      if (!wishes.stop && wishes.wanted != CatalogueVersion()) {
        wishes.changed.wait_until(lock, absl::ToChronoTime(std::min(until, next_fetch_)),
                                  [&] { return wishes.stop; });
      }
      if (wishes.stop) return false;
    }
    if (absl::Now() >= until) return true;
    FetchCatalogue();
    next_fetch_ = absl::Now() + kFetchEvery;
  }
}

}  // namespace paceline::shard
