#pragma once

#include <cstdint>
#include <string>

namespace paceline::bench {

// The counting table: integers are added to random ones of its keys, and f32 is exact with these.
inline constexpr char kSoakJob[] = "soak";
inline constexpr char kCountsTable[] = "counts";
inline constexpr uint64_t kCountsKeys = 4096;

struct SoakWorkerOptions {
  std::string coordinator;
  std::string journal;  // made anew for each session: NAME.0, NAME.1 …
  std::string record;
  uint32_t workers = 1;  // that start together
  double rate = 200;     // pushes a second
  uint64_t seed = 1;
  std::string model = "ssp";  // bsp, ssp or essp (staleness 2), ssp:auto or asp: of the counting table
};

// A worker process of the soak: adds, reads, ticks, until it is told to end (SIGTERM); then finishes. The
// exit code: 1 if an operation failed that should not have.
int RunSoakWorker(const SoakWorkerOptions& options);

}  // namespace paceline::bench
