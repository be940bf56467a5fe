#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "libs/log/primary.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::shard {

// What a shard tells about its work as it happens. Implementations are thread-safe and cheap: these are
// called for every frame. The default does nothing, for simulation and tests.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void PushFrame(uint64_t /*bytes*/, uint64_t /*parts*/) {}
  // A record was appended and applied; called by the segment's owner.
  virtual void Logged(const log::Segment& /*segment*/, Epoch /*epoch*/, const log::Record& /*record*/) {}
  virtual void RowsPushed(uint64_t /*rows*/) {}
  // One pull answered: rows and bytes of its values, time from its arrival to its reply, and how much of that
  // it was parked for the min clock.
  virtual void PullServed(uint64_t /*rows*/, uint64_t /*bytes*/, absl::Duration /*total*/,
                          absl::Duration /*staleness*/) {}
  // `rows` were read by a worker that was `staleness` clocks ahead of their min clock.
  virtual void StalenessObserved(uint64_t /*staleness*/, uint64_t /*rows*/) {}
  virtual void Refused(v1::Refusal::Reason /*reason*/) {}
  virtual void StreamOpened(const std::string& /*kind*/) {}
  virtual void StreamClosed(const std::string& /*kind*/) {}
};

}  // namespace paceline::shard
