// The faults of disks, and of folders and stores that go back in time.
#include <algorithm>
#include <map>
#include <vector>

#include "tests/sim/cluster.h"

namespace paceline::sim {
namespace {

// Until a shard that has just ended has joined again, mostly.
constexpr absl::Duration kAgeAgain = absl::Milliseconds(500);
constexpr int kAgeTries = 6;
constexpr absl::Duration kSlowBefore = absl::Milliseconds(100);

}  // namespace

// One in a run, and where others go on: its shard has nothing when it comes back.
bool Cluster::DamageDisk() {
  SimShard* shard = shards_[world_.Below(shards_.size())].get();
  if (damaged_ || plan_.replicas == 0 || !shard->up() || !CanDoWithout(*shard)) return false;
  // The coordinator may just have asked this one whether it lives, and let go of the last other copy.
  if (std::ranges::any_of(shards_, [](const auto& other) { return other->leaving(); })) return false;
  damaged_ = true;
  Kill({shard}, /*power=*/false);
  shard->DamageDisk();
  return true;
}

// It counts with what is lost.
void Cluster::ForgetfulDisk() {
  SimShard* shard = shards_[world_.Below(shards_.size())].get();
  const bool page = world_.Chance(0.7);
  // Pages and records that queue up behind a slow write go to the disk together.
  if (page) shard->disk()->Strike(DiskFault::kSlow, world_.Now() + kSlowBefore, nullptr);
  shard->disk()->AfterWrite(page, [this, shard] {
    if (!WorkersDone()) (void)Kill({shard}, /*power=*/true);
  });
}

void Cluster::StrikeDisk(FaultKind kind) {
  static const std::map<FaultKind, DiskFault> kFaults = {{FaultKind::kDiskFull, DiskFault::kFull},
                                                         {FaultKind::kDiskFails, DiskFault::kFails},
                                                         {FaultKind::kSyncFails, DiskFault::kSyncFails},
                                                         {FaultKind::kDiskSlow, DiskFault::kSlow}};
  // Mostly too short for anybody to give it up.
  const absl::Duration longest = world_.Chance(0.7) ? absl::Milliseconds(1500) : absl::Seconds(4);
  const absl::Time until = world_.Now() + world_.Between(absl::Milliseconds(20), longest);
  last_fault_ = std::max(last_fault_, until);
  SimShard& shard = *shards_[world_.Below(shards_.size())];
  shard.disk()->Strike(kFaults.at(kind), until, [this, kind] { Count(kind); });
}

// The copy is of the start before the last one, so the shard has to end twice.
bool Cluster::AgeDisk(int tried) {
  std::vector<SimShard*> ended;
  std::vector<SimShard*> others;
  for (const auto& shard : shards_) {
    if (!shard->up() || (!plan_.durable && !CanDoWithout(*shard))) continue;
    (shard->HasEndedBefore() ? ended : others).push_back(shard.get());
  }
  if (!ended.empty()) {
    SimShard* shard = ended[world_.Below(ended.size())];
    return Kill({shard}, /*power=*/false) && shard->AgeDisk();
  }
  if (tried == 0 && !others.empty()) Kill({others[world_.Below(others.size())]}, /*power=*/false);
  if (tried == kAgeTries) return false;
  world_.scheduler.After(kAgeAgain, [this, tried] {
    if (!WorkersDone() && AgeDisk(tried + 1)) Count(FaultKind::kDiskAged);
  });
  return false;
}

// For so short a time that it evicts nobody.
bool Cluster::AgeStore() {
  if (coordinator_.core() == nullptr || coordinator_.aged()) return false;
  uint64_t known = UINT64_MAX;  // the oldest map that a shard has
  for (const auto& shard : shards_) {
    if (shard->up()) known = std::min(known, shard->map_version());
  }
  if (known == UINT64_MAX) return false;
  coordinator_.Kill();
  const bool aged = coordinator_.StartAged(known);
  const absl::Duration lasts =
      aged ? world_.Between(absl::Milliseconds(50), absl::Milliseconds(900)) : absl::ZeroDuration();
  world_.scheduler.After(lasts, [this] {
    coordinator_.Kill();
    coordinator_.BringStoreBack();
    coordinator_.Start();
  });
  last_fault_ = std::max(last_fault_, world_.Now() + lasts);
  return aged;
}

}  // namespace paceline::sim
