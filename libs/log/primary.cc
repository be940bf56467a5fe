#include "libs/log/primary.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/keys.h"
#include "libs/table/admission.h"

namespace paceline::log {
namespace {

constexpr uint32_t kRetryAfterMs = 50;

v1::Line ToWire(Line line) {
  return static_cast<v1::Line>(line);
}

}  // namespace

Primary::Primary(SegmentId id, int ring_bits, Epoch epoch, std::shared_ptr<Budget> budget)
    : segment_(id, ring_bits), epoch_(epoch), began_(segment_.version()), budget_(std::move(budget)) {}

Primary::Primary(Segment segment, Epoch epoch, std::shared_ptr<Budget> budget)
    : segment_(std::move(segment)), epoch_(epoch), began_(segment_.version()), budget_(std::move(budget)) {
  segment_.ForgetSoftState();
  budget_->Grown(static_cast<int64_t>(segment_.bytes()));
}

Segment Primary::Release(const v1::Refusal& refusal) {
  Abandon(refusal);
  budget_->Grown(-static_cast<int64_t>(segment_.bytes()));
  return std::move(segment_);
}

v1::Refusal Primary::Refuse(v1::Refusal::Reason reason, const Update& update, std::string message) const {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_message(std::move(message));
  refusal.set_segment(segment_.id().v);
  refusal.set_line(ToWire(update.line));
  refusal.set_number(update.number);
  if (const Segment::Session* session = segment_.FindSession(update.session)) {
    refusal.set_expected(session->applied.At(update.line) + 1);
  }
  return refusal;
}

Effects Primary::Append(const Record& record) {
  const Effects effects = segment_.Apply(record);
  if (effects.bytes_grown != 0) budget_->Grown(effects.bytes_grown);
  if (effects.rows_updated != 0) budget_->RowsUpdated(effects.rows_updated);
  budget_->Logged(segment_, epoch_, record);
  return effects;
}

void Primary::OpenTableIfNew(const std::shared_ptr<const TableInfo>& table) {
  if (segment_.FindTable(table->id) == nullptr) Append(OpenTable{table});
}

std::optional<v1::Refusal> Primary::Take(const Part& part) {
  const Update& update = part.update;
  const Segment::Session* session = segment_.FindSession(update.session);
  if (session == nullptr || session->job != part.job) {
    const auto reason = eviction_reasons_.find(update.session);
    return Refuse(
        v1::Refusal::FENCED, update,
        absl::StrCat("session ", update.session.v, " of job ", part.job.v, " is not open in segment ",
                     segment_.id().v,
                     reason == eviction_reasons_.end() ? "" : absl::StrCat(" (", reason->second, ")"),
                     "; open a new session and go on from the last committed part"));
  }
  const PartNumber applied = session->applied.At(update.line);
  const auto acknowledge = [&](PartNumber upto) {
    part.acks->Committed({.segment = segment_.id(), .line = update.line, .number = upto});
  };
  if (update.number <= applied && !Planted(Bug::kDedupForgotten)) {
    acknowledge(applied);
    return std::nullopt;
  }
  const bool gap = update.number > applied + 1 && !Planted(Bug::kGapAccepted);
  if (gap && Planted(Bug::kRetryAckedEarly)) acknowledge(update.number);
  if (gap) {
    return Refuse(
        v1::Refusal::OUT_OF_ORDER, update,
        absl::StrCat("part ", update.number, " came before part ", applied + 1, "; send again from there"));
  }
  if (update.count != 0) {
    if (Planted(Bug::kAckBeforeApply)) acknowledge(update.number);
    if (auto refusal = CheckContent(part, *session)) return refusal;
    OpenTableIfNew(part.table);
    if (!Fits(*segment_.FindTable(part.table->id), update)) {
      v1::Refusal refusal =
          Refuse(v1::Refusal::OVER_BUDGET, update,
                 absl::StrCat("the shard's memory budget is full; part ", update.number,
                              " would need more and was not taken; add shards or raise --memory-budget"));
      refusal.set_retry_after_ms(kRetryAfterMs);
      return refusal;
    }
  }
  Append(update);
  acknowledge(update.number);
  clock::JobClock& clock = segment_.ClockOf(part.job);
  clock.Taken(update.session, session->applied);
  AdvanceMinClock(part.job);
  if (!parked_.empty()) WakeParked();
  return std::nullopt;
}

// The cheap bound takes every key for unborn; only where that does not fit are the keys looked up.
bool Primary::Fits(const Segment::Table& table, const Update& update) const {
  if (update.form == KeyForm::kKeys) {
    const table::KeyView keys = Keys(update.keys);
    return budget_->Admits(table.rows.NewBytesBound(keys.size())) ||
           budget_->Admits(table.rows.NewBytesBound(keys));
  }
  std::vector<uint64_t> blocks;  // a key of each block the ranges touch: a block is born whole
  ForEachRange(update.keys, [&](uint64_t first, uint64_t count) {
    const std::vector<ring::Piece> pieces = table.placement.ForRange(first, count).value();
    for (const ring::Piece& piece : pieces) blocks.push_back(piece.first);
  });
  return budget_->Admits(table.rows.NewBytesBound(table::KeyView(absl::MakeConstSpan(blocks))));
}

std::optional<v1::Refusal> Primary::CheckContent(const Part& part, const Segment::Session& session) const {
  const Update& update = part.update;
  const auto invalid = [&](absl::string_view message) {
    return Refuse(v1::Refusal::INVALID, update, std::string(message));
  };
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

void Primary::AdvanceMinClock(JobId job) {
  const std::optional<Clock> candidate = segment_.ClockOf(job).Candidate();
  if (candidate.has_value()) Append(Advance{.job = job, .min_clock = *candidate});
}

void Primary::Tick(SessionId session, Clock clock, const clock::LineCounts& seals) {
  const Segment::Session* open = segment_.FindSession(session);
  if (open == nullptr) return;
  segment_.ClockOf(open->job).Tick(session, clock, seals, open->applied);
  AdvanceMinClock(open->job);
  if (!parked_.empty()) WakeParked();
}

}  // namespace paceline::log
