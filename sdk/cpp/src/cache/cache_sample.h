#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "libs/base/ids.h"
#include "libs/ring/hash.h"

namespace paceline::sdk {

// What the cache would find if it kept all rows of a table, by a sample of its keys: those whose hash says
// so, as in Waldspurger et al., "Efficient MRC construction with SHARDS" (FAST 2015). Of each it has the min
// clock as of which it was fetched, and no values. Costs one hash of each key that is read.
class CacheSample {
 public:
  // One key in `one_in`, a power of 2; at most `keys_max` keys.
  CacheSample(uint64_t one_in, uint64_t keys_max) : mask_(one_in - 1), keys_max_(keys_max) {}

  bool Samples(uint64_t key) const { return (ring::Mix64(key) & mask_) == 0; }

  // REQUIRES for all that take a key: Samples(key).
  void Fetched(uint64_t key, Clock min_clock) {
    const auto known = keys_.find(key);
    if (known != keys_.end()) {
      known->second = min_clock;
    } else if (!full()) {
      keys_.emplace(key, min_clock);
    }
  }
  // The row is not fit any more.
  void Void(uint64_t key) {
    const auto known = keys_.find(key);
    if (known != keys_.end()) known->second = std::nullopt;
  }

  enum class Found { kFit, kUnfit, kFirst };
  // A row that is not there was never read, or there was no room for it.
  Found Look(uint64_t key, Clock bound, bool exact) const {
    const auto known = keys_.find(key);
    if (known == keys_.end()) return full() ? Found::kUnfit : Found::kFirst;
    if (!known->second.has_value()) return Found::kUnfit;
    return (exact ? *known->second == bound : *known->second >= bound) ? Found::kFit : Found::kUnfit;
  }

  void Clear() { keys_ = {}; }

 private:
  bool full() const { return keys_.size() >= keys_max_; }

  uint64_t mask_;
  uint64_t keys_max_;
  absl::flat_hash_map<uint64_t, std::optional<Clock>> keys_;
};

}  // namespace paceline::sdk
