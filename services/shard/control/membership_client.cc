#include "services/shard/control/membership_client.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "libs/base/mutex.h"
#include "libs/base/status.h"
#include "libs/rpc/deadline.h"
#include "libs/world/real_clock.h"

namespace paceline::shard {
namespace {

constexpr absl::Duration kBeatEvery = absl::Seconds(1);
constexpr absl::Duration kRetryAfter = absl::Milliseconds(200);
// The coordinator is finding something out, or had news while this start was joining.
constexpr absl::Duration kAskAgainAfter = absl::Milliseconds(20);

}  // namespace

struct MembershipClient::Wishes {
  // False: the coordinator has no such version, as far as is known.
  bool Want(CatalogueVersion version) {
    const MutexLock lock(&mutex);
    if (newest.has_value() && version > *newest) return false;
    wanted = std::max(wanted, version);
    changed.Signal();
    return true;
  }

  Mutex mutex;
  CondVar changed;
  bool stop = false;
  CatalogueVersion wanted;  // the newest that was named; 0: none
  std::optional<CatalogueVersion>
      newest;  // set when a fetch brought less than was wanted, until the next beat
};

MembershipClient::MembershipClient(Shard& shard, const std::string& coordinators, v1::JoinClusterRequest join,
                                   Superseded superseded, Whole whole, Describe describe)
    : shard_(shard),
      name_(join.name()),
      joining_(std::move(join)),
      superseded_(std::move(superseded)),
      coordinators_(coordinators),
      whole_(std::move(whole)),
      describe_(std::move(describe)),
      wishes_(std::make_shared<Wishes>()) {
  shard_.OnWantCatalogue([wishes = wishes_](CatalogueVersion version) { return wishes->Want(version); });
  thread_ = std::thread([this] { Run(); });
}

MembershipClient::~MembershipClient() {
  shard_.OnWantCatalogue(nullptr);
  {
    const MutexLock lock(&wishes_->mutex);
    wishes_->stop = true;
  }
  wishes_->changed.Signal();
  thread_.join();
}

absl::StatusOr<v1::HandOverShardReply> MembershipClient::Leave(absl::Duration timeout) {
  const auto view = shard_.view();
  v1::HandOverShardRequest request;
  request.set_shard(name_);
  request.set_incarnation(view->self.incarnation.v);
  request.set_leave(true);
  request.set_timeout_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(timeout)));
  v1::HandOverShardReply reply;
  // The coordinator answers at `timeout` at the latest.
  ABSL_RETURN_IF_ERROR(Ask(&v1::Coordinator::Stub::HandOverShard, request, reply, timeout + kCallTimeout));
  return reply;
}

void MembershipClient::Run() {
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
    // The first beat goes at once: the start counts only with it.
    if (!joined && status.ok()) {
      joined = true;
      continue;
    }
    const bool soon = absl::IsAborted(status);
    if (!Pause(status.ok() ? kBeatEvery : soon ? kAskAgainAfter : kRetryAfter)) return;
  }
}

template <class Request, class Reply>
absl::Status MembershipClient::Ask(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*,
                                                                                 const Request&, Reply*),
                                   const Request& request, Reply& reply, absl::Duration timeout) {
  const auto one = coordinators_.Current();
  grpc::ClientContext context;
  context.set_deadline(rpc::After(timeout));
  return coordinators_.Heard(*one, ((*one->stub).*method)(&context, request, &reply), context);
}

absl::Status MembershipClient::WriteStamps() {
  if (stamped_ == nullptr) {
    stamped_ = std::make_shared<Notification>();
    shard_.context().disk()->Write(joining_.Stamps(), [stamped = stamped_] { stamped->Notify(); });
  }
  if (!stamped_->WaitForNotificationWithTimeout(kCallTimeout)) {
    return absl::DeadlineExceededError(
        "the disk of --data-dir has not synced this start's stamp yet, and it joins with that only; "
        "see whether the disk is full or fails");
  }
  stamped_.reset();
  joining_.OnWritten();
  return absl::OkStatus();
}

