#pragma once

#include <cstdint>
#include <vector>

#include "libs/base/ids.h"
#include "libs/log/record.h"

// Cuts of a job for its snapshots: docs/snapshots.md.
namespace paceline::log {

// What the coordinator asks a segment for.
struct CutWish {
  uint64_t id = 0;  // growing, never used again
  JobId job;
  Clock clock = 0;       // beyond that of every worker, when it was proposed
  bool at_once = false;  // whatever the clock
  // Until it is logged parts of `clock` and later ones are refused that would be applied on arrival.
  bool exact = false;
};

// What is known of a job in one segment as of a cut, beside its rows.
struct CutCopy {
  struct Worker {
    SessionId session;
    uint32_t rank = 0;
    Clock clock = 0;  // all its updates of smaller clocks are in
  };
  Cut cut;
  Epoch epoch;
  Lsn lsn;  // of the record of the cut
  // No update of a worker, unless it was evicted, is of the cut's clock or a later one.
  bool exact = false;
  std::vector<Worker> workers;
};

}  // namespace paceline::log
