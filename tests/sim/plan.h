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
};
inline constexpr int kFaultKinds = 11;
const char* NameOf(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kBreak;
  absl::Duration at;  // from the start of the run
};

// How one worker works.
struct WorkerPlan {
  std::optional<uint64_t> staleness;  // nullopt: asynchronous
  absl::Duration think;               // at most, in a clock
  absl::Duration starts_at;           // from the start of the run; > 0: it joins late
  uint64_t clocks = UINT64_MAX;       // it finishes after so many of its own, if the job lasts that long
  bool closes_unfinished = false;     // it leaves without its last tick
  bool dies_finishing = false;        // it is killed, once, while its last tick is under way
};

// What a seed is: a cluster, its users, and what happens to them.
struct Plan {
  uint64_t seed = 0;
  uint32_t shards = 3;
  int ring_bits = 3;
  uint64_t clocks = 50;
  std::vector<WorkerPlan> workers;
  uint32_t together = 4;  // of them start together
  uint32_t readers = 1;
  std::vector<Fault> faults;

  static Plan Of(uint64_t seed);
  // The same users on a cluster to which nothing happens.
  static Plan WithoutFaults(uint64_t seed);
};

}  // namespace paceline::sim
