// Clients for value_bound_test.py, on the cluster of PACELINE_COORDINATOR.
//
//   value_bound_worker push JOB BOUND FILE   adds 1 to one row, again and again, under Vap{BOUND}. The file's
//                                            first 8 bytes always have the number of pushes that were let
//                                            through.
//   value_bound_worker read JOB BOUND        pulls that row, again and again, and prints a line for each
//                                            value that is handed out: it, and when, in ns of the monotonic
//                                            clock.
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "paceline/client.h"

namespace {

constexpr uint64_t kKey = 7;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "value_bound_worker: %s\n", status.ToString().c_str());
  return 1;
}

int PushForEver(paceline::Table& table, const char* path) {
  const int file = open(path, O_RDWR);
  void* const memory =
      file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return Fail(absl::InvalidArgumentError("cannot map the file"));
  std::atomic_ref<uint64_t> pushes(*static_cast<uint64_t*>(memory));
  while (true) {
    const paceline::Future<void> pushed = table.PushAsync({kKey}, {1.0f});
    if (pushed.ready() && !pushed.Get().ok()) return Fail(pushed.Get());
    ++pushes;
  }
}

int ReadForEver(paceline::Table& table) {
  while (true) {
    const paceline::Future<std::vector<float>> pulled = table.PullAsync({kKey});
    // On the thread that hands the value out: this one may have to wait for a core before it has it.
    pulled.OnReady([](const absl::StatusOr<std::vector<float>>& values) {
      timespec now = {};
      clock_gettime(CLOCK_MONOTONIC, &now);
      if (!values.ok()) return;
      std::printf("%.0f %lld\n", (*values)[0], now.tv_sec * 1'000'000'000LL + now.tv_nsec);
      std::fflush(stdout);
    });
    if (const auto values = pulled.Get(); !values.ok()) return Fail(values.status());
  }
}

}  // namespace

int main(int argc, char** argv) {
  double bound = 0;
  const bool pushes = argc == 5 && std::strcmp(argv[1], "push") == 0;
  const bool reads = argc == 4 && std::strcmp(argv[1], "read") == 0;
  if ((!pushes && !reads) || !absl::SimpleAtod(argv[3], &bound)) {
    std::fprintf(stderr, "value_bound_worker push JOB BOUND FILE | read JOB BOUND\n");
    return 2;
  }
  auto client = paceline::Client::Connect({.job = argv[2]});
  if (!client.ok()) return Fail(client.status());
  auto table = (*client)->OpenOrCreate("sums", paceline::Sparse{.consistency = paceline::Vap{.v = bound}});
  if (!table.ok()) return Fail(table.status());
  return pushes ? PushForEver(*table, argv[4]) : ReadForEver(*table);
}
