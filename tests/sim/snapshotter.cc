#include "tests/sim/snapshotter.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kLastTimeout = absl::Seconds(8);

// The errors that a request may end with while anything may happen.
bool Expected(const absl::Status& status) {
  return status.ok() || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
         absl::IsAlreadyExists(status);
}

}  // namespace

Snapshotter::Snapshotter(World& world, SimCoordinator& coordinator, SnapshotShare& share, uint32_t operations)
    : world_(world),
      coordinator_(coordinator),
      share_(share),
      api_(world, coordinator, host_),
      operations_(operations) {}

void Snapshotter::Begin() {
  Later(absl::Milliseconds(50), absl::Milliseconds(400));
}

void Snapshotter::Later(absl::Duration least, absl::Duration most) {
  const absl::Duration after = least + (most - least) * world::UnitInterval(share_.random());
  world_.scheduler.After(after, [this] { Next(); });
}

void Snapshotter::Stop() {
  if (stage_ != Stage::kTraining) return;
  stage_ = Stage::kStopped;
  if (idle_) TakeLast();
}

void Snapshotter::Say(const std::string& what) {
  doing_ = what;
  world_.Trace("snapshots: " + what);
}

void Snapshotter::Next() {
  if (stage_ != Stage::kTraining || operations_ == 0 || !idle_) return;
  --operations_;
  if (Chance(0.1)) share_.Strike(absl::Milliseconds(300) * world::UnitInterval(share_.random()));
  idle_ = false;
  const uint64_t drawn = Below(10);
  if (taken_.empty() || drawn < 7) return TakeOne();
  drawn < 9 ? RestoreOne() : DeleteOne();
}

void Snapshotter::OnEnded(const absl::Status& status) {
  Say(absl::StrCat(doing_, ": ", status.ToString()));
  if (!Expected(status)) world_.verdict.Violated("Progress", Describe());
  idle_ = true;
  if (stage_ == Stage::kStopped) return TakeLast();
  if (absl::IsUnavailable(status)) ++operations_;  // it was not begun, mostly
  Later(absl::Milliseconds(10), absl::Milliseconds(300));
}

void Snapshotter::Create(const v1::CreateSnapshotRequest& request, absl::Duration timeout, Ended ended) {
  Say(absl::StrCat("create ", request.ShortDebugString()));
  api_.CreateSnapshot(request, timeout, [this, ended = std::move(ended)](auto reply) {
    if (reply.ok()) taken_.push_back(reply->snapshot().name());
    if (!reply.ok()) world_.marks.Hit("a job snapshot fails");
    ended(reply.status());
  });
}

void Snapshotter::TakeOne() {
  static constexpr const char* kJobs[] = {"job", "job", "job", "aside"};
  v1::CreateSnapshotRequest request;
  request.set_job(kJobs[Below(4)]);
  if (restored_ > 0 && Chance(0.1)) request.set_job(absl::StrCat("restored-", restored_));
  const uint64_t how = Below(6);
  request.set_exact(how < 2);
  request.set_now(how == 2);
  // Some give up before it can be complete.
  const absl::Duration timeout = absl::Milliseconds(Chance(0.2) ? 20 + Below(100) : 3000);
  Create(request, timeout, [this](const absl::Status& status) { OnEnded(status); });
}

v1::RestoreSnapshotRequest Snapshotter::RequestOf(const std::string& snapshot, uint64_t restored,
                                                  bool replace) {
  v1::RestoreSnapshotRequest request;
  request.set_snapshot(snapshot);
  request.set_job(absl::StrCat("restored-", restored));
  request.set_nonce(1 + Below(UINT64_MAX));
  const JobId meant = replace ? coordinator_.JobNamed(request.job()) : JobId();
  if (meant == JobId()) return request;
  request.set_replace(true);
  request.set_replaces(meant.v);
  world_.invariants.OnDeletionAsked(meant);
  return request;
}

