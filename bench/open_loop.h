#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/world/random.h"
#include "paceline/client.h"

// Pulls of random rows that come at a given rate, whatever became of those before. A closed loop would stop
// asking just when the cluster is slow, and so would miss what it measures.
namespace paceline::bench {

// The rows that are asked for.
struct Load {
  static constexpr uint32_t kDim = 16;
  static constexpr size_t kBatch = 500;

  Table table;
  uint64_t rows = 0;
  float step = 0.5f;                  // what a push adds to each value, before the table's rule
  std::vector<uint32_t> pushes = {};  // how often each row was pushed; empty: nobody counts
  world::SplitMix64 random{11};

  std::vector<uint64_t> Keys();
  Future<void> Push();
};

// Pushes every row once. Returns when all are acknowledged.
absl::Status Fill(Client& client, Load& load);

// Requests a second with 32 outstanding, of which every tenth is a push.
absl::StatusOr<double> Capacity(Load& load, double seconds);

// Runs `per_second` requests, of which every tenth is a push, until `stop`; returns the time of each pull in
// ms, from when it was due. An error of any request is the error of all. Thread-compatible; for one run.
class OpenLoop {
 public:
  absl::StatusOr<std::vector<double>> Run(Load& load, double per_second, const std::function<bool()>& stop);
  // Rows pushed by Run.
  uint64_t rows_pushed() const { return rows_pushed_; }

 private:
  void Ended(const absl::Status& status, std::optional<double> ms) ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t rows_pushed_ = 0;
  Mutex mutex_;
  CondVar changed_;
  uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> ms_ ABSL_GUARDED_BY(mutex_);
};

// The smallest of `values` that is at least as large as `of` of them; 0: there are none.
double Percentile(std::vector<double> values, double of);

}  // namespace paceline::bench
