#pragma once

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "libs/snapshot/files.h"

namespace paceline::shard {

// Runs the work on the files of snapshots, which blocks: in the process a thread (snapshot_thread.h).
// Thread-safe.
class SnapshotRunner {
 public:
  using Task = absl::AnyInvocable<void(snapshot::Files&)>;
  virtual ~SnapshotRunner() = default;
  // Runs `task` once, not within this call and not beside another one, at the earliest after `delay`; never,
  // if the process ends before.
  virtual void Run(Task task, absl::Duration delay = absl::ZeroDuration()) = 0;
  // The same for work that is done in steps, one after the other until one returns false; time may pass
  // between two of them, but no other task is run.
  using Steps = absl::AnyInvocable<bool(snapshot::Files&)>;
  virtual void RunSteps(Steps steps) {
    Run([steps = std::move(steps)](snapshot::Files& files) mutable {
      while (steps(files)) {
      }
    });
  }
};

}  // namespace paceline::shard
