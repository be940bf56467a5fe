#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/clock/consistency.h"
#include "libs/log/change_log.h"
#include "libs/world/random.h"
#include "paceline/table_schema.h"

namespace paceline::sim {

// Faults. Each counts only when it took effect.
enum class FaultKind : uint8_t {
  kBreak,             // a link is cut, with frames under way
  kServerClose,       // a shard ends a stream
  kClog,              // the links of a process are slow for a while
  kShardPause,        // a shard stands still
  kCoordinatorKill,   // the coordinator dies, and comes back from its store
  kCoordinatorPause,  // for so long that it must not count anybody's silence
  kStoreFails,        // a commit fails, or takes effect and is reported as failed
  kClientKill,        // a worker dies silently
  kClientPause,       // a worker stands still, maybe long enough to be evicted
  kMove,              // shards are drained where no replica could take over
  kCalls,             // calls are lost, late and doubled for a while
  kShardKill,         // a shard dies with its memory, and comes back as another start
  kPartition,         // two shards cannot reach each other for a while
  kHandOver,          // a shard is asked to hand over everything it is primary of
  kShardTerm,         // a shard is told to end: it leaves, and comes back as another start
  kCoordinatorTerm,   // the coordinator is told to end
  kOneWay,            // one shard cannot reach another one, which can reach it
  kCoordinatorCut,    // shards and the coordinator cannot reach each other
  kToCoordinator,     // shards cannot reach the coordinator, which can reach them
  kFromCoordinator,   // the coordinator cannot reach shards, which can reach it
  kSwapUnanswered,    // a hand-over is granted, and neither primary hears of it for a while
  kClientsCut,        // a shard reaches other shards, and neither the coordinator nor any client
  kMembersKill,       // all members of a segment die at once, and come back with their disks
  kAllKill,           // all shards die at once, and the coordinator
  kDiskForgets,       // a shard dies, and its disk has lost what was not synced
  kDiskFull,          // a disk has no space for a while
  kDiskFails,         // a disk can neither be written nor read
  kSyncFails,         // a disk takes writes but cannot sync them
  kDiskSlow,          // a disk takes long
  kDiskDamaged,       // a shard dies, and a bit on its disk has flipped
  kDiskAged,          // a shard dies, and comes back with an older copy of its folder
  kStoreAged,         // the coordinator dies, and comes back with an older copy of its store
  kAddLate,           // a wish to add a replica arrives again after the primary has asked it out
};
inline constexpr int kFaultKinds = 33;
// Some of these are drawn separately: cuts, and faults of disks.
inline constexpr int kCutsFrom = static_cast<int>(FaultKind::kOneWay);
inline constexpr int kDisksFrom = static_cast<int>(FaultKind::kMembersKill);
inline constexpr int kAgesFrom = static_cast<int>(FaultKind::kDiskAged);
const char* NameOf(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kBreak;
  absl::Duration at;  // from the start of the run
};

// The largest bound of a worker that follows the waiting: its bound grows as well as falls.
inline constexpr uint32_t kBoundMost = 2 * clock::kFirstBound;

// The behaviour of one worker.
struct WorkerPlan {
  bool aside = false;                 // belongs to the other job
  std::optional<uint64_t> staleness;  // nullopt: asynchronous
  bool refresh = false;               // asks which rows have changed
  bool catches_up = false;            // waits for several clocks when it waits
  bool bsp = false;                   // reads the aggregated table exactly
  bool told = false;                  // shards tell it what has changed (ESSP) …
  bool told_each = false;             // … at each advance of the min clock …
  bool told_few = false;              // … and brought one row of a segment at a time
  bool adaptive = false;              // its bound is told, and at most its staleness
  bool bounded = false;               // it uses the counting table under a value bound …
  bool decays = false;                // … that becomes smaller
  absl::Duration think;               // at most, in one clock
  absl::Duration starts_at;           // from the start of the run; > 0: it joins late
  uint64_t clocks = UINT64_MAX;       // it finishes after this many of its own, if the job lasts that long
  bool closes_unfinished = false;     // it leaves without its last tick
  bool dies_finishing = false;        // it is killed, once, while its last tick is under way
  PushFilter push_filter = {};        // of its pushes to the counting table
  bool work = false;                  // it trains the items of the job's work queue beside the rest
  // It is killed, once, this long after it joined, and comes back only when it has been evicted.
  std::optional<absl::Duration> dies_after = std::nullopt;
};

// Everything that follows from a seed: a cluster, its users, and its faults.
// Whether plans are calm: set before the first of them is made.
inline bool calm_wanted = false;

struct Plan {
  uint64_t seed = 0;
  uint64_t cluster = 1;  // its id; names of snapshots have the upper half
  uint32_t shards = 3;
  uint32_t replicas = 0;  // of each segment
  int ring_bits = 3;
  uint64_t clocks = 50;
  std::vector<WorkerPlan> workers;
  uint32_t together = 4;     // so many of them start together
  bool disks = false;        // shards have disks …
  bool durable = false;      // … and an acknowledged part is on all of them
  bool slews = false;        // clocks differ as much as leases allow, and change their rates
  uint32_t elastic = 0;      // sets of shards that are drained, and taken away or cancelled
  uint32_t late_shards = 0;  // that join beside the first ones
  bool by_load = false;      // segments move by load
  bool reduces = false;      // users reduce a table of ranges, too
  bool lends = false;        // … and push ranges of it whose values they lend
  bool prioritised = false;  // users push with priorities, in small slices
  bool filtered = false;     // clients filter what they push and pull
  uint32_t readers = 1;
  uint32_t heirs =
      0;  // workers that start together once all others have gone, and find the clocks as these left them
  uint32_t together_aside = 2;  // so many of the other job's workers start together
  uint64_t clocks_aside = 15;
  uint32_t operations = 6;      // tables dropped and rates changed
  bool bounds = false;          // … and bounds that some workers follow
  bool work_in_order = false;   // items of a work queue wait for those of the pass before
  bool deletes = false;         // the other job is deleted once, while it trains
  bool restores_first = false;  // a job is made of an older snapshot before any worker starts
  size_t changes_max = log::ChangeLog::kRowsMax;  // of rows of a table, that a segment keeps
  uint32_t snapshots = 0;                         // taken of the jobs, restored and deleted; 0: none
  bool calm = false;  // what happens without faults is judged, and a calm end follows
  std::vector<Fault> faults;

  static Plan Of(uint64_t seed);
  // The same users on a cluster without faults.
  static Plan WithoutFaults(uint64_t seed);
};

}  // namespace paceline::sim
