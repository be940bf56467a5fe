// Job snapshots at the primary: cuts are logged and copied, rows of snapshots are loaded.
#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/log/keys.h"
#include "libs/log/part_check.h"
#include "libs/log/primary.h"
#include "libs/log/refusals.h"

namespace paceline::log {

// -- cuts --

bool Primary::Change(const CutWish& wish, std::string* why, std::optional<Clock>* passed) {
  if (!MayChange(why)) return false;
  if (absl::Status taken = cuts_.Wish(wish, segment_, now_, passed); !taken.ok()) {
    *why = std::string(taken.message());
    return false;
  }
  LogCutIfDue(wish.job);
  if (segment_.SnapshotsOf(wish.job).cut >= wish.id) {
    return Planted(Bug::kCutNotCommitted) || ChangeCommitted(Record(Cut{}).index(), wish.id, why);
  }
  *why =
      absl::StrCat("segment ", segment_.id().v, ": the cut is at clock ", wish.clock, ", the min clock is ",
                   segment_.MinClockOf(wish.job), "; it waits for ", DescribeSlowest(segment_, wish.job));
  return false;
}

void Primary::LogCutIfDue(JobId job) {
  const std::optional<Cut> cut = cuts_.TakeDue(job, segment_);
  if (!cut.has_value()) return;
  Append(*cut);
  cuts_.Logged(*cut, epoch_, now_, segment_);
}

// -- loads --

absl::Status Primary::Take(const std::shared_ptr<const TableInfo>& table, Load load, uint64_t id) {
  std::string why;
  if (!MayChange(&why)) return absl::UnavailableError(why);
  // This load was completed before, and the job may have gone on since.
  if (segment_.SnapshotsOf(table->job).loaded >= id) return absl::OkStatus();
  if (replicas_.Backlogged() || shard_.records->DiskSlow()) {
    return absl::UnavailableError(absl::StrCat(
        "segment ", segment_.id().v, " has too much that is not replicated, or not on its disk, yet"));
  }
  if (absl::Status lives = CheckNotDropped(*table, segment_); !lives.ok()) return lives;
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
