#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "libs/ring/placement.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/session/routes.h"

namespace paceline::sdk {

// The keys behind a KeyList, and the way in which they were last grouped. Thread-safe.
class ListedKeys {
 public:
  // REQUIRES: the table has the keys, which are at most kBatchRowsMax.
  ListedKeys(const ring::Placement& placement, uint32_t dim, absl::Span<const uint64_t> keys)
      : placement_(placement), dim_(dim), keys_(keys.begin(), keys.end()) {}

  // Whether they may be used where keys of this table are expected.
  bool Of(const ring::Placement& placement, uint32_t dim) const {
    return placement_ == placement && dim_ == dim;
  }
  // In the caller's order.
  absl::Span<const uint64_t> keys() const { return keys_; }

  // The batch of a pull of them, `listed`. The same until the ring's segments have another order.
  std::shared_ptr<const Batch> Grouped(const std::shared_ptr<const Routes>& routes) const;

 private:
  const ring::Placement placement_;
  const uint32_t dim_;
  const std::vector<uint64_t> keys_;
  mutable std::mutex mutex_;                      // guards what follows
  mutable std::shared_ptr<const Routes> routes_;  // by which `grouped_` is
  mutable std::shared_ptr<const Batch> grouped_;
};

}  // namespace paceline::sdk
