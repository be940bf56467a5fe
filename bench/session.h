#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/result.h"
#include "bench/shard_pages.h"
#include "bench/workloads.h"
#include "libs/base/status.h"
#include "paceline/client.h"

namespace paceline::bench {

// A client of a job of its own, and what it and the shards spend.
struct Session {
  std::unique_ptr<Client> client;
  CpuMeter cpu;

  // `workers`, `unacknowledged_bytes_max`, `cache_bytes_max`: as ClientOptions.
  static absl::StatusOr<Session> Open(const Setting& setting, const std::string& workload, uint32_t workers,
                                      uint64_t unacknowledged_bytes_max = uint64_t{64} << 20,
                                      uint64_t cache_bytes_max = uint64_t{64} << 20) {
    ABSL_ASSIGN_OR_RETURN(ShardPages shards, ShardPages::Of(setting.coordinator));
    Session session;
    ABSL_ASSIGN_OR_RETURN(
        session.client,
        Client::Connect({.coordinator = setting.coordinator,
                         .job = absl::StrCat("bench-", workload, "-", absl::ToUnixNanos(absl::Now())),
                         .client_name = "paceline-bench",
                         .workers = workers,
                         .unacknowledged_bytes_max = unacknowledged_bytes_max,
                         .cache_bytes_max = cache_bytes_max,
                         .record = setting.record,
                         .socket_dir = setting.near ? setting.socket_dir : ""}));
    session.cpu = [shards = std::move(shards)] { return OwnCpuSeconds() + shards.CpuSeconds(); };
    return session;
  }
};

// Remembers the first failure of work that is measured, so that a broken run is not a fast one.
class FirstError {
 public:
  void operator()(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

// The median of how many microseconds a request takes, of so many one after the other.
inline double MedianUs(int requests, const std::function<absl::Status()>& request, FirstError& error) {
  std::vector<double> us;
  for (int i = 0; i < requests; ++i) {
    const auto start = std::chrono::steady_clock::now();
    error(request());
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    us.push_back(took.count());
  }
  return Median(std::move(us));
}

}  // namespace paceline::bench
