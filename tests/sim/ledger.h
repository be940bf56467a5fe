#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "libs/base/ids.h"
#include "libs/ring/segment_map.h"

namespace paceline::sim {

// What the log of one segment holds of one session.
struct LoggedSession {
  bool opened = false;
  bool closed = false;
  bool joined = false;
  bool finished = false;
  Clock start = 0;
  PartNumber applied = 0;  // of the arrival line
};

// The log of one segment as it was written, over all its primaries: kept by the simulator, beside the
// segment's own state.
struct SegmentLedger {
  Lsn lsn;
  Epoch epoch;                              // of the newest record or move
  std::map<Epoch, ring::Member> primaries;  // who has answered in each
  std::map<SessionId, LoggedSession> sessions;
  Clock min_clock = 0;  // of the one job there is
  Clock certified = 0;  // the largest min clock a reader was given

  PartNumber Applied(SessionId session) const {
    const auto it = sessions.find(session);
    return it == sessions.end() ? 0 : it->second.applied;
  }
};

}  // namespace paceline::sim
