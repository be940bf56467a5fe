// A worker whose time goes where its test wants: it sleeps, which stands for computing, reads rows, and
// pushes to them. Runs until SIGTERM, and prints where its time went as JSON: the client's own account, and
// the least and the most that it may come to.
//
//   explain_worker JOB RANK WORKERS STALENESS COMPUTE_MS SOMETIMES_MS: "auto:8" is a staleness that follows,
//   up to 8 explain_worker --load JOB ROWS: updates that take long of so many rows, as many as are let
//   through
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/world/random.h"
#include "libs/world/real_clock.h"
#include "nlohmann/json.hpp"
#include "paceline/client.h"

namespace {

volatile std::sig_atomic_t stop = 0;

struct Options {
  std::string job;
  uint32_t rank = 0;
  uint32_t workers = 1;
  uint64_t staleness = 0;
  bool adaptive = false;
  int64_t compute_ms = 0;
  int64_t sometimes_ms = 0;  // instead, in each eighth clock, drawn by each worker for itself
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "explain_worker: %s\n", status.ToString().c_str());
  return 1;
}

// What the client's account of this thread may come to. It begins while the client connects, and ends with
// the last call that waited: one that found its result there already is not known to it.
class Passed {
 public:
  void Connected(const paceline::Stats& stats) {
    connected_ = paceline::world::MonotonicNow();
    all_ = stats.time.all;
  }
  // Calls that began at `from` or later are over.
  void Called(absl::Time from, const paceline::Stats& stats) {
    if (stats.time.all == all_) return;
    all_ = stats.time.all;
    least_ = from - connected_;
    most_ = paceline::world::MonotonicNow() - before_;
  }
  double least() const { return absl::ToDoubleSeconds(least_); }
  double most() const { return absl::ToDoubleSeconds(most_); }

 private:
  const absl::Time before_ = paceline::world::MonotonicNow();
  absl::Time connected_;
  absl::Duration least_;
  absl::Duration most_;
  double all_ = 0;
};

nlohmann::json JsonOf(const paceline::Stats& stats, const Passed& passed) {
  const paceline::BlockedSeconds& blocked = stats.time.blocked;
  return {{"least", passed.least()},       {"all", stats.time.all},      {"most", passed.most()},
          {"compute", stats.time.compute}, {"blocked", blocked.total()}, {"staleness", blocked.staleness},
          {"network", blocked.network},    {"queue", blocked.queue},     {"apply", blocked.apply}};
}

int Train(const Options& options) {
  Passed passed;
  auto client = paceline::Client::Connect({.job = options.job,
                                           .client_name = absl::StrCat("worker ", options.rank),
                                           .workers = options.workers,
                                           .rank = options.rank,
                                           .cache_bytes_max = 0});
  if (!client.ok()) return Fail(client.status());
  auto rows = (*client)->OpenOrCreate(
      "rows", paceline::Sparse{.dim = 4,
                               .rule = paceline::Add{},
                               .consistency = paceline::Ssp{.staleness = options.staleness,
                                                            .read_my_writes = false,
                                                            .adaptive = options.adaptive}});
  if (!rows.ok()) return Fail(rows.status());
  passed.Connected((*client)->stats());
  std::vector<uint64_t> keys(500);
  std::iota(keys.begin(), keys.end(), uint64_t{1});
  const std::vector<float> update(keys.size() * 4, 1);
  paceline::world::SplitMix64 random(options.rank + 1);
  while (stop == 0) {
    const bool sometimes = options.sometimes_ms > 0 && random.Next() % 8 == 0;
    absl::SleepFor(absl::Milliseconds(sometimes ? options.sometimes_ms : options.compute_ms));
    const absl::Time from = paceline::world::MonotonicNow();
    auto values = rows->Pull(keys);
    if (!values.ok()) return Fail(values.status());
    (void)rows->PushAsync(keys, update);
    if (absl::Status ticked = (*client)->Tick(); !ticked.ok()) return Fail(ticked);
    passed.Called(from, (*client)->stats());
  }
  std::printf("%s\n", JsonOf((*client)->stats(), passed).dump().c_str());
  return 0;
}

// Up to 16 rows are one segment's, so that one executor of one shard has all the work.
int Load(const std::string& job, uint64_t rows) {
  auto client = paceline::Client::Connect({.job = job, .client_name = "load"});
  if (!client.ok()) return Fail(client.status());
  constexpr uint32_t kDim = 16;
  std::string code = "w = w + g";
  for (int i = 0; i < 60; ++i) code += " / 1.5 * 1.5";
  auto busy = (*client)->OpenOrCreate(
      "busy", paceline::Ranged{.rows = rows, .dim = kDim, .rule = paceline::Expression{.code = code}});
  if (!busy.ok()) return Fail(busy.status());
  std::vector<uint64_t> keys(8000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i % rows;
  const std::vector<float> update(keys.size() * kDim, 0.5f);
  std::printf("loads\n");
  std::fflush(stdout);
  while (stop == 0) (void)busy->PushAsync(keys, update);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { stop = 1; });
  if (argc == 4 && std::strcmp(argv[1], "--load") == 0)
    return Load(argv[2], std::strtoull(argv[3], nullptr, 10));
  if (argc != 7) {
    std::fprintf(stderr, "expected JOB RANK WORKERS STALENESS COMPUTE_MS SOMETIMES_MS, or --load JOB ROWS\n");
    return 2;
  }
  constexpr const char* kAuto = "auto:";
  const bool adaptive = std::strncmp(argv[4], kAuto, std::strlen(kAuto)) == 0;
  if (adaptive) argv[4] += std::strlen(kAuto);
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  return Train({.job = argv[1],
                .rank = static_cast<uint32_t>(number(2)),
                .workers = static_cast<uint32_t>(number(3)),
                .staleness = number(4),
                .adaptive = adaptive,
                .compute_ms = static_cast<int64_t>(number(5)),
                .sometimes_ms = static_cast<int64_t>(number(6))});
}
