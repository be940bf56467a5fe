#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "sdk/cpp/src/cache/cache_costs.h"

namespace paceline::sdk {

// Decides whether keeping the rows of one table pays. A row that is looked up, kept and touched by pushes,
// and then not read again while it is fit, costs more than fetching it each time. So a table's rows are
// always on trial: the cache counts reads that could have been hits, and rests for the table when its hits
// save less than all of that costs: in the first trial, or later in kStrikes. It tries again
// after many more rows, and then with a sample first: of a few keys it notes what it would find, and keeps no
// rows (cache_sample.h). A table of which it sees nothing but first reads for long is sampled too, because
// its first rows may be gone before they are read again.
//
// A read that finds some of its rows saves what these add to a pull, and one that finds all of them saves the
// pull. To know the difference, the read after kPartialReads that were pulled in part is pulled whole.
class CacheTrial {
 public:
  // Reads in a trial that could have been hits.
  static constexpr uint64_t kRows = 1 << 12;

  enum class State {
    kWhole,   // rows are kept
    kSample,  // it is noted what would be found
    kRest,    // neither
  };

  enum class Saves {
    kTime,   // hits pay if they take less time than fetching the rows
    kBytes,  // if they are not too few, whatever they take: who opened the table wants that (Ssp::refresh)
  };

  // Without samples all rows are kept again after a rest.
  explicit CacheTrial(uint64_t rows, bool samples = true, Saves saves = Saves::kTime)
      : rows_(std::max<uint64_t>(rows, 1)), samples_(samples), saves_(saves) {}

  State state() const { return state_; }
  bool whole() const { return state_ == State::kWhole; }
  bool sampling() const { return state_ == State::kSample; }
  bool resting() const { return state_ == State::kRest; }
  // A sample has one key in so many, a power of 2: the shorter a trial, the larger its sample.
  uint64_t one_in() const { return std::bit_floor(std::clamp<uint64_t>(rows_ / 128, 2, 32)); }

  RowCosts costs;

  // Counts `looked` reads of rows, of which `hits` found a fit row or, of a sample, would have. `misses`
  // found a row that was too old, or may have been evicted; `firsts` were first reads; the others, if it is a
  // sample, were of keys that are not in it. True: the state has changed, and whatever is kept may be
  // removed.
  bool Looked(uint64_t looked, uint64_t hits, uint64_t misses, uint64_t firsts = 0) {
    now_.looked += looked;
    now_.hits += hits;
    now_.misses += misses;
    now_.firsts += firsts;
    now_.found_all += whole() && looked > 0 && hits == looked ? 1 : 0;
    partial_ += whole() && hits > 0 && hits < looked ? 1 : 0;
    const State before = state_;
    sampling() ? JudgeSample() : JudgeWhole();
    return state_ != before;
  }

  // True: let the next read find nothing, so that it is pulled whole.
  bool TakeWholePull() {
    if (!samples_ || !whole() || !costs.look.measured() || partial_ < kPartialReads) return false;
    partial_ = 0;
    return true;
  }

  // A pull of `rows` rows took so long. Where only pulls take time, as in simulation, they make no line.
  void Pulled(absl::Duration took, uint64_t rows) {
    costs.fetch.Add(took, rows);
    if (!costs.look.measured()) return;
    const absl::Duration keeping =
        whole() ? absl::Nanoseconds(costs.keep.ns() * static_cast<double>(rows)) : absl::ZeroDuration();
    costs.pull.Add(std::max(took - keeping, took / 4), rows);
  }

  // Counts rows that were pushed.
  void Pushed(uint64_t rows) { now_.pushed += rows; }

  // Counts rows that were read while the cache rests.
  void Passed(uint64_t rows) {
    rest_ -= std::min(rest_, rows);
    if (rest_ == 0) Begin(samples_ ? State::kSample : State::kWhole);
  }

 private:
  static constexpr uint64_t kSampleShare = 4;  // a sample may decide after a quarter of the reads
  static constexpr uint64_t kSampleLooks = 4096;
  static constexpr uint64_t kFirstLooks = 16;
  static constexpr uint64_t kRest = 16;  // times the trial, and twice as long after each trial that fails
  static constexpr int kFailedMax = 7;
  // A hit is credited with three quarters: the cache also costs what is not measured.
  static constexpr double kSaved = 0.75;
  // While a cache fills, the share of reads that are not first ones grows by this factor from trial to trial.
  static constexpr double kFills = 1.02;
  // Trials that do not pay before one that does as it is: a cache that fills slowly may seem not to.
  static constexpr int kStrikes = 3;
  static constexpr uint64_t kPartialReads = 16;
  // To save bytes, of so many reads that could have been hits one must be.
  static constexpr uint64_t kFewestHits = 8;

