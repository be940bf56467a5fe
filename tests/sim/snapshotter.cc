#include "tests/sim/snapshotter.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kLastTimeout = absl::Seconds(8);

// What may become of a request while anything may happen.
bool Expected(const absl::Status& status) {
  return status.ok() || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
         absl::IsAlreadyExists(status);
}

}  // namespace

Snapshotter::Snapshotter(World& world, SimCoordinator& coordinator, SnapshotShare& share, uint32_t operations)
    : world_(world), share_(share), api_(world, coordinator, host_), operations_(operations) {}

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

void Snapshotter::Restore(const std::string& name, absl::Duration timeout, Ended ended) {
  v1::RestoreSnapshotRequest request;
  request.set_snapshot(name);
  request.set_job(absl::StrCat("restored-", restored_));
  Say(absl::StrCat("restore ", request.ShortDebugString()));
  api_.RestoreSnapshot(request, timeout, [ended = std::move(ended)](auto reply) { ended(reply.status()); });
}

void Snapshotter::RestoreOne() {
  ++restored_;
  Restore(taken_[Below(taken_.size())], absl::Seconds(3), [this](const absl::Status& status) {
    if (status.ok()) on_restored(absl::StrCat("restored-", restored_));
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
    // Nobody comes to the clock at which rates are to change.
    const bool rates = absl::IsFailedPrecondition(status) && absl::StrContains(status.message(), "rates");
    if (rates) world_.marks.Hit("a job snapshot is refused for rates to come");
    if (rates) {
      stage_ = Stage::kDone;
    } else if (status.ok()) {
      last_ = taken_.back();
      ++restored_;
      RestoreLast();
    } else {
      world_.scheduler.After(absl::Milliseconds(100), [this] { TakeLast(); });
    }
  });
}

void Snapshotter::RestoreLast() {
  stage_ = Stage::kRestoring;
  Restore(last_, kLastTimeout, [this](const absl::Status& status) {
    Say(absl::StrCat(doing_, ": ", status.ToString()));
    // It may be there already, and its answer have been lost.
    if (status.ok() || absl::IsAlreadyExists(status)) {
      stage_ = Stage::kDone;
    } else {
      world_.scheduler.After(absl::Milliseconds(100), [this] { RestoreLast(); });
    }
  });
}

}  // namespace paceline::sim
