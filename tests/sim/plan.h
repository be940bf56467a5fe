#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/world/random.h"
#include "paceline/table_schema.h"

namespace paceline::sim {

// What happens to a cluster. Each counts only when it took effect.
enum class FaultKind : uint8_t {
  kBreak,             // a link is cut, with frames under way
  kServerClose,       // a shard ends a stream
  kClog,              // the links of a process become slow for a while
  kShardPause,        // a shard stands still
  kCoordinatorKill,   // and comes back from its store
  kCoordinatorPause,  // for so long that it must not count anybody's silence
  kStoreFails,        // a commit fails, or fails only for who made it
  kClientKill,        // a worker is gone without a word
  kClientPause,       // a worker stands still, maybe long enough to be evicted
  kMove,              // a segment moves with its state
  kCalls,             // calls are lost, late and doubled for a while
  kShardKill,         // a shard is gone with its memory, and comes back as another start
  kPartition,         // two shards cannot reach each other for a while
  kHandOver,          // a shard is asked to hand over all it is primary of
  kShardTerm,         // a shard is told to end: it leaves, and comes back as another start
  kCoordinatorTerm,   // so is the coordinator
  kOneWay,            // one shard cannot reach another one, which can reach it
  kCoordinatorCut,    // shards and the coordinator cannot reach each other
  kToCoordinator,     // shards cannot reach the coordinator, which can reach them
  kFromCoordinator,   // the coordinator cannot reach shards, which can reach it
  kSwapUnanswered,    // a hand-over is granted, and neither primary hears of it for a while
  kClientsCut,        // a shard reaches other shards, and neither the coordinator nor any client
  kMembersKill,       // all members of a segment are gone at once, and come back with their disks
  kAllKill,           // so are all shards, and the coordinator
  kDiskForgets,       // a shard is gone, and its disk has lost what was not synced
  kDiskFull,          // a disk has no space for a while
  kDiskFails,         // it can neither be written nor read
  kSyncFails,         // what is written cannot be made safe
  kDiskSlow,          // it takes long
  kDiskDamaged,       // a shard is gone, and a bit on its disk has flipped
  kDiskAged,          // a shard is gone, and comes back with an older copy of its folder
  kStoreAged,         // the coordinator is gone, and comes back with an older copy of its store
  kAddLate,           // a wish to add a replica comes again when that one has been asked out
};
inline constexpr int kFaultKinds = 33;
// Of these some are drawn beside the others: cuts, and what happens to disks.
inline constexpr int kCutsFrom = static_cast<int>(FaultKind::kOneWay);
inline constexpr int kDisksFrom = static_cast<int>(FaultKind::kMembersKill);
inline constexpr int kAgesFrom = static_cast<int>(FaultKind::kDiskAged);
const char* NameOf(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kBreak;
  absl::Duration at;  // from the start of the run
};

// How one worker works.
struct WorkerPlan {
  bool aside = false;                 // of the other job
  std::optional<uint64_t> staleness;  // nullopt: asynchronous
  bool refresh = false;               // asks which rows have changed
  bool catches_up = false;            // waits for several clocks when it waits
  bool bsp = false;                   // reads the aggregated table exactly
  absl::Duration think;               // at most, in a clock
  absl::Duration starts_at;           // from the start of the run; > 0: it joins late
  uint64_t clocks = UINT64_MAX;       // it finishes after so many of its own, if the job lasts that long
  bool closes_unfinished = false;     // it leaves without its last tick
  bool dies_finishing = false;        // it is killed, once, while its last tick is under way
  // It is killed, once, so long after it joined, and comes back only when it has been evicted.
  std::optional<absl::Duration> dies_after = std::nullopt;
};

// What a seed is: a cluster, its users, and what happens to them.
struct Plan {
  uint64_t seed = 0;
  uint64_t cluster = 1;  // its id, of which names of snapshots have the upper half
  uint32_t shards = 3;
  uint32_t replicas = 0;  // of each segment
  int ring_bits = 3;
  uint64_t clocks = 50;
  std::vector<WorkerPlan> workers;
  uint32_t together = 4;  // of them start together
  bool disks = false;     // shards have disks …
  bool durable = false;   // … and what is acknowledged is on all of them
  bool slews = false;     // clocks run as differently as leases allow for, and change
  uint32_t readers = 1;
  uint32_t heirs =
      0;  // workers that start together once all others have gone, and find the clocks as they were left
  uint32_t together_aside = 2;  // of the other job's workers start together
  uint64_t clocks_aside = 15;
  uint32_t operations = 6;      // tables dropped and rates changed
  bool deletes = false;         // the other job is deleted once, while it trains
  bool restores_first = false;  // a job is made of an older snapshot before anybody works
  uint32_t snapshots = 0;       // taken of the jobs, restored and deleted; 0: nobody can
  std::vector<Fault> faults;

  static Plan Of(uint64_t seed);
  // The same users on a cluster to which nothing happens.
  static Plan WithoutFaults(uint64_t seed);
};

}  // namespace paceline::sim
