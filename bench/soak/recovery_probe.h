#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "paceline/client.h"

namespace paceline::bench {

// Measures how long pushes to some segments take: one to each, made at once.
class RecoveryProbe {
 public:
  // `table`'s id is asked of the coordinator at that address.
  static absl::StatusOr<std::unique_ptr<RecoveryProbe>> Open(const std::string& coordinator, int ring_bits,
                                                             const std::string& record);

  // Pushes one row to each of `segments`, and returns how long it took from `since` until the last of them
  // was acknowledged.
  absl::StatusOr<absl::Duration> Measure(const std::vector<SegmentId>& segments, absl::Time since);

 private:
  RecoveryProbe(std::unique_ptr<Client> client, Table table)
      : client_(std::move(client)), table_(std::move(table)) {}

  std::unique_ptr<Client> client_;
  Table table_;
  std::vector<uint64_t> keys_;  // one of each segment
};

}  // namespace paceline::bench
