#pragma once

#include <cstdint>
#include <vector>

#include "libs/base/ids.h"
#include "libs/log/record.h"

// Cuts of a job for its snapshots: docs/snapshots.md.
namespace paceline::log {

// The coordinator's request for a cut.
struct CutWish {
  uint64_t id = 0;  // growing, never used again
  JobId job;
  Clock clock = 0;       // larger than the clock of every worker at the time of the proposal
  bool at_once = false;  // now, at the present min clock
  // Until the cut is logged, refuse parts of `clock` and later ones that would be applied on arrival.
  bool exact = false;
};

// The state of a job in one segment as of a cut, without its rows.
struct CutCopy {
  struct Worker {
    SessionId session;
    uint32_t rank = 0;
    Clock clock = 0;  // all its updates of smaller clocks are in the cut
  };
  Cut cut;
  Epoch epoch;
  Lsn lsn;  // of the record of the cut
  // Of workers that were not evicted, no update of the cut's clock or a later one is in the cut.
  bool exact = false;
  std::vector<Worker> workers;
};

}  // namespace paceline::log
