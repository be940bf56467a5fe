// Job snapshots at the primary: cuts are logged and copied, rows of snapshots are loaded.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/log/keys.h"
#include "libs/log/primary.h"
#include "libs/log/refusals.h"

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

// -- cuts --

bool Primary::Change(const CutWish& wish, std::string* why, std::optional<Clock>* passed) {
  if (!MayChange(why)) return false;
  const auto committed = [&] {
    return Planted(Bug::kCutNotCommitted) || ChangeCommitted(Record(Cut{}).index(), wish.id, why);
  };
  if (segment_.SnapshotsOf(wish.job).cut >= wish.id) {
    const auto copy = cut_copies_.find(wish.job);
    if (copy != cut_copies_.end()) copy->second.asked = now_;
    return committed();
  }
  const Clock min_clock = segment_.MinClockOf(wish.job);
  const Clock next = segment_.NextClockOf(wish.job);
  const bool late = min_clock > wish.clock && !Planted(Bug::kCutLoggedLate);
  if (!wish.at_once && (late || (wish.exact && !IsExact(segment_, wish.job, wish.clock)))) {
    cuts_wished_.erase(wish.job);
    *passed = std::max(min_clock, next == 0 ? 0 : next - 1);
    *why = absl::StrCat("segment ", segment_.id().v, ": clock ", **passed,
                        " is under way, the job was to be cut at ", wish.clock);
    return false;
  }
  cuts_wished_[wish.job] = {.wish = wish, .asked = now_};
  LogCutIfDue(wish.job);
  if (!cuts_wished_.contains(wish.job)) return committed();
  *why =
      absl::StrCat("segment ", segment_.id().v, ": the cut is at clock ", wish.clock, ", the min clock is ",
                   min_clock, "; it waits for ", DescribeSlowest(segment_, wish.job));
  return false;
}

std::optional<Clock> Primary::CutClock(JobId job) const {
  const auto wished = cuts_wished_.find(job);
  if (wished == cuts_wished_.end() || wished->second.wish.at_once) return std::nullopt;
  if (Planted(Bug::kCutLoggedLate)) return std::nullopt;
  return wished->second.wish.clock;
}

void Primary::LogCutIfDue(JobId job) {
  const auto wished = cuts_wished_.find(job);
  if (wished == cuts_wished_.end()) return;
  const CutWish wish = wished->second.wish;
  const Clock min_clock = segment_.MinClockOf(job);
  if (!wish.at_once && min_clock < wish.clock) return;
  cuts_wished_.erase(wished);
  // Once no worker is left the min clock may have passed the cut's clock; the next proposal accounts for
  // that.
  if (!wish.at_once && min_clock > wish.clock && !Planted(Bug::kCutLoggedLate)) return;
  LogCut(wish);
}

void Primary::LogCut(const CutWish& wish) {
  const Cut record{.id = wish.id, .job = wish.job, .clock = segment_.MinClockOf(wish.job)};
  Append(record);
  BeginCutCopy(record);
}

void Primary::BeginCutCopy(const Cut& record) {
  CutCopy copy{.cut = record,
               .epoch = epoch_,
               .lsn = segment_.version(),
               .exact = IsExact(segment_, record.job, record.clock),
               .workers = {}};
  if (const auto job = segment_.jobs().find(record.job); job != segment_.jobs().end()) {
    for (const auto& [session, worker] : job->second.workers()) {
      copy.workers.push_back({.session = session, .rank = worker.rank, .clock = worker.counted});
    }
  }
  segment_.BeginCopy(record.job, std::make_shared<ShardMemory>(shard_.memory));
  cut_copies_[record.job] = {.copy = std::move(copy), .asked = now_};
}

bool Primary::AwaitsCut(const Update& update, JobId job) const {
  const auto wished = cuts_wished_.find(job);
  if (wished == cuts_wished_.end() || !wished->second.wish.exact) return false;
  const auto clock = segment_.jobs().find(job);
  return clock != segment_.jobs().end() && clock->second.HasWorker(update.session) &&
         update.clock >= wished->second.wish.clock;
}