  // While a cache fills, hits become more: each is credited as if its read found all its rows, and first
  // reads are free, as later hits may pay for them. After that both are taken as they are.
  void JudgeWhole() {
    if (now_.hits + now_.misses >= rows_) {
      const bool fills = !proven_ || Fills();
      const bool pays = fills ? Pays(/*firsts=*/0) : PaysAsItIs();
      if (pays && !fills) strikes_ = failed_ = 0;
      pays || (proven_ && ++strikes_ < kStrikes) ? Keep() : Rest();
    } else if (samples_ && !proven_ && now_.looked >= kFirstLooks * rows_) {
      Begin(State::kSample);
    }
  }
  bool Fills() {
    const double share =
        static_cast<double>(now_.firsts) / static_cast<double>(std::max<uint64_t>(now_.looked, 1));
    const double before = std::exchange(first_share_, share);
    return 1 - share > (1 - before) * kFills;
  }
  // Rows that are read again soon are seen first. So a table pays only if its hits pay for the first reads
  // too. If they do but for these, the sample goes on: as it does, first reads become fewer.
  void JudgeSample() {
    const uint64_t share = std::max<uint64_t>(rows_ / kSampleShare, 1);
    if (now_.looked >= kSampleLooks * rows_) return Rest();
    if (now_.hits + now_.misses < share * judge_at_) return;
    if (Pays(now_.firsts)) return Keep();
    if (judge_at_ == kSampleShare || !Pays(/*firsts=*/0)) return Rest();
    ++judge_at_;
  }

  bool Pays(uint64_t first_reads) const {
    if (saves_ == Saves::kBytes) return now_.hits * kFewestHits >= now_.hits + now_.misses;
    return static_cast<double>(now_.hits) * costs.fetch.ns() * kSaved >= Spent(first_reads);
  }
  bool PaysAsItIs() const {
    if (saves_ == Saves::kBytes) return Pays(now_.firsts);
    const std::optional<PullCost::Line> line = costs.pull.line();
    if (!line.has_value()) return Pays(now_.firsts);
    const double saved =
        static_cast<double>(now_.hits) * line->row_ns + static_cast<double>(now_.found_all) * line->base_ns;
    return saved * kSaved >= Spent(now_.firsts);
  }
  double Spent(uint64_t first_reads) const {
    const auto hits = static_cast<double>(now_.hits);
    const auto kept = static_cast<double>(now_.misses + first_reads);
    const double pushes =
        static_cast<double>(now_.pushed) / static_cast<double>(std::max<uint64_t>(now_.looked, 1));
    return (hits + kept) * (costs.look.ns() + pushes * costs.push.ns()) + kept * costs.keep.ns();
  }
  void Keep() {
    proven_ = true;
    Begin(State::kWhole);
  }
  void Rest() {
    failed_ = std::min(failed_ + 1, kFailedMax);
    rest_ = now_.looked * kRest << (failed_ - 1);
    proven_ = false;
    first_share_ = 1;
    strikes_ = 0;
    Begin(State::kRest);
  }
  void Begin(State state) {
    state_ = state;
    now_ = {};
    judge_at_ = 1;
  }

  uint64_t rows_;
  bool samples_;
  Saves saves_;
  State state_ = State::kWhole;
  bool proven_ = false;     // it paid at the end of the last trial
  double first_share_ = 1;  // of the reads of the last whole trial
  int strikes_ = 0;
  struct Counts {
    uint64_t looked = 0;
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t firsts = 0;
    uint64_t pushed = 0;
    uint64_t found_all = 0;  // batches that found all their rows
  };
  Counts now_;             // of the current trial
  uint64_t judge_at_ = 1;  // shares of a sample
  uint64_t partial_ = 0;   // reads that found some of their rows, since one was pulled whole
  int failed_ = 0;         // failed trials in a row
  uint64_t rest_ = 0;      // rows until the next one
};

}  // namespace paceline::sdk
