#pragma once

#include <algorithm>
#include <cstdint>

namespace paceline::sdk {

// Decides whether keeping the rows of one table pays. A row that is looked up, put and touched by pushes, and
// then not read again while it is fit, costs more than fetching it each time. An epoch of logistic regression
// over a million features, whose batches have few of them in common, took 2.3 times as long with the cache as
// without it. So a table's rows are on trial: when less than an eighth of the lookups that could have been
// hits are hits, the cache rests for this table, and tries again after many more rows.
class CacheTrial {
 public:
  // Rows in a trial.
  static constexpr uint64_t kRows = 1 << 16;

  explicit CacheTrial(uint64_t rows = kRows) : rows_(rows) {}

  // True: the cache neither keeps rows nor looks them up.
  bool resting() const { return rest_ > 0; }

  // Counts `looked` lookups, of which `hits` found a fit row. `misses` found a row that was too old, or may
  // have been evicted; the others were first reads and do not count. True: the trial ends here, and the rows
  // may be removed.
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

  // Counts rows that were read without a lookup.
  void Passed(uint64_t rows) { rest_ -= std::min(rest_, rows); }

 private:
  static constexpr uint64_t kWorthwhile = 8;  // a trial needs one hit in so many
  static constexpr uint64_t kRest = 16;  // times the trial, and twice as long after each trial that fails
  static constexpr int kFailedMax = 7;

  uint64_t rows_;
  // Of the current trial.
  uint64_t looked_ = 0;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
  int failed_ = 0;     // failed trials in a row
  uint64_t rest_ = 0;  // rows until the next one
};

}  // namespace paceline::sdk
