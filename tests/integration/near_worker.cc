// Counts over shared memory: near_worker JOB SECONDS [TIMEOUT]. For so long it adds 1 to each of some keys
// and to all rows of a range, in pushes of which it waits for every one; then reads them all. With a timeout,
// as 50ms, it pushes the range only, does not wait longer than that, and writes other values to its memory
// after each push. Prints "counting" after the first, and at the end one JSON object: pushes, those that were
// not waited for to their end, the least and the largest value of each table, and by what its streams went.
// Exits with 1 if a push or a read fails.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "paceline/client.h"

namespace {

constexpr uint64_t kKeys = 3'000;
constexpr uint64_t kRows = 20'000;
constexpr uint32_t kDim = 32;  // a range of 2.5 MB: more than a ring holds

// Pushes of the range that were taken, and how many of them were not waited for to their end.
struct Lent {
  uint64_t pushes = 0;
  uint64_t early = 0;
};

absl::Status Lend(paceline::Table& ranged, absl::Time end, absl::Duration timeout, Lent& lent) {
  std::vector<float> range(kRows * kDim);
  while (absl::Now() < end) {
    std::ranges::fill(range, 1.0f);
    const absl::Status pushed = ranged.PushRange(0, range, {.timeout = timeout});
    std::ranges::fill(range, 1000.0f);
    if (!pushed.ok() && !absl::IsDeadlineExceeded(pushed)) return pushed;
    if (!pushed.ok() && !absl::StrContains(pushed.message(), "The push goes on")) continue;
    lent.early += pushed.ok() ? 0 : 1;
    if (++lent.pushes == 1) {
      std::printf("counting\n");
      std::fflush(stdout);
    }
  }
  return absl::OkStatus();
}

absl::Status Count(const std::string& job, double seconds, absl::Duration timeout, nlohmann::json& result) {
  auto client = paceline::Client::Connect({.job = job, .timeout = absl::Minutes(3), .cache_bytes_max = 0});
  if (!client.ok()) return client.status();
  auto sparse = (*client)->OpenOrCreate(
      "sparse", paceline::Sparse{.dim = 1, .rule = paceline::Add{}, .consistency = paceline::Asp{}});
  if (!sparse.ok()) return sparse.status();
  auto ranged = (*client)->OpenOrCreate(
      "ranged",
      paceline::Ranged{.rows = kRows, .dim = kDim, .rule = paceline::Add{}, .consistency = paceline::Asp{}});
  if (!ranged.ok()) return ranged.status();
  std::vector<uint64_t> keys(kKeys);
  for (uint64_t i = 0; i < kKeys; ++i) keys[i] = i * 7'919;
  const std::vector<float> ones(kKeys, 1);
  const std::vector<float> range(kRows * kDim, 1);
  uint64_t pushes = 0;
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  Lent lent;
  if (timeout < absl::InfiniteDuration()) {
    if (absl::Status done = Lend(*ranged, end, timeout, lent); !done.ok()) return done;
    if (absl::Status flushed = (*client)->Flush(); !flushed.ok()) return flushed;
    pushes = lent.pushes;
  }
  while (absl::Now() < end) {
    // Several on their way at once, and what blocks as well.
    std::vector<paceline::Future<void>> under_way;
    for (int i = 0; i < 8; ++i) under_way.push_back(sparse->PushAsync(keys, ones));
    auto whole = ranged->PushRangeAsync(0, range);
    for (auto& push : under_way) {
      if (absl::Status pushed = std::move(push).Get(); !pushed.ok()) return pushed;
    }
    if (absl::Status pushed = std::move(whole).Get(); !pushed.ok()) return pushed;
    if (auto read = ranged->PullRange(0, kRows); !read.ok()) return read.status();
    if (++pushes == 1) {
      std::printf("counting\n");
      std::fflush(stdout);
    }
  }
  auto some = sparse->Pull(keys);
  if (!some.ok()) return some.status();
  auto all = ranged->PullRange(0, kRows);
  if (!all.ok()) return all.status();
  const auto bounds = [](const std::vector<float>& values) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return nlohmann::json{*least, *most};
  };
  const paceline::Stats stats = (*client)->stats();
  result = {{"pushes", pushes},
            {"early", lent.early},
            {"sparse", bounds(*some)},
            {"ranged", bounds(*all)},
            {"shared_memory", stats.streams_shared_memory},
            {"direct", stats.streams_direct},
            {"grpc", stats.streams_grpc},
            {"breaks", stats.breaks}};
  return (*client)->Flush();
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  absl::Duration timeout = absl::InfiniteDuration();
  if (argc < 3 || argc > 4 || !absl::SimpleAtod(argv[2], &seconds)) return 2;
  if (argc == 4 && !absl::ParseDuration(argv[3], &timeout)) return 2;
  nlohmann::json result;
  const absl::Status counted = Count(argv[1], seconds, timeout, result);
  if (!counted.ok()) {
    std::fprintf(stderr, "near_worker: %s\n", std::string(counted.message()).c_str());
    return 1;
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
