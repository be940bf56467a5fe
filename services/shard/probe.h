#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "libs/filter/filter.h"
#include "libs/history/event.h"
#include "libs/log/primary.h"
#include "libs/ring/segment_map.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::shard {

// A shard reports its work here as it happens. Implementations are thread-safe and cheap: the shard calls
// them for every frame. The default does nothing, for simulation and tests.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void PushFrame(uint64_t /*bytes*/, uint64_t /*parts*/) {}
  // The shard knows which member it is.
  virtual void Identified(ring::Member /*self*/, uint64_t /*cluster*/) {}

  // These are called by the segment's owner.
  // The primary has appended and applied a record in `epoch`.
  virtual void Logged(const log::Segment& /*segment*/, Epoch /*epoch*/, const log::Record& /*record*/) {}
  // The same at a replica or learner.
  virtual void Followed(const log::Segment& /*segment*/, const log::Record& /*record*/) {}
  // An image has replaced the segment's state, or it began with the state of its disk.
  virtual void Installed(const log::Segment& /*segment*/) {}
  // The primary of `epoch` has answered a read, or acknowledged parts.
  virtual void Answered(const log::Segment& /*segment*/, Epoch /*epoch*/) {}
  virtual void RowsPushed(uint64_t /*rows*/) {}
  // The parts of a frame are applied or refused: time from its arrival until an executor took up the last
  // one, and until the end.
  virtual void PushServed(absl::Duration /*queued*/, absl::Duration /*total*/) {}
  // One pull answered: rows and bytes of its values, time from its arrival to its reply, and how much of that
  // it was parked for the min clock, and for other members of its segments.
  virtual void PullServed(uint64_t /*rows*/, uint64_t /*bytes*/, absl::Duration /*total*/,
                          absl::Duration /*staleness*/, absl::Duration /*replication*/) {}
  // A read asks an aggregated table (kBsp), with a min clock (kSsp), or without one (kAsp). Reads of the
  // first s clocks of SSP(s) ask for none and count as kAsp.
  enum class Model { kBsp, kSsp, kAsp };
  // `rows` were read by a worker that was `staleness` clocks ahead of their min clock.
  virtual void StalenessObserved(Model /*model*/, uint64_t /*staleness*/, uint64_t /*rows*/) {}
  // A subscriber's set was updated: rows and bytes of its values. Not `known`: its set is gone, as what has
  // changed is not known, or too much.
  virtual void SetUpdated(uint64_t /*rows*/, uint64_t /*bytes*/, bool /*known*/) {}
  virtual void Refused(v1::Refusal::Reason /*reason*/) {}
  // A filter of the link has coded or decoded keys or values of pushes, or of pulls: so many bytes on the
  // shard's side, and on the link's.
  enum class Traffic { kPush, kPull };
  virtual void Filtered(Traffic /*traffic*/, filter::Filter /*filter*/, uint64_t /*plain*/,
                        uint64_t /*coded*/, absl::Duration /*took*/) {}
  // Frames of Replicate streams: to followers elsewhere, and from primaries elsewhere.
  struct ReplicateFrame {
    uint64_t bytes = 0;
    uint64_t records = 0;
    uint64_t pages = 0;
  };
  static ReplicateFrame Of(const v1::ReplicateRequest& head, uint64_t bytes) {
    ReplicateFrame frame{.bytes = bytes};
    for (const v1::ReplicateRequest::Segment& segment : head.segments()) {
      frame.records += segment.records();
      frame.pages += static_cast<uint64_t>(segment.pages_size());
    }
    return frame;
  }
  virtual void ReplicateSent(const ReplicateFrame& /*frame*/) {}
  virtual void ReplicateReceived(const ReplicateFrame& /*frame*/) {}
  // `kind`: push, pull, subscribe, replicate.
  virtual void StreamOpened(const std::string& /*kind*/) {}
  virtual void StreamClosed(const std::string& /*kind*/) {}
};

}  // namespace paceline::shard
