// A client that counts, for coordinators_test.py, against the cluster of PACELINE_COORDINATOR.
//
//   count WORKERS   adds 1 to each of some keys in every clock, and prints "clock N" after each, until its
//                   standard input ends; then finishes and prints "finished N"
//   read            prints the smallest and the largest of the keys' values
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/status.h"
#include "paceline/client.h"

namespace paceline {
namespace {

constexpr uint64_t kKeys = 256;  // some in every segment, nearly
constexpr char kTable[] = "counts";

std::vector<uint64_t> Keys() {
  std::vector<uint64_t> keys(kKeys);
  std::iota(keys.begin(), keys.end(), 0);
  return keys;
}

bool ToldToEnd(int wait_ms) {
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return poll(&input, 1, wait_ms) > 0;
}

absl::Status Count(uint32_t workers) {
  ABSL_ASSIGN_OR_RETURN(
      const auto client,
      Client::Connect({.job = "counting", .workers = workers, .timeout = absl::Minutes(2)}));
  ABSL_ASSIGN_OR_RETURN(
      Table counts, client->OpenOrCreate(kTable, Sparse{.rule = Add{}, .consistency = Ssp{.staleness = 2}}));
  const std::vector<uint64_t> keys = Keys();
  const std::vector<float> ones(kKeys, 1.0f);
  uint64_t clock = 0;
  // A few milliseconds a clock: as f32 counts far enough for any test.
  while (!ToldToEnd(5)) {
    (void)counts.PushAsync(keys, ones);
    ABSL_RETURN_IF_ERROR(counts.Pull(keys).status());
    ABSL_RETURN_IF_ERROR(client->Tick());
    std::printf("clock %lu\n", static_cast<unsigned long>(++clock));
    std::fflush(stdout);
  }
  ABSL_RETURN_IF_ERROR(client->Flush());
  ABSL_RETURN_IF_ERROR(client->Finish());
  std::printf("finished %lu\n", static_cast<unsigned long>(clock));
  return absl::OkStatus();
}

absl::Status Read() {
  ABSL_ASSIGN_OR_RETURN(const auto client, Client::Connect({.job = "counting", .timeout = absl::Minutes(1)}));
  ABSL_ASSIGN_OR_RETURN(Table counts, client->Open(kTable));
  ABSL_ASSIGN_OR_RETURN(const std::vector<float> rows, counts.Pull(Keys()));
  const auto [smallest, largest] = std::ranges::minmax(rows);
  std::printf("%.0f %.0f\n", static_cast<double>(smallest), static_cast<double>(largest));
  return absl::OkStatus();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  const bool count = argc == 3 && std::strcmp(argv[1], "count") == 0;
  const absl::Status ended =
      count ? paceline::Count(static_cast<uint32_t>(std::atoi(argv[2]))) : paceline::Read();
  if (ended.ok()) return 0;
  std::fprintf(stderr, "%s\n", ended.ToString().c_str());
  return 1;
}
