#pragma once

#include <algorithm>
#include <cstdint>

namespace paceline::sdk {

// Whether it pays to keep the rows of one table. A row that is looked up, put and touched by pushes and then
// not read again while it is fit costs more than to fetch it each time: an epoch of logistic regression over
// a million features, whose batches have few of them in common, took 2.3 times as long with the cache as
// without it. So a table's rows are on trial: when less than an eighth of those that could have been hits are
// some, the cache rests for this table, and after many more rows tries again.
class CacheTrial {
 public:
  // Rows that decide a trial.
  static constexpr uint64_t kRows = 1 << 16;

  explicit CacheTrial(uint64_t rows = kRows) : rows_(rows) {}

  // True: rows are not kept, nor looked up.
  bool resting() const { return rest_ > 0; }

  // `looked` rows were looked up, of which `hits` were fit. `misses` were here and too old, or may have been
  // evicted; of the others, which were never read before, nothing follows. True: the trial ends here, and the
  // rows may go.
  bool Looked(uint64_t looked, uint64_t hits, uint64_t misses) {
    looked_ += looked;
    hits_ += hits;
    misses_ += misses;
    if (hits_ + misses_ < rows_) return false;
    const bool pays = hits_ >= (hits_ + misses_) / kWorthwhile;
    failed_ = pays ? 0 : std::min(failed_ + 1, kFailedMax);
    rest_ = pays ? 0 : looked_ * kRest << (failed_ - 1);
    looked_ = hits_ = misses_ = 0;
    return !pays;
  }

  // So many rows were read without a look.
  void Passed(uint64_t rows) { rest_ -= std::min(rest_, rows); }

 private:
  static constexpr uint64_t kWorthwhile = 8;  // one hit in so many
  static constexpr uint64_t kRest = 16;       // times the trial, and twice as long after each that fails
  static constexpr int kFailedMax = 7;

  uint64_t rows_;
  // Of the trial at hand.
  uint64_t looked_ = 0;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
  int failed_ = 0;     // trials in a row
  uint64_t rest_ = 0;  // rows until the next one
};

}  // namespace paceline::sdk
