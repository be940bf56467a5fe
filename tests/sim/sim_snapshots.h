#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libs/sim/host.h"
#include "libs/sim/scheduler.h"
#include "libs/snapshot/memory_files.h"
#include "libs/world/random.h"
#include "services/coordinator/metadata/snapshots/snapshot_files.h"
#include "services/shard/snapshots/snapshot_runner.h"

namespace paceline::sim {

// The directory of snapshots that all processes of a cluster see. Its content outlives them all; now and then
// it cannot be reached. It has its own randomness, so that seeds without snapshots run as they did.
class SnapshotShare {
 public:
  SnapshotShare(uint64_t seed, Scheduler& scheduler);
  ~SnapshotShare();

  // Everything fails for a while; data of a failed commit may exist all the same.
  void Strike(absl::Duration lasts) { fails_until_ = scheduler_.Now() + lasts; }
  bool failing() const { return scheduler_.Now() < fails_until_; }
  // The user who took snapshots is gone: nobody knows the outcome of those that it was not told of.
  void OnTakerGone();
  // A user was told that it is complete.
  void OnTold(const std::string& name) { told_.insert(name); }
  // True: a folder that is no snapshot may exist, as far as any live user was told.
  bool MayBeThere(const std::string& name) const { return told_.contains(name) || in_doubt_.contains(name); }

  // The files that processes use, with faults; and the same without faults, for observers.
  snapshot::Files& files();
  snapshot::MemoryFiles& contents() { return contents_; }

  world::SplitMix64& random() { return random_; }
  absl::Duration Takes();

  // A snapshot has been begun, and may become visible to all.
  std::function<void(const std::string& name)> on_begun = [](const std::string&) {};
  std::function<void(const std::string& name)> on_complete = [](const std::string&) {};

 private:
  class Files;
  class NewFile;

  absl::Status Reach(const std::string& folder);

  Scheduler& scheduler_;
  world::SplitMix64 random_;
  snapshot::MemoryFiles contents_;
  const std::unique_ptr<Files> files_;
  absl::Time fails_until_ = absl::InfinitePast();
  std::set<std::string> told_;
  std::set<std::string> in_doubt_;
};

// One process's access to the share: one job after the other, a step at a time, in virtual time.
class SnapshotWork {
 public:
  using Step = absl::AnyInvocable<bool(snapshot::Files&)>;  // false: it was the last one

  // All arguments must outlive this object and the steps it has scheduled.
  SnapshotWork(SnapshotShare& share, Scheduler& scheduler, const Host& host)
      : share_(share), scheduler_(scheduler), host_(host) {}

  void Add(Step steps);
  // The process dies.
  void Die();

 private:
  void Kick();
  void Go();

  SnapshotShare& share_;
  Scheduler& scheduler_;
  const Host& host_;
  std::deque<Step> waiting_;
  std::optional<Step> under_way_;
  bool dead_ = false;
};

// The shard's, instead of its thread (services/shard/snapshots/snapshot_thread.h).
class SimSnapshotRunner final : public shard::SnapshotRunner {
 public:
  SimSnapshotRunner(SnapshotShare& share, Scheduler& scheduler, const Host& host)
      : scheduler_(scheduler), work_(share, scheduler, host) {}
  void Run(Task task, absl::Duration delay) override;
  void RunSteps(Steps steps) override { work_.Add(std::move(steps)); }
  void Die() { work_.Die(); }

 private:
  Scheduler& scheduler_;
  SnapshotWork work_;
};

// The coordinator's (services/coordinator/snapshot_desk.h).
class SimSnapshotDesk final : public coordinator::SnapshotFiles {
 public:
  // `visited` runs after each answer.
  SimSnapshotDesk(SnapshotShare& share, Scheduler& scheduler, const Host& host, std::function<void()> visited)
      : scheduler_(scheduler), visited_(std::move(visited)), work_(share, scheduler, host) {}
  void Run(std::function<void(snapshot::Files&)> task, std::function<void()> done) override;
  // The wall clock is set now and then, also back: nothing may depend on it.
  int64_t UnixSeconds() const override {
    return absl::ToUnixSeconds(scheduler_.Now()) + (asked_++ % 3 - 1) * 3600;
  }
  void Die() { work_.Die(); }

 private:
  Scheduler& scheduler_;
  const std::function<void()> visited_;
  mutable int64_t asked_ = 0;
  SnapshotWork work_;
};

}  // namespace paceline::sim
