#include "tests/sim/sim_disk.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::sim {
namespace {

using Step = shard::DiskQueue::Step;

constexpr Latency kWriteTakes = {.shortest = absl::Microseconds(20),
                                 .usual = absl::Microseconds(300),
                                 .slow = 0.01,
                                 .slowest = absl::Milliseconds(20)};
constexpr Latency kSyncTakes = {.shortest = absl::Microseconds(100),
                                .usual = absl::Milliseconds(3),
                                .slow = 0.02,
                                .slowest = absl::Milliseconds(60)};
constexpr absl::Duration kSlow = absl::Milliseconds(600);

}  // namespace

void SimDisk::Strike(DiskFault fault, absl::Time until, std::function<void()> took_effect) {
  struck_[static_cast<size_t>(fault)] = {.until = until, .took_effect = std::move(took_effect)};
}

bool SimDisk::Meets(DiskFault fault) {
  Struck& struck = struck_[static_cast<size_t>(fault)];
  if (world_.Now() >= struck.until) return false;
  if (struck.took_effect) std::exchange(struck.took_effect, nullptr)();
  return true;
}

std::unique_ptr<engine::Engine> SimDisk::Open() {
  auto engine = engine::MemoryEngine::Open(disk_);
  if (!engine.ok()) {
    world_.verdict.Violated("Durable", absl::StrCat("a disk cannot be opened: ", engine.status().ToString()));
    return nullptr;
  }
  return *std::move(engine);
}

Lsn SimDisk::Has(SegmentId id) const {
  const auto& segments = disk_->contents().segments;
  const auto segment = segments.find(id);
  if (segment == segments.end()) return Lsn();
  const auto& [base, pages, log] = segment->second;
  const bool usable = base.has_value() || (!log.empty() && log.front().lsn == Lsn(1));
  if (!usable) return Lsn();
  return log.empty() ? base->first : log.back().lsn;
}

// A folder without an owner cannot be old: no shard has used it yet, or it is emptied, and joins as a new
// one.
void SimDisk::KeepCopy() {
  const auto& notes = disk_->contents().notes;
  const auto owner = notes.find("owner");
  if (aged() || owner == notes.end() || std::ranges::all_of(owner->second, [](char c) { return c == 0; }))
    return;
  older_ = std::move(copy_);
  copy_ = engine::MemoryEngine::Disk::CopyOf(*disk_);
}

bool SimDisk::Age() {
  if (older_ == nullptr || aged()) return false;
  newest_ = std::exchange(disk_, engine::MemoryEngine::Disk::CopyOf(*older_));
  return true;
}

void SimDisk::BringBack() {
  if (aged()) disk_ = std::exchange(newest_, nullptr);
}

// Torn writes show most faults where none or all of the bytes have arrived.
size_t SimDisk::LosePower() {
  const size_t unsynced = disk_->unsynced();
  const size_t ends[] = {0, unsynced, world_.Below(unsynced + 1)};
  const size_t kept = ends[world_.Below(3)];
  disk_->LosePower(kept);
  return unsynced - kept;
}

void SimDisk::Written(const engine::Batch& batch) {
  const bool page = std::ranges::any_of(batch.operations(), [](const engine::Batch::Operation& operation) {
    return std::holds_alternative<engine::Batch::PutPage>(operation);
  });
  if (!after_write_ || (awaits_page_ && !page)) return;
  // At once: before what comes next has arrived.
  const bool at_once = world_.Chance(0.5);
  world_.scheduler.After(
      at_once ? absl::ZeroDuration() : world_.Between(absl::ZeroDuration(), absl::Milliseconds(1)),
      std::exchange(after_write_, nullptr));
}

void SimDisk::Arm() {
  disk_->write_error = disk_->sync_error = absl::OkStatus();
  const auto meets = [this](DiskFault fault) {
    return world_.Now() < struck_[static_cast<size_t>(fault)].until;
  };
  if (meets(DiskFault::kSyncFails)) disk_->sync_error = absl::UnavailableError("the disk cannot be synced");
  if (meets(DiskFault::kFull)) disk_->write_error = absl::ResourceExhaustedError("no space left on device");
  if (meets(DiskFault::kFails)) {
    disk_->write_error = disk_->sync_error = absl::UnavailableError("input/output error");
  }
}

