#include "tests/sim/users.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kAssignsFrom = 1000;  // keys of the table of assignments: this and the session
constexpr uint64_t kTriesTogether = 2;
constexpr absl::Duration kWorkTimeout = absl::Seconds(20);
constexpr uint64_t kTrainedKeys = 40;  // those of the counting tables
constexpr absl::Duration kFinishTimeout = absl::Seconds(30);
constexpr absl::Duration kEvictedAfter = absl::Seconds(4);  // a client that is silent for so long has been

}  // namespace

// -- workers --

Worker::Worker(World& world, SimCoordinator& coordinator, std::string name, std::string job, WorkerPlan plan,
               uint32_t together, uint64_t clocks)
    : SimClient(world, coordinator, std::move(name), std::move(job)),
      plan_(plan),
      together_(together),
      clocks_(clocks) {
  push_filter_ = plan_.push_filter;
}

void Worker::Begin() {
  Consistency consistency = Asp{};
  if (plan_.staleness.has_value() && plan_.told) {
    Essp essp{.staleness = *plan_.staleness};
    if (plan_.told_each) essp.every = 1;
    if (plan_.told_few) essp.budget_bytes = 1;
    consistency = essp;
  } else if (plan_.staleness.has_value()) {
    Ssp ssp{.staleness = *plan_.staleness, .refresh = plan_.refresh, .adaptive = plan_.adaptive};
    if (plan_.catches_up) ssp.catch_up = *plan_.staleness / 2;
    consistency = ssp;
  }
  // Once the others have started, nobody starts together with it.
  const bool alone = plan_.starts_at > absl::ZeroDuration() || started_ || starts() > kTriesTogether;
  finishing_ = false;
  std::optional<Consistency> counts;
  if (plan_.bounded) counts = Vap{.v = kValueBound, .decay = plan_.decays};
  Start(alone ? 1 : together_, consistency, plan_.bsp ? Consistency(Bsp{}) : consistency, counts);
}

void Worker::Vanish() {
  left_ = true;
  Kill();
}

void Worker::OnReady() {
  started_ = true;
  start_ = core().clock();
  if (core().clock() >= 2) world_.marks.Hit("a worker joins at a later clock");
  if (plan_.dies_after.has_value() && !std::exchange(died_, true)) {
    Later(*plan_.dies_after, [this] { Kill(); });
  }
  queue_ = 0;
  item_.reset();
  plan_.work ? OpenQueue() : Work();
}

void Worker::OnEnded() {
  if (left_) {
    done_ = true;
    return;
  }
  absl::Duration pause = world_.Between(absl::Milliseconds(5), absl::Milliseconds(300));
  if (plan_.dies_after.has_value()) pause += kEvictedAfter;
  world_.scheduler.After(pause, [this] { Begin(); });
}

void Worker::Work() {
  const bool over = core().clock() >= clocks_ && (!plan_.work || complete_);
  if (over || core().clock() - start_ >= plan_.clocks) return Leave();
  if (plan_.work && !complete_ && !item_.has_value()) return AwaitItem();
  doing_ = "working";
  if (item_.has_value()) Train();
  if (!up()) return;
  for (uint64_t pushes = 1 + world_.Below(3); pushes > 0 && up(); --pushes) {
    world_.Chance(0.25) ? PushPullCounts(counts_) : PushCounts(counts_, /*valid=*/!world_.Chance(0.01));
  }
  for (uint64_t pushes = world_.Below(3); pushes > 0 && up(); --pushes) {
    world_.Chance(0.25) ? PushPullCounts(folded_) : PushCounts(folded_, /*valid=*/!world_.Chance(0.01));
  }
  if (world_.Chance(0.3) && up()) PushScratch();
  if (world_.Chance(plan_.adaptive ? 0.8 : 0.3) && up()) PushRates();
  if (world_.Chance(0.5) && up()) PushMeans();
  if (world_.reduces && world_.Chance(0.5) && up()) PushWide();
  if (world_.lends && world_.Chance(0.5) && up()) LendWide();
  if (!up()) return;
  if (plan_.push_filter.active() && world_.Chance(0.05)) Flush();
  if (!up()) return;
  if (plan_.adaptive && world_.Chance(0.5)) return PullRates([this] { Read(); });
  world_.Chance(0.75) ? Read() : ReadFolded();
}

