#include "libs/log/cuts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"

namespace paceline::log {
namespace {

// True if no update of a worker that was not evicted is of `clock` or a later one.
bool IsExact(const Segment& segment, JobId job, Clock clock) {
  if (segment.NextClockOf(job) > clock) return false;
  const auto it = segment.jobs().find(job);
  return it == segment.jobs().end() || std::ranges::all_of(it->second.finished(), [&](const auto& finished) {
           return finished.second.end <= clock;
         });
}

// A copy leaves this many bytes to pushes. Otherwise pushes would be refused for want of memory, and the
// copy, which asks for more, and fails, only when one is applied, would keep it.
constexpr uint64_t kLeftForPushes = uint64_t{8} << 20;

// A copy takes its memory from the shard's budget for rows.
class ShardMemory final : public table::CopyMemory {
 public:
  explicit ShardMemory(std::shared_ptr<RowMemory> memory) : memory_(std::move(memory)) {}
  bool Take(uint64_t bytes) override {
    if (!memory_->Admits(bytes + kLeftForPushes)) return false;
    memory_->Grown(static_cast<int64_t>(bytes));
    return true;
  }
  void GiveBack(uint64_t bytes) override { memory_->Grown(-static_cast<int64_t>(bytes)); }

 private:
  const std::shared_ptr<RowMemory> memory_;
};

}  // namespace

absl::Status Cuts::Wish(const CutWish& wish, const Segment& segment, absl::Time now,
                        std::optional<Clock>* passed) {
  if (segment.SnapshotsOf(wish.job).cut >= wish.id) {
    const auto copy = copies_.find(wish.job);
    if (copy != copies_.end()) copy->second.asked = now;
    return absl::OkStatus();
  }
  const Clock min_clock = segment.MinClockOf(wish.job);
  const Clock next = segment.NextClockOf(wish.job);
  const bool late = min_clock > wish.clock && !Planted(Bug::kCutLoggedLate);
  if (!wish.at_once && (late || (wish.exact && !IsExact(segment, wish.job, wish.clock)))) {
    wished_.erase(wish.job);
    *passed = std::max(min_clock, next == 0 ? 0 : next - 1);
    return absl::OutOfRangeError(absl::StrCat("segment ", segment.id().v, ": clock ", **passed,
                                              " is under way, the job was to be cut at ", wish.clock));
  }
  wished_[wish.job] = {.wish = wish, .asked = now};
  return absl::OkStatus();
}

std::optional<Clock> Cuts::ClockOf(JobId job) const {
  const auto wished = wished_.find(job);
  if (wished == wished_.end() || wished->second.wish.at_once) return std::nullopt;
  if (Planted(Bug::kCutLoggedLate)) return std::nullopt;
  return wished->second.wish.clock;
}

bool Cuts::Awaits(const Update& update, JobId job, const Segment& segment) const {
  const auto wished = wished_.find(job);
  if (wished == wished_.end() || !wished->second.wish.exact) return false;
  const auto clock = segment.jobs().find(job);
  return clock != segment.jobs().end() && clock->second.HasWorker(update.session) &&
         update.clock >= wished->second.wish.clock;
}

std::optional<Cut> Cuts::TakeDue(JobId job, const Segment& segment) {
  const auto wished = wished_.find(job);
  if (wished == wished_.end()) return std::nullopt;
  const CutWish wish = wished->second.wish;
  const Clock min_clock = segment.MinClockOf(job);
  if (!wish.at_once && min_clock < wish.clock) return std::nullopt;
  wished_.erase(wished);
  // Once no worker is left the min clock may have passed the cut's clock; the next proposal accounts for
  // that.
  if (!wish.at_once && min_clock > wish.clock && !Planted(Bug::kCutLoggedLate)) return std::nullopt;
  return Cut{.id = wish.id, .job = job, .clock = min_clock};
}

void Cuts::Logged(const Cut& cut, Epoch epoch, absl::Time now, Segment& segment) {
  CutCopy copy{.cut = cut,
               .epoch = epoch,
               .lsn = segment.version(),
               .exact = IsExact(segment, cut.job, cut.clock),
               .workers = {}};
  if (const auto job = segment.jobs().find(cut.job); job != segment.jobs().end()) {
    for (const auto& [session, worker] : job->second.workers()) {
      copy.workers.push_back({.session = session, .rank = worker.rank, .clock = worker.counted});
    }
  }
  segment.BeginCopy(cut.job, std::make_shared<ShardMemory>(memory_));
  copies_[cut.job] = {.copy = std::move(copy), .asked = now};
}

std::optional<CutCopy> Cuts::Take(JobId job, uint64_t id, Epoch epoch, absl::Time now, Segment& segment) {
  if (Planted(Bug::kCutTakenOver) && !copies_.contains(job)) {
    Logged({.id = id, .job = job, .clock = segment.MinClockOf(job)}, epoch, now, segment);
  }
  const auto kept = copies_.find(job);
  if (kept == copies_.end() || kept->second.copy.cut.id != id || kept->second.taken) return std::nullopt;
  kept->second.taken = true;
  if (Planted(Bug::kCutCopiedLate)) segment.BeginCopy(job, std::make_shared<ShardMemory>(memory_));
  return kept->second.copy;
}

absl::StatusOr<bool> Cuts::Next(JobId job, uint64_t id, Segment& segment, table::CopiedRows* out) {
  const auto kept = copies_.find(job);
  if (kept == copies_.end() || kept->second.copy.cut.id != id) {
    return absl::NotFoundError(absl::StrCat("segment ", segment.id().v, ": the rows of cut ", id, " of job ",
                                            job.v, " are not kept here, or no more"));
  }
  absl::StatusOr<bool> next = segment.NextOfCopy(job, out);
  if (next.ok() && *next) return next;
  segment.EndCopy(job);
  copies_.erase(kept);
  if (next.ok()) return next;
  return absl::Status(next.status().code(),
                      absl::StrCat("segment ", segment.id().v, ": ", next.status().message()));
}

void Cuts::OnTime(absl::Time now, Segment& segment) {
  std::erase_if(wished_, [&](const auto& wished) { return wished.second.asked + kAskedMax < now; });
  std::erase_if(copies_, [&](const auto& kept) {
    if (kept.second.asked + kKeptMax >= now) return false;
    segment.EndCopy(kept.first);
    return true;
  });
}

void Cuts::Forget(JobId job) {
  wished_.erase(job);
  copies_.erase(job);
}

void Cuts::End(Segment& segment) {
  for (const auto& [job, kept] : copies_) segment.EndCopy(job);
  copies_.clear();
}

}  // namespace paceline::log