absl::Status MembershipClient::Join() {
  v1::JoinClusterReply reply;
  while (joining_.step() != Joining::Step::kJoined) {
    if (joining_.step() == Joining::Step::kWrite) ABSL_RETURN_IF_ERROR(WriteStamps());
    reply.Clear();
    const absl::Status asked = Ask(&v1::Coordinator::Stub::JoinCluster, joining_.request(), reply);
    ABSL_RETURN_IF_ERROR(joining_.OnReply(asked.ok() ? absl::StatusOr<v1::JoinClusterReply>(reply) : asked));
    if (!asked.ok()) return asked;
  }
  shard_.NoteTerm(reply.term());
  ABSL_RETURN_IF_ERROR(shard_.CheckDisk(ShardId(reply.shard()), reply.cluster()));
  shard_.Identify({.shard = ShardId(reply.shard()), .incarnation = Incarnation(reply.incarnation())},
                  reply.cluster(), reply.feature_level());
  spdlog::info("joined the cluster name={} shard={} incarnation={}", name_, reply.shard(),
               reply.incarnation());
  return absl::OkStatus();
}

absl::Status MembershipClient::Beat() {
  // The description outlives this call if an executor is slow to give its part.
  struct Described {
    Notification done;
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
  if (describe_ != nullptr) describe_(described->beat);
  v1::BeatReply reply;
  const absl::Time asked = shard_.context().clock().Now();
  ABSL_RETURN_IF_ERROR(Ask(&v1::Coordinator::Stub::Beat, described->beat, reply));
  shard_.HeardCoordinator(asked);
  {
    const MutexLock lock(&wishes_->mutex);
    wishes_->newest.reset();
  }
  shard_.NoteTerm(reply.term());
  if (reply.catalogue_version() > described->beat.catalogue_version()) FetchCatalogue();
  LookWhetherWhole();
  return absl::OkStatus();
}

void MembershipClient::LookWhetherWhole() {
  if (whole_ == nullptr) return;
  v1::StatusReply reply;
  // A coordinator that does not answer is noticed by the beats, and one that stands by knows of no map.
  if (!Ask(&v1::Coordinator::Stub::Status, v1::StatusRequest(), reply).ok()) return;
  if (reply.map_version() == 0 || reply.segments_under_replicated() > 0) return;
  spdlog::info("the cluster is whole map_version={} segments={} replicas={}", reply.map_version(),
               reply.segments(), reply.replicas_wanted());
  std::exchange(whole_, nullptr)();
}

void MembershipClient::FetchCatalogue() {
  CatalogueVersion asked;
  {
    // A version that is wanted from here on may be made after this fetch; it is fetched again.
    const MutexLock lock(&wishes_->mutex);
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
  const MutexLock lock(&wishes_->mutex);
  if (asked > held) wishes_->newest = held;
  if (wishes_->wanted <= held) wishes_->wanted = CatalogueVersion();
}

bool MembershipClient::Pause(absl::Duration duration) {
  Wishes& wishes = *wishes_;
  const absl::Time until = world::MonotonicNow() + duration;
  while (true) {
    {
      const auto left = [](absl::Time then) { return then - world::MonotonicNow(); };
      const MutexLock lock(&wishes.mutex);
      wishes.changed.AwaitFor(&wishes.mutex, left(until), [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return wishes.stop || wishes.wanted != CatalogueVersion();
      });
      if (!wishes.stop && wishes.wanted != CatalogueVersion()) {
        wishes.changed.AwaitFor(&wishes.mutex, left(std::min(until, next_fetch_)),
                                [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return wishes.stop; });
      }
      if (wishes.stop) return false;
    }
    if (world::MonotonicNow() >= until) return true;
    FetchCatalogue();
    next_fetch_ = world::MonotonicNow() + kFetchEvery;
  }
}

}  // namespace paceline::shard
