#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "libs/engine/engine.h"

namespace paceline::shard {

// Where a shard's segments are written to, behind their memory. The process has a thread for it
// (disk_writer.h); the simulator decides itself when a batch has arrived. Thread-safe.
class Disk {
 public:
  virtual ~Disk() = default;

  // Writes the batch, after all that were given before. Returns at once. What cannot be written is tried
  // again until it can be; meanwhile it is pending. `synced`, if there is one, is called from any thread once
  // this and all before it are safe from the loss of power; never, if the process ends before.
  using Synced = absl::AnyInvocable<void()>;
  virtual void Write(engine::Batch batch, Synced synced = nullptr) = 0;

  // Bytes that were given and are not written yet, about.
  virtual uint64_t pending_bytes() const = 0;

  // What was done so far.
  struct Done {
    uint64_t bytes = 0;  // of batches, written
    uint64_t syncs = 0;
  };
  virtual Done done() const { return {}; }

  // How much was written to the disk, ever (engine::Engine::position), that is safe from the loss of power.
  virtual uint64_t synced_position() const { return 0; }
  // How it stands now.
  struct Health {
    enum class State {
      kWorks,
      kSlow,   // a step took longer than kDiskStepSlow, or does
      kFull,   // for kDiskFails nothing could be written for want of space
      kFails,  // … or written or synced at all; or a step has not come back for kDiskHangs
    };
    State state = State::kWorks;
    std::string why = "";
    absl::Duration lasts = absl::ZeroDuration();
    // Nobody is to wait for it.
    bool bad() const { return state == State::kFull || state == State::kFails; }
  };
  virtual Health health() const { return {}; }
};

// What fails for so long is more than a moment's trouble. As long as a replica may hold acknowledgements
// back.
inline constexpr absl::Duration kDiskFails = absl::Seconds(1);
inline constexpr absl::Duration kDiskHangs = absl::Seconds(10);
inline constexpr absl::Duration kDiskStepSlow = absl::Seconds(1);

// Beyond this much pending no further pages are copied: they can wait, records cannot.
inline constexpr uint64_t kDiskBusy = uint64_t{8} << 20;
// Beyond this frames stay under way until it is less: clients push at the disk's pace.
inline constexpr uint64_t kDiskSlow = uint64_t{16} << 20;
// Beyond this parts are refused UNAVAILABLE: the disk is full, fails, or is too slow.
inline constexpr uint64_t kDiskBehind = uint64_t{64} << 20;
// Beyond this a segment is no longer written: what the disk has of it is given up, and it is written anew
// later.
inline constexpr uint64_t kDiskLost = uint64_t{128} << 20;

}  // namespace paceline::shard
