#include "libs/log/folds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/log/keys.h"
#include "libs/log/part_check.h"
#include "libs/log/refusals.h"

namespace paceline::log {
namespace {

// The most bytes of a table's rows in a fold: each is there once, however many workers push it.
uint64_t FoldedBytesMax(TableId id, const Segment& segment) {
  const Segment::Table* const table = segment.FindTable(id);
  if (table == nullptr || !table->placement.ranged()) return UINT64_MAX;
  const uint64_t in_block = table->placement.RowsPerBlock();
  const uint64_t blocks = (table->placement.rows() / in_block >> segment.ring_bits()) + 2;
  const uint64_t row_bytes = kKeyBytes + uint64_t{table->info->schema.dim} * sizeof(float);
  return blocks > UINT32_MAX ? UINT64_MAX : blocks * in_block * row_bytes;
}

}  // namespace

clock::LineCounts Folds::Here(SessionId session, const Segment& segment) const {
  const Segment::SessionState* open = segment.FindSession(session);
  clock::LineCounts here = open == nullptr ? clock::LineCounts() : open->applied;
  here.At(Line::kAggregated) = std::max(here.At(Line::kAggregated), staging_.Last(session));
  return here;
}

Clock Folds::ClockOfEmpty(const Update& update, const clock::JobClock& clock) const {
  return std::max({update.clock, clock.min_clock(), staging_.LastClock(update.session)});
}

absl::Status Folds::Check(const Part& part, const Segment& segment) const {
  const Update& update = part.update;
  const clock::JobClock& clock = segment.jobs().at(part.job);
  const auto worker = clock.workers().find(update.session);
  if (worker == clock.workers().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("session: ", update.session.v, " is not a worker; table '", part.table->name,
                     "' is aggregated once per clock and takes updates of workers only: join first"));
  }
  if (update.clock < worker->second.start) {
    return absl::InvalidArgumentError(absl::StrCat("clock: ", update.clock, "; this worker starts at ",
                                                   worker->second.start,
                                                   ": push updates of that clock or later"));
  }
  if (update.clock < clock.min_clock()) {
    return absl::InvalidArgumentError(
        absl::StrCat("clock: ", update.clock, " is complete already, the min clock is ", clock.min_clock(),
                     "; push updates of a clock before ticking past it"));
  }
  if (update.clock < staging_.LastClock(update.session)) {
    return absl::InvalidArgumentError(absl::StrCat("clock: ", update.clock, " comes after a part of clock ",
                                                   staging_.LastClock(update.session),
                                                   "; numbers follow the clocks"));
  }
  if (absl::Status content = CheckContent(part, segment); !content.ok()) return content;
  const uint64_t clock_bytes = staging_.bytes(part.job, update.clock) + Staging::BytesOf(update);
  if (clock_bytes > room_->staging_max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "values: the updates of clock ", update.clock, " come to ", clock_bytes, " bytes in segment ",
        segment.id().v, " alone, and a shard stages at most ", room_->staging_max(),
        "; raise --staging-budget of the shards, or push less in a clock"));
  }
  const uint64_t folded_bytes = FoldedBytesWith(part, segment);
  if (folded_bytes <= kFoldBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("values: rows and keys of clock ", update.clock, " come to ", folded_bytes,
                   " bytes in segment ", segment.id().v, " alone, and one clock folds at most ",
                   kFoldBytesMax, "; start the cluster with more --ring-bits, or push less in a clock"));
}

uint64_t Folds::FoldedBytesWith(const Part& part, const Segment& segment) const {
  std::map<TableId, uint64_t> tables = staging_.folded_bytes(part.job, part.update.clock);
  tables[part.table->id] += Staging::FoldedBytesOf(part.update, part.table->schema.dim);
  uint64_t sum = 0;
  for (const auto& [table, bytes] : tables) sum += std::min(bytes, FoldedBytesMax(table, segment));
  return sum;
}

// Parts of later clocks wait for the fold of the next clock. Parts of the next clock should find room at
// once: everything staged waits for them. A budget of twice a clock's updates guarantees that. With a smaller
// one there may be room when another segment folds, or never.
absl::Status Folds::FindRoom(const Part& part, bool ahead, const Segment& segment, absl::Time now) {
  if (room_->Stage(Staging::BytesOf(part.update), ahead)) {
    if (!ahead) no_room_since_.erase(part.job);
    return absl::OkStatus();
  }
  const bool hopeless =
      !ahead && now - no_room_since_.try_emplace(part.job, now).first->second > kRoomWaitMax;
  const std::string message =
      absl::StrCat("the shard stages at most ", room_->staging_max(),
                   " bytes of aggregated tables, half of it for clocks beyond the next to be folded; ",
                   hopeless ? absl::StrCat("there was no room for clock ", part.update.clock, " for ",
                                           absl::FormatDuration(kRoomWaitMax))
                            : absl::StrCat("it waits for ", DescribeSlowest(segment, part.job)),
                   "; raise --staging-budget to twice the updates of a clock");
  return hopeless ? absl::InvalidArgumentError(message) : absl::ResourceExhaustedError(message);
}

void Folds::Put(const Part& part, const Update& update) {
  staging_.Put(part.job, update, part.table);
  staging_.Tell(update.session, part.acks);
}

std::optional<Folds::Step> Folds::Next(JobId job, const clock::JobClock& clock, std::optional<Clock> stop) {
  const std::optional<Clock> candidate = clock.Candidate();
  if (!candidate.has_value()) return std::nullopt;
  const Clock staged = staging_.Oldest(job).value_or(*candidate);
  if (staged != clock.min_clock()) {
    const Clock to = std::max(stop.value_or(*candidate), clock.min_clock() + 1);
    return Step{.record = Advance{.job = job, .min_clock = std::min({*candidate, staged, to})}, .folded = {}};
  }
  Staging::Complete complete = staging_.Take(job, clock.min_clock(), clock);
  room_->Unstage(complete.bytes);
  Step step{.record = Advance{}, .folded = {}};
  for (size_t i = 0; i < complete.sinks.size(); ++i) {
    for (std::shared_ptr<AckSink>& sink : complete.sinks[i]) {
      step.folded.emplace_back(std::move(sink), complete.record.numbers[i].second);
    }
  }
  step.record = std::move(complete.record);
  return step;
}

}  // namespace paceline::log