void Worker::OpenQueue() {
  doing_ = "opening its work queue";
  Enter([&] {
    core().OpenWork("train", world_.work.SpecInOrder(), /*ahead=*/absl::Milliseconds(300),
                    [this, start = starts()](absl::StatusOr<uint32_t> queue) {
                      if (start != starts() || !up()) return;
                      if (!queue.ok()) return Fail(queue.status());
                      queue_ = *queue;
                      Work();
                    });
  });
}

void Worker::AwaitItem() {
  doing_ = "waiting for work";
  const Clock clock = core().clock();
  Enter([&] {
    core().work(queue_).Next(
        kWorkTimeout, [this, clock, start = starts()](absl::StatusOr<std::optional<WorkItem>> item) {
          if (start != starts() || !up() || !core().failure().ok()) return;
          if (core().clock() > clock) world_.marks.Hit("a worker out of work ticks on");
          if (item.ok() && item->has_value()) {
            item_ = **item;
            next_example_ = item_->begin;
            world_.work.OnBegun(session(), *item_);
          } else if (item.ok()) {
            complete_ = true;
            world_.work.OnComplete();
          } else if (absl::IsDeadlineExceeded(item.status())) {
            world_.marks.Hit("a wait for work ends at its deadline");
          } else {
            world_.verdict.Violated("Progress",
                                    absl::StrCat(name(), " gets no work: ", item.status().ToString()));
          }
          Later(absl::ZeroDuration(), [this] { Work(); });
        });
  });
}

// One or two examples of its item, some of them in the aggregated table.
void Worker::Train() {
  absl::Status told;
  for (uint64_t n = 1 + world_.Below(2); n > 0 && up() && item_.has_value(); --n) {
    std::vector<float> values(kColumns, 0);
    values[world_.truth.Find(session())->column] = 1;
    world_.work.OnTrained(session(), *item_, next_example_, world_.truth.now() + 1);
    Push(next_example_ % 3 == 0 ? folded_ : counts_, {next_example_ % kTrainedKeys}, values, /*valid=*/true);
    if (!up()) return;
    ++next_example_;
    if (world_.Chance(0.7)) Enter([&] { told = core().work(queue_).Mark(*item_, next_example_); });
    if (next_example_ < item_->end || !up() || !told.ok()) continue;
    Enter([&] { told = core().work(queue_).Done(*item_); });
    item_.reset();
  }
  if (told.ok() || !up() || !core().failure().ok()) return;
  world_.verdict.Violated("Work", absl::StrCat(name(), " may not report its work: ", told.ToString()));
}

void Worker::LeaveQueue() {
  doing_ = "leaving its work queue";
  world_.work.OnGivenBack(session());
  if (item_.has_value()) world_.marks.Hit("an item is given back in the middle");
  item_.reset();
  Enter([&] {
    core().LeaveWork(kFinishTimeout, [this, start = starts()](absl::Status status) {
      if (start != starts() || !up() || !core().failure().ok()) return;
      if (absl::IsDataLoss(status) || absl::IsFailedPrecondition(status)) return Fail(status);
      if (!status.ok()) {
        world_.verdict.Violated("Progress",
                                absl::StrCat(name(), " cannot leave its work: ", status.ToString()));
      }
      queue_ = 0;
      Later(absl::ZeroDuration(), [this] { Leave(); });
    });
  });
}

void Worker::Read() {
  if (world_.Chance(0.15)) return PullScratch([this] { ReadFolded(); });
  if (world_.reduces && world_.Chance(0.4)) return ReduceWide([this] { ReadFolded(); });
  PullCounts(counts_, std::nullopt, [this] {
    if (world_.Chance(0.6)) return ReadFolded();
    std::vector<uint64_t> keys;
    for (const auto& [id, session] : world_.truth.sessions()) keys.push_back(kAssignsFrom + id.v);
    Pull(assigns_, std::move(keys), std::nullopt, [this] { ReadFolded(); });
  });
}

// Some tick without waiting for their reads.
void Worker::ReadFolded() {
  if (!plan_.bsp && world_.Chance(0.5)) return EndClock();
  if (world_.Chance(0.2)) return PullMeans([this] { EndClock(); });
  if (!world_.Chance(0.2)) return PullCounts(folded_, std::nullopt, [this] { EndClock(); });
  PullCounts(folded_, std::nullopt, [] {});
  if (up()) EndClock();
}

