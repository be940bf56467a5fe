#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

// Which keys of a stream carry most weight, in memory for `counters` keys: Metwally, Agrawal, El Abbadi,
// "Efficient Computation of Frequent and Top-k Elements in Data Streams" (ICDT 2005). A key that is not
// counted takes the place of the lightest one, and its weight along with its own.
//
// Of the weights added since, each decayed by every Scale after it:
//   - a counted key has between `weight - error` and `weight`;
//   - a key that is not counted has at most the lightest weight, which is at most total() / counters.
// So whatever has more than total() / counters is counted.
//
// Add: O(counters), no allocation once all counters are in use. Not thread-safe.
class SpaceSaving {
 public:
  struct Key {
    uint32_t table = 0;
    uint64_t key = 0;

    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Counter {
    Key key;
    double weight = 0;
    double error = 0;
  };

  // REQUIRES: counters > 0.
  explicit SpaceSaving(size_t counters) : counters_max_(counters) { counters_.reserve(counters); }

  void Add(Key key, double weight);
  // All that was added so far weighs `factor` times as much from now on. REQUIRES: 0 <= factor <= 1.
  void Scale(double factor);

  double total() const { return total_; }
  // The heaviest first; of equal ones the smaller key.
  std::vector<Counter> Heaviest(size_t count) const;

 private:
  const size_t counters_max_;
  std::vector<Counter> counters_;  // in no order
  double total_ = 0;
};

}  // namespace paceline