void Snapshotter::Restore(const v1::RestoreSnapshotRequest& request, absl::Duration timeout, Ended ended) {
  Say(absl::StrCat("restore ", request.ShortDebugString()));
  api_.RestoreSnapshot(request, timeout, [this, request, timeout, ended = std::move(ended)](auto reply) {
    JudgeRestored(reply);
    if (first_.has_value() ? !absl::IsUnavailable(reply.status()) : !reply.ok() || Chance(0.6)) {
      first_.reset();
      return ended(reply.status());
    }
    if (reply.ok()) first_ = *reply;
    world_.scheduler.After(absl::Milliseconds(200),
                           [this, request, timeout, ended] { Restore(request, timeout, ended); });
  });
}

void Snapshotter::JudgeRestored(const absl::StatusOr<v1::RestoreSnapshotReply>& reply) {
  if (!first_.has_value() || absl::IsUnavailable(reply.status()) || absl::IsDeadlineExceeded(reply.status()))
    return;
  world_.marks.Hit("a restore is repeated when it is done");
  if (reply.ok() && reply->SerializeAsString() == first_->SerializeAsString()) return;
  world_.verdict.Violated("Meant",
                          absl::StrCat(doing_, ": first ", first_->ShortDebugString(), ", then ",
                                       reply.ok() ? reply->ShortDebugString() : reply.status().ToString()));
}

void Snapshotter::RestoreOne() {
  const bool replace = restored_ > 0 && Chance(0.4);
  const uint64_t restored = replace ? 1 + Below(restored_) : ++restored_;
  Restore(RequestOf(taken_[Below(taken_.size())], restored, replace), absl::Seconds(3),
          [this, restored, replace](const absl::Status& status) {
            if (status.ok() && !replace) on_restored(absl::StrCat("restored-", restored));
            OnEnded(status);
          });
}

void Snapshotter::RestoreFirst(const std::string& name) {
  idle_ = false;
  taken_.push_back(name);
  RestoreOne();
}

void Snapshotter::DeleteOne() {
  v1::DeleteSnapshotRequest request;
  request.set_snapshot(taken_[Below(taken_.size())]);
  std::erase(taken_, request.snapshot());
  Say(absl::StrCat("delete ", request.ShortDebugString()));
  api_.DeleteSnapshot(request, absl::Seconds(3), [this](auto reply) { OnEnded(reply.status()); });
}

// -- when all is over --

void Snapshotter::TakeLast() {
  stage_ = Stage::kLast;
  v1::CreateSnapshotRequest request;
  request.set_job("job");
  Create(request, kLastTimeout, [this](const absl::Status& status) {
    Say(absl::StrCat(doing_, ": ", status.ToString()));
    // No worker will reach the clock at which rates are to change.
    const bool rates = absl::IsFailedPrecondition(status) && absl::StrContains(status.message(), "rates");
    if (rates) world_.marks.Hit("a job snapshot is refused for rates to come");
    if (rates) {
      stage_ = Stage::kDone;
    } else if (status.ok()) {
      last_ = taken_.back();
      RestoreLast(RequestOf(last_, ++restored_, /*replace=*/false));
    } else {
      world_.scheduler.After(absl::Milliseconds(100), [this] { TakeLast(); });
    }
  });
}

void Snapshotter::RestoreLast(const v1::RestoreSnapshotRequest& request) {
  stage_ = Stage::kRestoring;
  Restore(request, kLastTimeout, [this, request](const absl::Status& status) {
    Say(absl::StrCat(doing_, ": ", status.ToString()));
    if (status.ok()) {
      stage_ = Stage::kDone;
    } else {
      // What was refused stays so.
      const bool refused = absl::IsFailedPrecondition(status);
      world_.scheduler.After(absl::Milliseconds(100),
                             [this, next = refused ? RequestOf(last_, restored_, /*replace=*/false)
                                                   : request] { RestoreLast(next); });
    }
  });
}

}  // namespace paceline::sim