void Worker::EndClock() {
  Push(assigns_, {kAssignsFrom + session().v}, {static_cast<float>(core().clock() + 1)}, /*valid=*/true);
  doing_ = "thinking";
  Later(plan_.think * world::UnitInterval(world_.random), [this] {
    absl::Status ticked;
    Enter([&] { ticked = core().Tick(); });
    if (!ticked.ok() && up() && core().failure().ok()) world_.verdict.Violated("Progress", ticked.ToString());
    Later(world_.Between(absl::ZeroDuration(), absl::Milliseconds(2)), [this] { Work(); });
  });
}

// What filters hold back is sent at once.
void Worker::Flush() {
  Enter([&] {
    const bool holds = core().filters().holds();
    core().Flush(kFinishTimeout, [this, start = starts()](const absl::Status& status) {
      if (start != starts() || !up() || !core().failure().ok()) return;
      if (status.ok() || absl::IsInvalidArgument(status)) return;  // of an earlier push
      world_.verdict.Violated("Progress", absl::StrCat(name(), " cannot flush: ", status.ToString()));
    });
    CheckNothingHeld();
    if (holds) world_.marks.Hit("a flush sends what was held back");
  });
}

void Worker::Leave() {
  if (plan_.closes_unfinished) {
    left_ = true;
    return Exit();
  }
  if (queue_ != 0) return LeaveQueue();
  doing_ = "finishing";
  finishing_ = true;
  if (plan_.dies_finishing && !std::exchange(died_, true)) {
    Later(world_.Between(absl::ZeroDuration(), absl::Milliseconds(4)), [this] { Kill(); });
  }
  Enter([&] {
    core().Finish(kFinishTimeout, [this, start = starts(), began = world_.Now()](absl::Status status) {
      if (start != starts() || !up() || !core().failure().ok()) return;
      if (status.ok()) on_took("to finish", world_.Now() - began);
      if (absl::IsFailedPrecondition(status) || absl::IsDataLoss(status)) return Fail(status);  // evicted
      if (!status.ok() && !absl::IsInvalidArgument(status)) {
        world_.verdict.Violated("Progress", absl::StrCat(name(), " cannot finish: ", status.ToString()));
        return;
      }
      left_ = true;
      Linger();
    });
    CheckNothingHeld();
  });
}

// A finished worker may still read, and holds nobody up.
void Worker::Linger() {
  if (!world_.Chance(0.5)) return Exit();
  PullCounts(world_.Chance(0.5) ? folded_ : counts_, std::nullopt, [this] {
    Later(world_.Between(absl::ZeroDuration(), absl::Milliseconds(1500)), [this] { Exit(); });
  });
}

// -- readers --

void Reader::OnReady() {
  rounds_ = 2 + static_cast<int>(world_.Below(12));
  Round();
}

void Reader::OnEnded() {
  if (stopped_) return;
  world_.scheduler.After(world_.Between(absl::Milliseconds(1), absl::Milliseconds(100)), [this] {
    if (!stopped_) Begin();
  });
}

// The min clock that is there everywhere.
Clock Reader::Known() const {
  Clock known = UINT64_MAX;
  for (uint32_t s = 0; s < counts_->placement.SegmentCount(); ++s) {
    const JobId mine = world_.truth.JobOf(session());
    known = std::min(known, world_.invariants.ledger(SegmentId(s)).MinClock(mine));
  }
  return known;
}

void Reader::Round() {
  if (stopped_ || --rounds_ < 0) return Exit();
  if (world_.Chance(0.5)) {
    world_.Chance(0.3) ? PushPullCounts(counts_) : PushCounts(counts_, /*valid=*/true);
  }
  if (world_.Chance(0.2)) PushRates();
  if (world_.Chance(0.2)) PushScratch();
  const auto next = [this] {
    Later(world_.Between(absl::ZeroDuration(), absl::Milliseconds(60)), [this] { Round(); });
  };
  if (world_.reduces && world_.Chance(0.4)) return ReduceWide(next);
  std::optional<Clock> min_clock;
  if (world_.Chance(0.4)) min_clock = Known() + world_.Below(2);
  PullCounts(world_.Chance(0.3) ? folded_ : counts_, min_clock, next);
}

}  // namespace paceline::sim
