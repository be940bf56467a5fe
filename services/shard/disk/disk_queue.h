#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/engine/engine.h"
#include "services/shard/disk/disk.h"

namespace paceline::shard {

// Decides what to do with a disk, and when. It joins the batches that come meanwhile into one write, and
// syncs at once if somebody waits for that, otherwise about once a second. It repeats a step that fails,
// unchanged, until it succeeds. The owner has an engine, and a thread or virtual time, and does one step
// after the other:
//
//   step = Next(now);   →   engine.Write(batch()) or engine.Sync()   →   Done(step, status, now)
//
// Single owner, no locks; batch() stays as it is between Next and Done, whatever is added meanwhile.
class DiskQueue {
 public:
  static constexpr absl::Duration kSyncEvery = absl::Seconds(1);
  static constexpr absl::Duration kRetryAfter = absl::Seconds(1);

  enum class Step {
    kNothing,  // before Due()
    kWrite,
    kSync,
  };

  // The batches of one write, and the callbacks that wait for it.
  struct Group {
    engine::Batch batch;
    std::vector<Disk::Synced> waiting;
  };

  // As Disk::Write.
  void Add(engine::Batch batch, Disk::Synced synced);
  // The step to do now.
  Step Next(absl::Time now);
  // REQUIRES: Next has said kWrite, and it is not done.
  const engine::Batch& batch() const { return in_hand_.batch; }
  // The step ended with `status`. Returns what ended with it: the caller tells those who wait, and lets go of
  // it, without any lock.
  Group Done(Step step, const absl::Status& status, absl::Time now);
  // The time at which Next will name a step; infinite past: at once; infinite future: once something is
  // added.
  absl::Time Due() const;

  // Bytes that were added and are not written yet.
  uint64_t pending_bytes() const { return pending_bytes_; }
  // Something was written and is not synced.
  bool unsynced() const { return unsynced_; }
  const Disk::Done& done() const { return done_; }
  // The state of the disk, by the results of the steps and the time they took.
  Disk::Health HealthAt(absl::Time now) const;

 private:
  enum class Stage {
    kIdle,
    kWriting,  // what is in hand
    kSyncing,  // it is written, and somebody waits for it
  };

  Step Choose(absl::Time now);
  void Note(Step step, const absl::Status& status, absl::Time now);
  void TakePages();
  Group Written(absl::Time now);

  Group queued_;
  Group in_hand_;
  Stage stage_ = Stage::kIdle;
  absl::Time retry_at_ = absl::InfinitePast();
  absl::Time next_sync_ = absl::InfinitePast();
  bool unsynced_ = false;
  uint64_t pending_bytes_ = 0;
  Disk::Done done_;

  // -- how the disk stands --
  absl::Time begun_ = absl::InfiniteFuture();  // of the step that is under way
  // The time since when steps have failed, and whether the first of them was a sync.
  absl::Time failing_since_ = absl::InfiniteFuture();
  bool sync_fails_ = false;
  absl::Status failure_;
  absl::Time slow_until_ = absl::InfinitePast();
  absl::Duration slow_took_;
};

}  // namespace paceline::shard
