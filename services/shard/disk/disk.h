#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "libs/engine/engine.h"

namespace paceline::shard {

// A shard writes its segments here, behind their memory. The process has a thread for it (disk_writer.h); the
// simulator decides when a batch arrives. Thread-safe.
class Disk {
 public:
  virtual ~Disk() = default;

  // Writes the batch, after all earlier ones. Returns at once. Tries again until the batch can be written;
  // until then it is pending. Calls `synced`, if there is one, from any thread once this batch and all before
  // it are safe from the loss of power; never, if the process ends before.
  using Synced = absl::AnyInvocable<void()>;
  virtual void Write(engine::Batch batch, Synced synced = nullptr) = 0;

  // About how many bytes wait to be written.
  virtual uint64_t pending_bytes() const = 0;

  // The disk's work so far.
  struct Done {
    uint64_t bytes = 0;  // of batches, written
    uint64_t syncs = 0;
  };
  virtual Done done() const { return {}; }

  // Memory that the engine holds, as of lately.
  virtual uint64_t engine_bytes() const { return 0; }

  // The engine's position (engine::Engine::position) up to which all is safe from the loss of power.
  virtual uint64_t synced_position() const { return 0; }
  // The state of the disk now.
  struct Health {
    enum class State {
      kWorks,
      kSlow,   // a step took longer than kDiskStepSlow, or does
      kFull,   // for kDiskFails nothing could be written for want of space
      kFails,  // the same for any other cause; or a step has not come back for kDiskHangs
    };
    State state = State::kWorks;
    std::string why = "";
    absl::Duration lasts = absl::ZeroDuration();
    // Nobody should wait for it.
    bool bad() const { return state == State::kFull || state == State::kFails; }
  };
  virtual Health health() const { return {}; }
};

// A disk that fails for so long has more than a moment's trouble. A replica may hold acknowledgements back
// for as long.
inline constexpr absl::Duration kDiskFails = absl::Seconds(1);
inline constexpr absl::Duration kDiskHangs = absl::Seconds(10);
inline constexpr absl::Duration kDiskStepSlow = absl::Seconds(1);

// Beyond this much pending no further pages are copied: they can wait, records cannot.
inline constexpr uint64_t kDiskBusy = uint64_t{8} << 20;
// Beyond this clients are granted nothing anew until it is less: they push at the disk's pace.
inline constexpr uint64_t kDiskSlow = uint64_t{16} << 20;
// Beyond this the shard refuses parts UNAVAILABLE if the disk is full or fails.
inline constexpr uint64_t kDiskBehind = uint64_t{64} << 20;
// Beyond this push streams are not read while the disk works. Clients that send no more than they were
// granted get so far only if they are very many.
inline constexpr uint64_t kDiskFarBehind = uint64_t{96} << 20;
// Beyond this the shard stops writing a segment whose disk is full or fails: it gives up what the disk has of
// it, and writes it anew later.
inline constexpr uint64_t kDiskLost = uint64_t{128} << 20;
// The same while the disk works. The folds of a clock, which no grant holds back, come to no more.
inline constexpr uint64_t kDiskLostAtWork = uint64_t{1} << 30;

}  // namespace paceline::shard
