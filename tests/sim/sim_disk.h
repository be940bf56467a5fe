#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/engine/memory_engine.h"
#include "services/shard/disk/disk_queue.h"
#include "tests/sim/world.h"

namespace paceline::sim {

enum class DiskFault : uint8_t {
  kFull,       // nothing can be written because there is no space
  kFails,      // nothing can be written or read
  kSyncFails,  // it takes writes but cannot sync them
  kSlow,       // each step takes long
};
inline constexpr size_t kDiskFaults = 4;

// A machine's disk: its content outlives the processes that use it, and it fails on command.
class SimDisk {
 public:
  explicit SimDisk(World& world) : world_(world) {}

  // `took_effect` runs once, when a step meets the fault.
  void Strike(DiskFault fault, absl::Time until, std::function<void()> took_effect);
  // The engine that a process opens. REQUIRES: no other process uses it.
  std::unique_ptr<engine::Engine> Open();
  // The power goes: a prefix of the unsynced batches stays. Returns the number of batches lost.
  size_t LosePower();

  // -- copies --
  // A start that has joined is about to end: keeps a copy of the disk's present state, and the copy before
  // it.
  void KeepCopy();
  // The disk becomes the older of the two copies; false: there is none. REQUIRES: no process uses it.
  bool Age();
  // The disk becomes what it was before Age.
  void BringBack();
  bool aged() const { return newest_ != nullptr; }
  // True: after the next KeepCopy, Age has an older copy.
  bool has_copy() const { return copy_ != nullptr && !aged(); }
  // Names the disk or the copy in use.
  std::string place() const { return aged() ? "a copy" : "the disk"; }

  // `then` runs once, a moment after an unsynced write: with `page`, one of a page.
  void AfterWrite(bool page, std::function<void()> then) {
    awaits_page_ = page;
    after_write_ = std::move(then);
  }
  void Written(const engine::Batch& batch);

  // The last record of the segment that a start would find if nothing more were written.
  Lsn Has(SegmentId segment) const;
  void Damage() { disk_->damaged = true; }
  bool damaged() const { return disk_->damaged; }

  // The engine's next operation meets the faults of this moment.
  void Arm();
  // Reports whether it has met them.
  void Noted(const absl::Status& status, shard::DiskQueue::Step step);
  absl::Duration Takes(shard::DiskQueue::Step step);
  const engine::MemoryEngine::Disk& contents() const { return *disk_; }

 private:
  struct Struck {
    absl::Time until = absl::InfinitePast();
    std::function<void()> took_effect;
  };

  bool Meets(DiskFault fault);

  World& world_;
  std::shared_ptr<engine::MemoryEngine::Disk> disk_ = std::make_shared<engine::MemoryEngine::Disk>();
  std::shared_ptr<engine::MemoryEngine::Disk> copy_;    // null: there is none
  std::shared_ptr<engine::MemoryEngine::Disk> older_;   // of an earlier start
  std::shared_ptr<engine::MemoryEngine::Disk> newest_;  // null: it is in use
  std::array<Struck, kDiskFaults> struck_;
  bool awaits_page_ = false;
  std::function<void()> after_write_;
};

// A process's access to its disk: the real decisions (DiskQueue), with virtual time instead of a thread.
class SimDiskWriter final : public shard::Disk {
 public:
  // Each pending byte counts as this many, so that small runs reach the bounds of a real disk.
  static constexpr uint64_t kScale = 4096;

  // `on_synced` runs whenever a caller was told that data is safe.
  SimDiskWriter(World& world, const Host& host, SimDisk& disk, std::unique_ptr<engine::Engine> engine,
                std::function<void()> on_synced)
      : world_(world),
        host_(host),
        disk_(disk),
        engine_(std::move(engine)),
        on_synced_(std::move(on_synced)),
        synced_position_(engine_->position()) {}

  void Write(engine::Batch batch, Synced synced) override;
  uint64_t pending_bytes() const override { return queue_.pending_bytes() * kScale; }
  Done done() const override { return queue_.done(); }
  uint64_t synced_position() const override { return synced_position_; }
  Health health() const override { return queue_.HealthAt(world_.Now()); }

  // The process ends in good order: writes and syncs everything that waits. False: the disk failed.
  bool WriteAll();
  // The process dies: writes under way may still have arrived.
  void Die();

 private:
  using Step = shard::DiskQueue::Step;

  void Kick();
  void Finish(Step step);
  absl::Status Do(Step step);
  // Notes the batch's effect on the disk, for marks and invariants.
  void Look(const engine::Batch& batch);

  World& world_;
  const Host& host_;
  SimDisk& disk_;
  std::unique_ptr<engine::Engine> engine_;  // null: dead
  const std::function<void()> on_synced_;
  uint64_t synced_position_;
  shard::DiskQueue queue_;
  Step under_way_ = Step::kNothing;
  absl::Time armed_ = absl::InfiniteFuture();
  bool failed_ = false;  // the last step failed
};

}  // namespace paceline::sim
