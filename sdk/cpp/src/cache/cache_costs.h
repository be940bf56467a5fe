#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace paceline::sdk {

// The cost of one row, as a moving average of what was measured; the stated one until then. A measurement
// counts as four times the average at most, since a thread may lose its processor while it measures.
class RowCost {
 public:
  // REQUIRES: 0 < least <= ns <= most.
  constexpr RowCost(double ns, double least, double most) : ns_(ns), least_(least), most_(most) {}

  double ns() const { return ns_; }
  // False: it is as stated, since nothing was measured yet, or time is simulated.
  bool measured() const { return measured_; }
  // `rows` rows took so long. What took no time, as where time is simulated, says nothing.
  void Add(absl::Duration took, uint64_t rows) {
    if (rows == 0 || took <= absl::ZeroDuration()) return;
    measured_ = true;
    const double sample = absl::ToDoubleNanoseconds(took) / static_cast<double>(rows);
    ns_ += (std::clamp(sample, ns_ / kJump, ns_ * kJump) - ns_) * kWeight;
    ns_ = std::clamp(ns_, least_, most_);
  }

 private:
  static constexpr double kJump = 4;
  static constexpr double kWeight = 1.0 / 8;
  double ns_;
  double least_;
  double most_;
  bool measured_ = false;
};

// What a pull takes: a base, whatever its size, and so much for each row. A line through what was measured,
// by least squares over a moving window. Of reads that find most of their rows a pull brings few, so its time
// by its rows would be nearly all base.
class PullCost {
 public:
  // A pull of `rows` rows took so long.
  void Add(absl::Duration took, uint64_t rows) {
    if (rows == 0 || took <= absl::ZeroDuration()) return;
    const auto n = static_cast<double>(rows);
    double t = absl::ToDoubleNanoseconds(took);
    // A thread may lose its processor while it measures.
    if (const std::optional<Line> known = line(); known.has_value()) t = std::min(t, kJump * known->at(n));
    weight_ = weight_ == 0 ? 1 : std::max(weight_ / (1 + weight_), kLeastWeight);
    const double off_rows = n - rows_;
    const double off_time = t - time_;
    rows_ += weight_ * off_rows;
    time_ += weight_ * off_time;
    variance_ = (1 - weight_) * (variance_ + weight_ * off_rows * off_rows);
    covariance_ = (1 - weight_) * (covariance_ + weight_ * off_rows * off_time);
  }

  struct Line {
    double base_ns = 0;
    double row_ns = 0;
    double at(double rows) const { return base_ns + row_ns * rows; }
  };
  // nullopt: pulls were too few, or nearly all of one size, which shows no line.
  std::optional<Line> line() const {
    if (weight_ == 0 || weight_ > 1.0 / 8 || variance_ < rows_ * rows_ / 64) return std::nullopt;
    const double row_ns = std::max(covariance_ / variance_, 0.0);
    return Line{.base_ns = std::max(time_ - row_ns * rows_, 0.0), .row_ns = row_ns};
  }

 private:
  static constexpr double kJump = 4;
  static constexpr double kLeastWeight = 1.0 / 128;
  double weight_ = 0;  // of the newest measurement; 0: there is none
  double rows_ = 0;    // means, and how they vary together
  double time_ = 0;
  double variance_ = 0;
  double covariance_ = 0;
};

// What the rows of one table cost with the cache, and without it.
struct RowCosts {
  RowCost look{20, 2, 500};        // to look a row up, and copy it if it is there
  RowCost keep{40, 5, 1000};       // to keep a row that was fetched
  RowCost push{25, 2, 500};        // to look for a row that is pushed, and to change it
  RowCost fetch{400, 50, 10'000};  // to fetch a row: a pull's time by its rows, and by the pulls under way
  PullCost pull;                   // the same, where pulls of several sizes were measured
};

}  // namespace paceline::sdk
