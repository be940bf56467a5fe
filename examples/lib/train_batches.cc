#include "examples/lib/train_batches.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "examples/lib/count_work.h"

namespace paceline::examples {
namespace {

constexpr char kQueue[] = "examples";

uint64_t CountOf(const TrainingBatch& batch, const BatchLoss& loss) {
  return loss.parts.value_or(batch.rows.size());
}

absl::Status TrainSplit(JobWorker& worker, const ScheduleOptions& options, TrainBatch train) {
  Schedule schedule(options, worker.client().rank());
  worker.Begin(schedule.clocks(), static_cast<size_t>(options.epochs));
  for (size_t clock = worker.client().clock(); clock < schedule.clocks(); ++clock) {
    const TrainingBatch batch{.rows = schedule.Rows(clock),
                              .epoch = static_cast<int>(clock / schedule.clocks_per_epoch())};
    const absl::StatusOr<BatchLoss> loss = train(batch);
    if (!loss.ok()) return loss.status();
    if (absl::Status s = worker.EndClock(clock, CountOf(batch, *loss), loss->sum); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// A worker of a work queue.
class QueueTraining {
 public:
  QueueTraining(JobWorker& worker, const ScheduleOptions& schedule, TrainBatch train)
      : worker_(worker), schedule_(schedule), train_(train) {}

  absl::Status Run() {
    if (worker_.options().count_work) {
      absl::StatusOr<Table> trained = OpenTrained(worker_.client());
      if (!trained.ok()) return trained.status();
      trained_ = *std::move(trained);
    }
    absl::StatusOr<WorkQueue> queue =
        worker_.client().OpenWork(kQueue, {.examples = schedule_.examples,
                                           .per_item = ExamplesOfItem(schedule_),
                                           .passes = static_cast<uint64_t>(schedule_.epochs),
                                           .passes_in_order = schedule_.in_order});
    if (!queue.ok()) return queue.status();
    worker_.Begin(StepsOfEpoch() * static_cast<size_t>(schedule_.epochs),
                  static_cast<size_t>(schedule_.epochs));
    while (true) {
      const absl::StatusOr<std::optional<WorkItem>> item = worker_.NextItem(*queue);
      if (!item.ok()) return item.status();
      if (!item->has_value()) return absl::OkStatus();
      if (absl::Status s = TrainItem(*queue, **item); !s.ok()) return s;
    }
  }

 private:
  size_t StepsOfEpoch() const {
    return (schedule_.examples + schedule_.batch_size - 1) / schedule_.batch_size;
  }

  // An item that comes back begins at its last mark, which is the end of a batch.
  absl::Status TrainItem(WorkQueue& queue, const WorkItem& item) {
    SetEpoch(static_cast<int>(item.pass));
    for (uint64_t begin = item.begin; begin < item.end; begin += schedule_.batch_size) {
      const uint64_t end = std::min<uint64_t>(begin + schedule_.batch_size, item.end);
      const TrainingBatch batch{.rows = absl::MakeConstSpan(order_).subspan(begin, end - begin),
                                .epoch = epoch_};
      const absl::StatusOr<BatchLoss> loss = train_(batch);
      if (!loss.ok()) return loss.status();
      Count(item.pass, begin, end);
      if (absl::Status s = queue.Mark(item, end); !s.ok()) return s;
      const size_t step = item.pass * StepsOfEpoch() + begin / schedule_.batch_size;
      if (absl::Status s = worker_.EndClock(step, CountOf(batch, *loss), loss->sum); !s.ok()) return s;
    }
    return queue.Done(item);
  }

  void SetEpoch(int epoch) {
    if (epoch == epoch_) return;
    epoch_ = epoch;
    if (!schedule_.in_order) {
      order_ = EpochOrder(schedule_.examples, schedule_.seed, epoch);
    } else if (order_.empty()) {
      order_.resize(schedule_.examples);
      std::iota(order_.begin(), order_.end(), 0u);
    }
  }

  void Count(uint64_t pass, uint64_t begin, uint64_t end) {
    if (!trained_.has_value()) return;
    std::vector<uint64_t> keys(end - begin);
    std::iota(keys.begin(), keys.end(), pass * schedule_.examples + begin);
    worker_.Push(*trained_, keys, std::vector<float>(keys.size(), 1.0f));
  }

  JobWorker& worker_;
  const ScheduleOptions& schedule_;
  TrainBatch train_;
  std::optional<Table> trained_;
  int epoch_ = -1;  // that order_ is of
  std::vector<uint32_t> order_;
};

}  // namespace

uint64_t ExamplesOfItem(const ScheduleOptions& schedule) {
  constexpr size_t kItemsOfEpoch = 256, kBatchesMax = 64;
  const size_t batches = (schedule.examples + schedule.batch_size - 1) / schedule.batch_size;
  return std::clamp<size_t>(batches / kItemsOfEpoch, 1, kBatchesMax) * schedule.batch_size;
}

absl::Status TrainBatches(JobWorker& worker, const ScheduleOptions& schedule, TrainBatch train) {
  return worker.options().by_queue() ? QueueTraining(worker, schedule, train).Run()
                                     : TrainSplit(worker, schedule, train);
}

}  // namespace paceline::examples