void SimDisk::Noted(const absl::Status& status, Step step) {
  if (status.ok()) return;
  // The order of Arm: what fails altogether hides the others.
  if (Meets(DiskFault::kFails)) return;
  Meets(step == Step::kWrite ? DiskFault::kFull : DiskFault::kSyncFails);
}

absl::Duration SimDisk::Takes(Step step) {
  // Its latency is its own: clogs are of the network.
  static const Host kNobody;
  const Latency& latency = step == Step::kWrite ? kWriteTakes : kSyncTakes;
  absl::Duration takes = latency.Draw(world_.random, kNobody, kNobody, world_.Now());
  if (Meets(DiskFault::kSlow)) takes += kSlow * world::UnitInterval(world_.random);
  return takes;
}

void SimDiskWriter::Write(engine::Batch batch, Synced synced) {
  if (engine_ == nullptr) return;
  queue_.Add(std::move(batch), std::move(synced));
  if (pending_bytes() > shard::kDiskSlow) world_.marks.Hit("clients wait for a disk");
  Kick();
}

void SimDiskWriter::Kick() {
  if (engine_ == nullptr || under_way_ != Step::kNothing) return;
  under_way_ = queue_.Next(world_.Now());
  if (under_way_ != Step::kNothing) {
    world_.scheduler.After(disk_.Takes(under_way_), [this, step = under_way_] { Finish(step); });
    return;
  }
  const absl::Time due = queue_.Due();
  if (due >= armed_) return;
  armed_ = due;
  world_.scheduler.At(due, [this, due] {
    if (armed_ == due) armed_ = absl::InfiniteFuture();
    Kick();
  });
}

absl::Status SimDiskWriter::Do(Step step) {
  disk_.Arm();
  if (step == Step::kSync) return engine_->Sync();
  const absl::Status status = engine_->Write(queue_.batch());
  if (status.ok()) Look(queue_.batch());
  if (status.ok()) disk_.Written(queue_.batch());
  return status;
}

void SimDiskWriter::Finish(Step step) {
  if (engine_ == nullptr) return;
  if (host_.Paused(world_.Now())) {
    world_.scheduler.At(host_.paused_until, [this, step] { Finish(step); });
    return;
  }
  const absl::Status status = Do(step);
  if (step == Step::kSync && status.ok()) synced_position_ = engine_->position();
  disk_.Noted(status, step);
  world_.history.Add(world_.scheduler.steps());
  if (failed_ && status.ok()) world_.marks.Hit("a disk fails and works again");
  failed_ = !status.ok();
  shard::DiskQueue::Group ended = queue_.Done(step, status, world_.Now());
  under_way_ = Step::kNothing;
  for (Synced& synced : ended.waiting) synced();
  if (!ended.waiting.empty()) on_synced_();
  Kick();
}

bool SimDiskWriter::WriteAll() {
  while (true) {
    if (under_way_ == Step::kNothing) under_way_ = queue_.Next(world_.Now());
    if (under_way_ == Step::kNothing) break;
    const Step step = std::exchange(under_way_, Step::kNothing);
    const absl::Status status = Do(step);
    disk_.Noted(status, step);
    shard::DiskQueue::Group ended = queue_.Done(step, status, world_.Now());
    for (Synced& synced : ended.waiting) synced();
    if (!status.ok()) return false;
  }
  disk_.Arm();
  return queue_.pending_bytes() == 0 && engine_->Sync().ok();
}

void SimDiskWriter::Die() {
  if (engine_ == nullptr) return;
  if (under_way_ != Step::kNothing && world_.Chance(0.5)) (void)Do(under_way_);
  engine_.reset();
}

void SimDiskWriter::Look(const engine::Batch& batch) {
  for (const engine::Batch::Operation& operation : batch.operations()) {
    const auto* base = std::get_if<engine::Batch::PutBase>(&operation);
    if (base == nullptr) continue;
    world_.marks.Hit("a base is written");
    world_.invariants.Cut(host_.name, *base);
    const auto segment = disk_.contents().contents().segments.find(base->segment);
    if (segment == disk_.contents().contents().segments.end()) continue;
    if (!segment->second.log.empty()) world_.marks.Hit("a base is written while records arrive");
    if (base->lsn != Lsn()) world_.marks.Hit("a disk's log is cut");
  }
}

}  // namespace paceline::sim
