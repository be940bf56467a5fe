#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/types/span.h"

namespace paceline::coordinator {

// Chooses the staleness bound of one table from what its readers wait (docs/consistency.md, "A bound that
// follows the waiting"). The *share* of a worker is how much of its time it has waited for other workers, for
// rows of the table; that of the job is its median worker's.
//
// - **Up:** from a share of 5 % the bound doubles, period after period. The climb ends when waiting is less,
//   or at the largest bound. It also ends when a step has saved less than a tenth and the others wait for the
//   same worker as before: a steady straggler, whom no bound makes faster. Then the bound halves, from where
//   the climb began, while the others wait no longer.
// - **Settle:** then it takes the smallest tried bound whose share was as small as with any other, but for a
//   tenth or 4 % of the time, which staler values would cost as well. If they still wait as much there, the
//   next climb is 8 periods away, then 16, 32, 64.
// - **Down:** after eight calm periods, each with a share below 1 %, it takes a quarter away, at least 1. If
//   the share is 2.5 % then, the quarter comes back, and the next try is twice as far away.
//
// Between 1 % and 5 % nothing changes. A period ends when each worker has told of 300 ms and of four clocks
// since it began; the very first one takes half as long, for a job waits meanwhile. The first period after a
// change does not count, and takes at least as many clocks as the bound has moved by: so long a larger bound
// saves waiting even where it saves none in the end. Plain value.
class BoundPolicy {
 public:
  // What one worker has told, since it connected.
  struct Waits {
    uint64_t session = 0;
    uint64_t clock = 0;
    uint64_t all_us = 0;                       // of its threads
    uint64_t staleness_us = 0;                 // of that, for rows of the table
    std::map<uint32_t, uint64_t> for_us = {};  // staleness waits for each worker, by rank; of all tables
  };
  // The bound that was agreed last, and the clock of reads from which on it counts.
  struct InForce {
    uint32_t bound = 1;
    uint64_t from = 0;
  };

  // The bound to agree on; nullopt: it stays. Asks again until it is in force. Call it whenever workers may
  // have told something, and not while a change is being agreed. `max`: at least 1.
  std::optional<uint32_t> Next(InForce now, uint32_t max, absl::Span<const Waits> workers);

 private:
  enum class Doing { kHold, kClimb, kDescend, kTryLower };

  struct Period {
    double share = 0;              // of the median worker
    std::optional<uint32_t> lead;  // for whom most of the waits are, if it is one worker
  };

  // What each worker has told of before a period is over.
  struct Length {
    uint64_t us = 0;
    uint64_t clocks = 0;
  };
  static constexpr Length kPeriod = {.us = 300'000, .clocks = 4};
  static constexpr Length kFirstPeriod = {.us = 150'000, .clocks = 2};

  bool IsOver(absl::Span<const Waits> workers) const;
  Period Ended(absl::Span<const Waits> workers) const;
  void Begin(absl::Span<const Waits> workers);
  void Restart();
  // The bound to choose after a period at `bound`.
  uint32_t Judge(uint32_t bound, uint32_t max, const Period& period);
  uint32_t Hold(uint32_t bound, uint32_t max, const Period& period);
  uint32_t Climb(uint32_t bound, uint32_t max, const Period& period);
  uint32_t Descend(uint32_t bound, const Period& period);
  uint32_t Settle();
  uint32_t TryLower(uint32_t bound, uint32_t max, const Period& period);

  // Periods without a try, twice as many after each that failed.
  struct Pause {
    uint32_t left = 0;
    uint32_t next = 8;

    void Failed();
    void Worked() { *this = Pause(); }
    void Passed() { left -= left > 0 ? 1 : 0; }
  };

  std::optional<uint32_t> bound_;     // in force at the last call
  std::optional<uint32_t> proposed_;  // not in force yet
  std::map<uint64_t, Waits> began_;   // by session: the totals at the beginning of the period
  Length length_ = kFirstPeriod;      // of this period
  bool settling_ = false;             // this period does not count
  Doing doing_ = Doing::kHold;
  std::map<uint32_t, Period> tried_;  // in this climb or descent, by bound
  uint32_t before_ = 0;               // the bound before the last step
  uint32_t calm_ = 0;                 // periods
  Pause up_;
  Pause down_;
};

}  // namespace paceline::coordinator
