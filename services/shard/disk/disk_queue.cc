#include "services/shard/disk/disk_queue.h"

#include "libs/base/planted.h"

namespace paceline::shard {
namespace {

// A slow step counts for so long.
constexpr absl::Duration kSlowRemembered = absl::Seconds(10);

}  // namespace

void DiskQueue::Add(engine::Batch batch, Disk::Synced synced) {
  pending_bytes_ += batch.bytes();
  queued_.batch.Add(std::move(batch));
  if (synced) queued_.waiting.push_back(std::move(synced));
}

DiskQueue::Step DiskQueue::Next(absl::Time now) {
  const Step step = Choose(now);
  if (step != Step::kNothing) begun_ = now;
  return step;
}

DiskQueue::Step DiskQueue::Choose(absl::Time now) {
  if (stage_ != Stage::kIdle) {
    if (now < retry_at_) return Step::kNothing;
    return stage_ == Stage::kWriting ? Step::kWrite : Step::kSync;
  }
  // Syncs come first: a shard that never stops writing would never be synced.
  if (unsynced_ && now >= next_sync_) return Step::kSync;
  if (queued_.batch.empty()) return Step::kNothing;
  if (Planted(Bug::kPageBeforeLog)) {
    TakePages();
  } else {
    in_hand_ = std::exchange(queued_, Group());
  }
  stage_ = Stage::kWriting;
  retry_at_ = absl::InfinitePast();
  return Step::kWrite;
}

// Planted: pages overtake the records that were queued before them.
void DiskQueue::TakePages() {
  Group rest;
  for (const engine::Batch::Operation& operation : queued_.batch.operations()) {
    const bool page = std::holds_alternative<engine::Batch::PutPage>(operation);
    (page ? in_hand_ : rest).batch.Add(operation);
  }
  if (in_hand_.batch.empty()) std::swap(in_hand_.batch, rest.batch);
  (rest.batch.empty() ? in_hand_ : rest).waiting = std::move(queued_.waiting);
  queued_ = std::move(rest);
}

absl::Time DiskQueue::Due() const {
  if (stage_ != Stage::kIdle) return retry_at_;
  if (!queued_.batch.empty()) return absl::InfinitePast();
  return unsynced_ ? next_sync_ : absl::InfiniteFuture();
}

DiskQueue::Group DiskQueue::Done(Step step, const absl::Status& status, absl::Time now) {
  Note(step, status, now);
  if (step == Step::kSync) {
    ++done_.syncs;
    next_sync_ = now + kSyncEvery;
  }
  if (!status.ok()) {
    retry_at_ = now + kRetryAfter;
    return {};
  }
  if (step == Step::kWrite) return Written(now);
  unsynced_ = false;
  if (stage_ != Stage::kSyncing) return {};  // nobody waited
  stage_ = Stage::kIdle;
  return std::exchange(in_hand_, Group());
}

DiskQueue::Group DiskQueue::Written(absl::Time now) {
  pending_bytes_ -= in_hand_.batch.bytes();
  done_.bytes += in_hand_.batch.bytes();
  if (!unsynced_) next_sync_ = now + kSyncEvery;
  unsynced_ = true;
  const bool sync = !in_hand_.waiting.empty() && !Planted(Bug::kAckedBeforeSynced);
  stage_ = sync ? Stage::kSyncing : Stage::kIdle;
  if (sync) return {};
  return std::exchange(in_hand_, Group());
}

void DiskQueue::Note(Step step, const absl::Status& status, absl::Time now) {
  if (now - begun_ > kDiskStepSlow) {
    slow_until_ = now + kSlowRemembered;
    slow_took_ = now - begun_;
  }
  begun_ = absl::InfiniteFuture();
  if (!status.ok()) {
    if (failing_since_ == absl::InfiniteFuture()) failing_since_ = now;
    if (step == Step::kSync) sync_fails_ = true;
    failure_ = status;
  } else if (step == Step::kSync || !sync_fails_) {  // a write does not mend a failed sync
    failing_since_ = absl::InfiniteFuture();
    sync_fails_ = false;
  }
}

Disk::Health DiskQueue::HealthAt(absl::Time now) const {
  using State = Disk::Health::State;
  if (now - failing_since_ >= kDiskFails) {
    const bool full = absl::IsResourceExhausted(failure_);
    return {.state = full ? State::kFull : State::kFails,
            .why = std::string(failure_.message()),
            .lasts = now - failing_since_};
  }
  if (now - begun_ > kDiskHangs) {
    return {.state = State::kFails, .why = "a write or a sync does not come back", .lasts = now - begun_};
  }
  if (now - begun_ > kDiskStepSlow) {
    return {.state = State::kSlow, .why = "a write or a sync is under way", .lasts = now - begun_};
  }
  if (now < slow_until_) {
    return {.state = State::kSlow, .why = "a write or a sync took its time", .lasts = slow_took_};
  }
  return {};
}

}  // namespace paceline::shard
