#include "examples/count/work.h"

#include <cstdio>
#include <optional>
#include <vector>

#include "absl/time/clock.h"
#include "examples/lib/count_work.h"

namespace paceline::examples {
namespace {

constexpr char kQueue[] = "examples";

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
  absl::StatusOr<Table> counts = OpenTrained(client);
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
  const absl::StatusOr<uint64_t> again = TrainedAgain(client, work.examples, work.passes);
  if (!again.ok()) return again.status();
  std::printf("paceline-count: ok, all %d examples are trained, %d of them once more\n",
              static_cast<int>(work.examples * work.passes), static_cast<int>(*again));
  return absl::OkStatus();
}

}  // namespace paceline::examples
