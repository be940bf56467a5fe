#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "paceline/client.h"

namespace paceline::bench {

// Workers of this process, a client and a thread each, that pull some rows, push to them and tick,
// repeatedly. Reports the longest wait of any of them: the cost of a fault or a hand-over for training.
class Load {
 public:
  // `clocks_per_second` of each worker.
  static absl::StatusOr<std::unique_ptr<Load>> Start(const std::string& coordinator, int workers,
                                                     double clocks_per_second);
  ~Load();

  // The longest that a clock of any worker took which ended since the last call, or has not ended yet.
  absl::Duration TakeLongest() ABSL_LOCKS_EXCLUDED(mutex_);
  // The workers finish. The first error that one met.
  absl::Status Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Worker {
    std::unique_ptr<Client> client;
    std::unique_ptr<Table> table;
    absl::Time began = absl::InfiniteFuture();  // the clock under way
    absl::Duration longest;
    absl::Status status;
  };

  Load(int workers, double clocks_per_second);
  absl::Status Connect(const std::string& coordinator, Worker& worker);
  absl::Status Clock(Worker& worker, uint64_t seed);
  void Run(Worker& worker, uint64_t seed);
  bool Stopping() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration every_;
  Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Worker> workers_;  // began, longest and status are guarded by mutex_
  std::vector<std::jthread> threads_;
};

}  // namespace paceline::bench
