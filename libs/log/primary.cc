#include "libs/log/primary.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/part_check.h"
#include "libs/log/refusals.h"

namespace paceline::log {
namespace {

constexpr uint32_t kRetryAfterMs = 50;

v1::Line ToWire(Line line) {
  return static_cast<v1::Line>(line);
}

}  // namespace

Primary::Primary(SegmentId id, int ring_bits, Epoch epoch, ShardSide shard)
    : Primary({.segment = Segment(id, ring_bits), .tail = LogTail(LogPosition{})}, epoch, {},
              std::move(shard), Replication{}) {}

Primary::Primary(Segment segment, Epoch epoch, ShardSide shard)
    : Primary({.segment = std::move(segment), .tail = LogTail(LogPosition{})}, epoch, {}, std::move(shard),
              Replication{}) {}

Primary::Primary(State state, Epoch epoch, const std::vector<ring::Member>& replicas, ShardSide shard,
                 const Replication& replication)
    : segment_(std::move(state.segment)),
      epoch_(epoch),
      shard_(std::move(shard)),
      clock_(replication.clock),
      replicas_(segment_.id(),
                state.tail.end() == LogPosition{.epoch = segment_.epoch(), .lsn = segment_.version()}
                    ? std::move(state.tail)
                    : LogTail(LogPosition{.epoch = segment_.epoch(), .lsn = segment_.version()}),
                replication.clock, replication.port, replication.numbers, replication.durable,
                replication.disk),
      folds_(shard_.staging),
      cuts_(shard_.memory),
      tracker_(shard_.changes_max) {
  replicas_.SetPace(replication.image_pace);
  segment_.ForgetSoftState();
  shard_.memory->Grown(static_cast<int64_t>(segment_.bytes()));
  Begin(epoch, replicas);
}

Primary::State Primary::Release(const v1::Refusal& refusal) {
  Abandon(refusal);
  cuts_.End(segment_);
  folds_.Clear();
  shard_.memory->Grown(-static_cast<int64_t>(segment_.bytes()));
  return {.segment = std::move(segment_), .tail = std::move(replicas_).TakeTail()};
}

v1::Refusal Primary::OfPart(v1::Refusal refusal, const Update& update) const {
  refusal.set_line(ToWire(update.line));
  refusal.set_number(update.number);
  if (segment_.FindSession(update.session) != nullptr) {
    refusal.set_expected(Here(update.session).At(update.line) + 1);
  }
  return refusal;
}

v1::Refusal Primary::Refuse(const absl::Status& status, const Update& update) const {
  const bool full = absl::IsResourceExhausted(status);
  const bool later = full || absl::IsUnavailable(status);
  v1::Refusal refusal = RefusalOf(full    ? v1::Refusal::OVER_BUDGET
                                  : later ? v1::Refusal::UNAVAILABLE
                                          : v1::Refusal::INVALID,
                                  segment_.id(), status.message());
  if (later) refusal.set_retry_after_ms(kRetryAfterMs);
  return OfPart(std::move(refusal), update);
}

Effects Primary::Append(const Record& record) {
  const Effects effects = segment_.Apply(record);
  if (effects.bytes_grown != 0) shard_.memory->Grown(effects.bytes_grown);
  if (effects.rows_updated != 0) shard_.records->RowsUpdated(effects.rows_updated);
  const AppliedRecord applied(record);
  replicas_.Appended(applied);
  if (!std::holds_alternative<Update>(record)) NoteChange(record);
  shard_.records->Applied(segment_, applied);
  return effects;
}

std::optional<v1::Refusal> Primary::Take(const Part& part) {
  if (handing_over()) return NotNow("is being handed over", 5);
  if (replicas_.OwnDiskFails())
    return NotNow("is read-only, as the disk of its primary fails", kRetryAfterMs);
  if (replicas_.Backlogged()) return NotNow("has too much that is not replicated yet", kRetryAfterMs);
  if (shard_.records->DiskBehind())
    return NotNow("has too much waiting for its disk, which does not work", kRetryAfterMs);
  std::optional<v1::Refusal> refusal = Judge(part);
  // Another member may have taken over and have what seems to be missing here.
  if (refusal.has_value() && !MayAnswer()) return NotNow("may not answer now", kRetryAfterMs);
  return refusal;
}

std::optional<v1::Refusal> Primary::WhyOver(SessionId session, JobId job) const {
  if (!segment_.IsClosed(session)) return std::nullopt;
  return sessions_.NotOpen(session, job, segment_, "; open a new session");
}

std::optional<v1::Refusal> Primary::Judge(const Part& part) {
  const Update& update = part.update;
  const Segment::SessionState* session = segment_.FindSession(update.session);
  if (session == nullptr || session->job != part.job) {
    return OfPart(sessions_.NotOpen(update.session, part.job, segment_,
                                    "; open a new session and go on from the last committed part"),
                  update);
  }
  if (update.number == 0) {
    return Refuse(absl::InvalidArgumentError("part: its number is 0; parts are numbered from 1"), update);
  }
  const bool aggregated = update.line == Line::kAggregated;
  const PartNumber applied = session->applied.At(update.line);
  const PartNumber here = Here(update.session).At(update.line);
  const auto acknowledge = [&](PartNumber upto) {
    Acknowledge(part.acks, {.segment = segment_.id(), .line = update.line, .number = upto});
  };
  if (update.number <= here && (aggregated || !Planted(Bug::kDedupForgotten))) {
    const wire::Mark repeated{.segment = segment_.id(), .line = update.line, .number = applied};
    if (update.number <= applied && Planted(Bug::kRepeatAckedEarly)) part.acks->Committed(repeated);
    if (update.number <= applied) acknowledge(applied);
    folds_.Tell(update.session, part.acks);
    return std::nullopt;
  }
  const bool gap = update.number > here + 1 && !Planted(Bug::kGapAccepted);
  if (gap && Planted(Bug::kRetryAckedEarly)) acknowledge(update.number);
  if (gap) {
    return OfPart(RefusalOf(v1::Refusal::OUT_OF_ORDER, segment_.id(),
                            absl::StrCat("part ", update.number, " came before part ", here + 1,
                                         "; send again from there")),
                  update);
  }
  if (update.count != 0 && Planted(Bug::kAckBeforeApply)) acknowledge(update.number);
  if (update.count != 0 && part.table->schema.aggregated != aggregated) {
    return Refuse(absl::InvalidArgumentError(
                      absl::StrCat("line: ", static_cast<int>(update.line), "; table '", part.table->name,
                                   aggregated ? "' is applied on arrival, its parts go on line 1"
                                              : "' is aggregated, its parts go on line 2")),
                  update);
  }
  if (aggregated && !Planted(Bug::kStagingOff)) return Stage(part);
  if (update.count != 0) {
    absl::Status fits = CheckContent(part, segment_);
    if (fits.ok()) fits = CheckMemory(part);
    if (!fits.ok()) return Refuse(fits, update);
  }
  if (cuts_.Awaits(update, part.job, segment_)) {
    return Refuse(absl::UnavailableError(
                      absl::StrCat("segment ", segment_.id().v, " takes no parts of clock ", update.clock,
                                   " before its cut; it waits for ", DescribeSlowest(segment_, part.job))),
                  update);
  }
  tracker_.Apply(update, segment_, [&] { Append(update); });
  acknowledge(update.number);
  segment_.ClockOf(part.job).Taken(update.session, Here(update.session));
  MoveOn(part.job);
  AdvanceRounds();
  return std::nullopt;
}

absl::Status Primary::CheckMemory(const Part& part) {
  OpenTableIfNew(part.table);
  return CheckFits(part, segment_, *shard_.memory);
}

void Primary::Tick(SessionId session, Clock clock, const clock::LineCounts& seals) {
  const Segment::SessionState* open = segment_.FindSession(session);
  if (open == nullptr) return;
  segment_.ClockOf(open->job).Tick(session, clock, seals, Here(session));
  if (!handing_over()) MoveOn(open->job);  // nothing is written during a hand-over; it may fail
}

}  // namespace paceline::log
