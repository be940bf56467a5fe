#include "libs/log/primary.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/keys.h"
#include "libs/log/refusals.h"
#include "libs/table/admission.h"

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
      replicas_(segment_.id(),
                state.tail.end() == LogPosition{.epoch = segment_.epoch(), .lsn = segment_.version()}
                    ? std::move(state.tail)
                    : LogTail(LogPosition{.epoch = segment_.epoch(), .lsn = segment_.version()}),
                replication.clock, replication.port, replication.numbers, replication.durable,
                replication.disk),
      clock_(replication.clock),
      cuts_(shard_.memory) {
  replicas_.SetPace(replication.image_pace);
  segment_.ForgetSoftState();
  shard_.memory->Grown(static_cast<int64_t>(segment_.bytes()));
  Begin(epoch, replicas);
}

Primary::State Primary::Release(const v1::Refusal& refusal) {
  Abandon(refusal);
  cuts_.End(segment_);
  shard_.staging->Unstage(staging_.Clear());
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

v1::Refusal Primary::Refuse(v1::Refusal::Reason reason, const Update& update,
                            absl::string_view message) const {
  return OfPart(RefusalOf(reason, segment_.id(), message), update);
}

Effects Primary::Append(const Record& record) {
  const Effects effects = segment_.Apply(record);
  if (effects.bytes_grown != 0) shard_.memory->Grown(effects.bytes_grown);
  if (effects.rows_updated != 0) shard_.records->RowsUpdated(effects.rows_updated);
  replicas_.Appended(record);
  if (!std::holds_alternative<Update>(record)) NoteChange(record);
  shard_.records->Logged(segment_, epoch_, record);
  return effects;
}

std::optional<v1::Refusal> Primary::Take(const Part& part) {
  if (handing_over()) return NotNow("is being handed over", 5);
  if (replicas_.OwnDiskFails())
    return NotNow("is read-only, as the disk of its primary fails", kRetryAfterMs);
  if (replicas_.Backlogged()) return NotNow("has too much that is not replicated yet", kRetryAfterMs);
  if (shard_.records->DiskBehind()) return NotNow("has too much that is not on its disk yet", kRetryAfterMs);
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
  const Segment::Session* session = segment_.FindSession(update.session);
  if (session == nullptr || session->job != part.job) {
    return OfPart(sessions_.NotOpen(update.session, part.job, segment_,
                                    "; open a new session and go on from the last committed part"),
                  update);
  }
  if (update.number == 0) {
    return Refuse(v1::Refusal::INVALID, update, "part: its number is 0; parts are numbered from 1");
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
    staging_.Tell(update.session, part.acks);
    return std::nullopt;
  }
  const bool gap = update.number > here + 1 && !Planted(Bug::kGapAccepted);
  if (gap && Planted(Bug::kRetryAckedEarly)) acknowledge(update.number);
  if (gap) {
    return Refuse(
        v1::Refusal::OUT_OF_ORDER, update,
        absl::StrCat("part ", update.number, " came before part ", here + 1, "; send again from there"));
  }
  if (update.count != 0 && Planted(Bug::kAckBeforeApply)) acknowledge(update.number);
  if (update.count != 0 && part.table->schema.aggregated != aggregated) {
    return Refuse(v1::Refusal::INVALID, update,
                  absl::StrCat("line: ", static_cast<int>(update.line), "; table '", part.table->name,
                               aggregated ? "' is applied on arrival, its parts go on line 1"
                                          : "' is aggregated, its parts go on line 2"));
  }
  if (aggregated && !Planted(Bug::kStagingOff)) return Stage(part);
  if (update.count != 0) {
    if (auto refusal = CheckContent(part, *session)) return refusal;
    if (auto refusal = CheckMemory(part)) return refusal;
  }
  if (cuts_.Awaits(update, part.job, segment_)) {
    v1::Refusal refusal =
        Refuse(v1::Refusal::UNAVAILABLE, update,
               absl::StrCat("segment ", segment_.id().v, " takes no parts of clock ", update.clock,
                            " before its cut; it waits for ", DescribeSlowest(segment_, part.job)));
    refusal.set_retry_after_ms(kRetryAfterMs);
    return refusal;
  }
  tracker_.Apply(update, segment_, [&] { Append(update); });
  acknowledge(update.number);
  segment_.ClockOf(part.job).Taken(update.session, Here(update.session));
  MoveOn(part.job);
  return std::nullopt;
}

std::optional<v1::Refusal> Primary::CheckMemory(const Part& part) {
  OpenTableIfNew(part.table);
  if (Fits(*segment_.FindTable(part.table->id), part.update)) return std::nullopt;
  v1::Refusal refusal =
      Refuse(v1::Refusal::OVER_BUDGET, part.update,
             absl::StrCat("the shard's memory budget is full; part ", part.update.number,
                          " would need more and was not taken; add shards or raise --memory-budget"));
  refusal.set_retry_after_ms(kRetryAfterMs);
  return refusal;
}

// The cheap bound assumes that every key is unborn; keys are looked up only if that does not fit.
bool Primary::Fits(const Segment::Table& table, const Update& update) const {
  if (update.form == KeyForm::kKeys) {
    const table::KeyView keys = Keys(update.keys);
    return shard_.memory->Admits(table.rows.NewBytesBound(keys.size())) ||
           shard_.memory->Admits(table.rows.NewBytesBound(keys));
  }
  std::vector<uint64_t> blocks;  // one key of each block that the ranges touch: a block is born whole
  ForEachRange(update.keys, [&](uint64_t first, uint64_t count) {
    const std::vector<ring::Piece> pieces = table.placement.ForRange(first, count).value();
    for (const ring::Piece& piece : pieces) blocks.push_back(piece.first);
  });
  return shard_.memory->Admits(table.rows.NewBytesBound(table::KeyView(absl::MakeConstSpan(blocks))));
}

std::optional<v1::Refusal> Primary::CheckContent(const Part& part, const Segment::Session& session) const {
  const Update& update = part.update;
  const auto invalid = [&](absl::string_view message) {
    return Refuse(v1::Refusal::INVALID, update, std::string(message));
  };
  if (auto lives = CheckNotDropped(*part.table); !lives.ok()) return invalid(lives.message());
  if (session.finished) {
    return invalid(
        "session: its worker has finished, and said that no more updates would come; open a new "
        "session for more");
  }
  const clock::JobClock* clock = nullptr;
  if (const auto it = segment_.jobs().find(session.job); it != segment_.jobs().end()) clock = &it->second;
  if (clock != nullptr) {
    const auto worker = clock->workers().find(update.session);
    if (worker != clock->workers().end() && update.clock < worker->second.counted) {
      return invalid(absl::StrCat("clock: ", update.clock, " is already sealed by this worker's tick ",
                                  worker->second.counted,
                                  "; push updates of a clock before ticking past it"));
    }
  }
  const table::Schema& schema = part.table->schema;
  const ring::Placement placement =
      schema.kind == table::Kind::kSparse
          ? ring::Placement::Sparse(part.table->id, segment_.ring_bits()).value()
          : ring::Placement::Ranged(part.table->id, segment_.ring_bits(), schema.rows, schema.dim).value();
  if (auto placed = CheckPlaced(placement, segment_.id(), update.form, update.keys); !placed.ok()) {
    return invalid(placed.message());
  }
  absl::Status content;
  if (update.form == KeyForm::kKeys) {
    content = table::CheckUpdate(schema, Keys(update.keys), Values(update.values));
  } else {
    const table::ValueView values = Values(update.values);
    size_t at = 0;
    ForEachRange(update.keys, [&](uint64_t first, uint64_t count) {
      if (!content.ok()) return;
      content = table::CheckRangeUpdate(schema, first, count, values.subview(at, count * schema.dim));
      at += count * schema.dim;
    });
  }
  if (!content.ok()) return invalid(absl::StrCat("table '", part.table->name, "': ", content.message()));
  return std::nullopt;
}

void Primary::Tick(SessionId session, Clock clock, const clock::LineCounts& seals) {
  const Segment::Session* open = segment_.FindSession(session);
  if (open == nullptr) return;
  segment_.ClockOf(open->job).Tick(session, clock, seals, Here(session));
  if (!handing_over()) MoveOn(open->job);  // nothing is written during a hand-over; it may fail
}

}  // namespace paceline::log
