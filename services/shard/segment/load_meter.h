#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "libs/base/space_saving.h"
#include "libs/log/requests.h"
#include "libs/world/clock.h"
#include "libs/world/random.h"
#include "paceline/v1/moves.pb.h"

namespace paceline::shard {

// What clients ask of one segment at its primary: rows, bytes and executor time a second, and the keys that
// are asked for most. Means that forget: what is older by kWindow weighs 1/e. A meter that has just begun
// tells the mean since then.
//
// Cost: a part adds a few numbers. Of the rows one in kSampled, at random, goes to the sketch of hot keys,
// and of the calls one in kTimed is timed by two looks at the clock. No allocation once the sketch is full,
// no lock: only tasks of the segment's executor touch it.
class LoadMeter {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(5);
  static constexpr uint32_t kSampled = 256;
  static constexpr uint32_t kTimed = 16;
  static constexpr size_t kCounters = 16;  // of the sketch
  static constexpr size_t kKeysTold = 4;

  // `seed`: which rows are sampled follows from it. `clock` must outlive this.
  LoadMeter(uint64_t seed, const world::Clock& clock);

  // A part that was applied or staged; a read that is served now or later. One that asks for changes counts
  // as one row: how many it gets is not known yet.
  void Pushed(const log::Update& update);
  void Read(const log::Read& read);
  // Around each call of the segment: since when it is timed; nullopt: it is not.
  using Call = std::optional<absl::Time>;
  Call Begin() { return --calls_to_timed_ > 0 ? std::nullopt : BeginTimed(); }
  void End(Call call) {
    if (call.has_value()) busy_ += kTimed * (clock_.Now() - *call);
  }

  // Its report now, without what others know: the segment's number and memory. Called about once a second.
  v1::SegmentLoad Report();

 private:
  Call BeginTimed();
  void Sample(TableId table, log::KeyForm form, absl::string_view keys, uint64_t rows);
  uint64_t Gap(uint32_t mean) { return 1 + world::Uniform(random_, 2 * uint64_t{mean} - 1); }
  void Fold();

  struct Rates {
    double pushed = 0;
    double read = 0;
    double bytes = 0;
    double busy = 0;  // seconds of an executor
  };

  const world::Clock& clock_;
  world::SplitMix64 random_;
  uint64_t rows_to_sample_;
  uint64_t calls_to_timed_;
  // Since folded_at_:
  uint64_t pushed_ = 0;
  uint64_t read_ = 0;
  uint64_t bytes_ = 0;
  absl::Duration busy_;
  absl::Time folded_at_;
  Rates rates_;        // a second, times weight_
  double weight_ = 0;  // of all that was folded; 1: it began long ago
  SpaceSaving keys_{kCounters};
};

}  // namespace paceline::shard
