#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "services/shard/segment/segment_host.h"

namespace paceline::shard {

// The state of a shard's segments and their other members. Plain value.
struct ReplicationState {
  uint64_t primaries = 0;
  uint64_t replicas = 0;
  uint64_t learners = 0;  // follow a primary, or did, and no configuration counts on them
  uint64_t lost = 0;

  // -- where it is primary --
  uint64_t not_answering = 0;         // primaries that may not answer at this moment
  uint64_t learners_taught = 0;       // elsewhere, that get image and records from here
  uint64_t unreplicated_records = 0;  // written, and not held by all that are waited for
  uint64_t unreplicated_bytes = 0;    // theirs, as they travel; what an image covers does not count
  uint64_t pending_acks = 0;          // marks that wait for them, or for the right to answer
  absl::Duration lease;               // the longest in use; zero: there are no followers

  uint64_t log_bytes = 0;  // of records kept for other members, at primaries and followers
  SegmentHost::Events events;

  // -- on disk --
  uint64_t disk_log_bytes = 0;   // records behind the last bases
  uint64_t disk_bases = 0;       // written since the start
  uint64_t disk_incomplete = 0;  // segments that are held, and could not be gone on from by the disk alone
  uint64_t disk_stalled = 0;     // segments for which somebody waits for the disk in vain

  ReplicationState& operator+=(const ReplicationState& other);
};

// The state of one segment. REQUIRES: on its executor.
ReplicationState ReplicationOf(const SegmentHost& host);

}  // namespace paceline::shard
