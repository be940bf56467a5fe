#include "examples/count/work.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace paceline::examples {
namespace {

constexpr char kTrained[] = "trained";
constexpr char kQueue[] = "examples";
constexpr uint64_t kRowsAtOnce = 65536;

absl::StatusOr<Table> OpenCounts(Client& client) {
  return client.OpenOrCreate(kTrained, Sparse{.dim = 1, .rule = Add{}, .consistency = Ssp{.staleness = 2}});
}

// `*stopped`: its caller wants no more.
absl::Status TrainItem(Client& client, Table& counts, WorkQueue& queue, const WorkItem& item,
                       const CountedWork& work, absl::FunctionRef<bool()> stop, bool* stopped) {
  for (uint64_t example = item.begin; example < item.end; ++example) {
    if (stop()) {
      *stopped = true;
      return absl::OkStatus();
    }
    const uint64_t row = item.pass * work.examples + example;
    counts.PushAsync({row}, {1.0f}).OnReady([](const absl::Status&) {});  // Flush reports errors
    if (absl::Status s = queue.Mark(item, example + 1); !s.ok()) return s;
    if (absl::Status s = client.Tick(); !s.ok()) return s;
    // As a trainer would: it reads what the others have done, and so stays within the bound of staleness.
    if (absl::StatusOr<std::vector<float>> read = counts.Pull({row}); !read.ok()) return read.status();
    if (work.pause > absl::ZeroDuration()) absl::SleepFor(work.pause);
  }
  return queue.Done(item);
}

}  // namespace

absl::Status TrainWork(Client& client, const CountedWork& work, absl::FunctionRef<bool()> stop) {
  absl::StatusOr<Table> counts = OpenCounts(client);
  if (!counts.ok()) return counts.status();
  absl::StatusOr<WorkQueue> queue =
      client.OpenWork(kQueue, {.examples = work.examples, .per_item = work.per_item, .passes = work.passes});
  if (!queue.ok()) return queue.status();
  uint64_t items = 0;
  for (bool stopped = false; !stopped && !stop();) {
    const absl::StatusOr<std::optional<WorkItem>> item = queue->Next();
    if (absl::IsDeadlineExceeded(item.status())) continue;  // others hold all that is left
    if (!item.ok()) return item.status();
    if (!item->has_value()) break;
    if (items++ == 0) {
      std::printf("paceline-count: trains from item %d on\n", static_cast<int>((*item)->number));
      std::fflush(stdout);
    }
    if (absl::Status s = TrainItem(client, *counts, *queue, **item, work, stop, &stopped); !s.ok()) return s;
  }
  if (absl::Status s = client.Finish(); !s.ok()) return s;
  std::printf("paceline-count: trained items=%d waited_s=%.1f\n", static_cast<int>(items),
              client.stats().wait.work);
  return absl::OkStatus();
}

absl::Status CheckWork(Client& client, const CountedWork& work) {
  absl::StatusOr<Table> counts = OpenCounts(client);
  if (!counts.ok()) return counts.status();
  double twice = 0;
  const uint64_t rows = work.examples * work.passes;
  for (uint64_t first = 0; first < rows; first += kRowsAtOnce) {
    std::vector<uint64_t> keys(std::min(kRowsAtOnce, rows - first));
    std::iota(keys.begin(), keys.end(), first);
    const absl::StatusOr<std::vector<float>> trained = counts->Pull(keys);
    if (!trained.ok()) return trained.status();
    for (size_t i = 0; i < keys.size(); ++i) {
      if ((*trained)[i] < 1) {
        return absl::DataLossError(absl::StrCat("example ", keys[i] % work.examples, " of pass ",
                                                keys[i] / work.examples, " was never trained"));
      }
      twice += static_cast<double>((*trained)[i]) - 1;
    }
  }
  std::printf("paceline-count: ok, all %d examples are trained, %.0f of them once more\n",
              static_cast<int>(rows), twice);
  return absl::OkStatus();
}

}  // namespace paceline::examples