std::optional<CutCopy> Primary::TakeCut(JobId job, uint64_t id) {
  if (Planted(Bug::kCutTakenOver) && !cut_copies_.contains(job)) {
    BeginCutCopy({.id = id, .job = job, .clock = segment_.MinClockOf(job)});
  }
  const auto kept = cut_copies_.find(job);
  if (kept == cut_copies_.end() || kept->second.copy.cut.id != id || kept->second.taken) return std::nullopt;
  kept->second.taken = true;
  if (Planted(Bug::kCutCopiedLate)) segment_.BeginCopy(job, std::make_shared<ShardMemory>(shard_.memory));
  return kept->second.copy;
}

absl::StatusOr<bool> Primary::NextOfCut(JobId job, uint64_t id, table::CopiedRows* out) {
  const auto kept = cut_copies_.find(job);
  if (kept == cut_copies_.end() || kept->second.copy.cut.id != id) {
    return absl::NotFoundError(absl::StrCat("segment ", segment_.id().v, ": the rows of cut ", id, " of job ",
                                            job.v, " are not kept here, or no more"));
  }
  absl::StatusOr<bool> next = segment_.NextOfCopy(job, out);
  if (next.ok() && *next) return next;
  segment_.EndCopy(job);
  cut_copies_.erase(kept);
  if (next.ok()) return next;
  return absl::Status(next.status().code(),
                      absl::StrCat("segment ", segment_.id().v, ": ", next.status().message()));
}

void Primary::ForgetCuts(absl::Time now) {
  std::erase_if(cuts_wished_, [&](const auto& wished) { return wished.second.asked + kCutAskedMax < now; });
  std::erase_if(cut_copies_, [&](const auto& kept) {
    if (kept.second.asked + kCutKeptMax >= now) return false;
    segment_.EndCopy(kept.first);
    return true;
  });
}

void Primary::EndCopies() {
  for (const auto& [job, kept] : cut_copies_) segment_.EndCopy(job);
  cut_copies_.clear();
}

// -- loads --

absl::Status Primary::Take(const std::shared_ptr<const TableInfo>& table, Load load, uint64_t id) {
  std::string why;
  if (!MayChange(&why)) return absl::UnavailableError(why);
  // This load was completed before, and the job may have gone on since.
  if (segment_.SnapshotsOf(table->job).loaded >= id) return absl::OkStatus();
  if (replicas_.Backlogged() || shard_.records->DiskBehind()) {
    return absl::UnavailableError(absl::StrCat(
        "segment ", segment_.id().v, " has too much that is not replicated, or not on its disk, yet"));
  }
  if (absl::Status lives = CheckNotDropped(*table); !lives.ok()) return lives;
  OpenTableIfNew(table);
  const Segment::Table& open = *segment_.FindTable(table->id);
  const absl::string_view keys(reinterpret_cast<const char*>(load.keys.data()), load.keys.size() * kKeyBytes);
  ABSL_RETURN_IF_ERROR(CheckPlaced(open.placement, segment_.id(), KeyForm::kKeys, keys));
  if (!shard_.memory->Admits(open.rows.NewBytesBound(load.keys.size())) &&
      !shard_.memory->Admits(open.rows.NewBytesBound(Keys(keys)))) {
    return absl::ResourceExhaustedError(
        "the shard's memory budget is full; add shards or raise --memory-budget");
  }
  Append(load);
  return absl::OkStatus();
}

absl::Status Primary::Take(const EndLoad& end, const std::vector<TableId>& tables) {
  std::string why;
  if (!MayChange(&why)) return absl::UnavailableError(why);
  if (segment_.SnapshotsOf(end.job).loaded >= end.id) return absl::OkStatus();
  // Single tables are not dropped before the job exists. So the job was closed here, and must not begin
  // again.
  for (const TableId table : tables) {
    if (!segment_.IsDropped(table)) continue;
    return absl::FailedPreconditionError(absl::StrCat("segment ", segment_.id().v, ": job ", end.job.v,
                                                      " was deleted while its rows were loaded"));
  }
  Append(end);
  return absl::OkStatus();
}

bool Primary::Loaded(JobId job, uint64_t id, std::string* why) {
  if (!MayChange(why)) return false;
  if (segment_.SnapshotsOf(job).loaded >= id) return ChangeCommitted(Record(EndLoad{}).index(), id, why);
  *why = absl::StrCat("segment ", segment_.id().v, ": its rows are being loaded");
  return false;
}

}  // namespace paceline::log
