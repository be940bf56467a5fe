#include "libs/log/part_check.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/log/keys.h"
#include "libs/table/admission.h"

namespace paceline::log {
namespace {

// The cheap bound assumes that every key is unborn; keys are looked up only if that does not fit. Rows that
// are there are updated also where copies, which are not asked for, have taken more than the budget.
bool Fits(const Segment::Table& table, const Update& update, RowMemory& memory) {
  const auto admits = [&memory](uint64_t bytes) { return bytes == 0 || memory.Admits(bytes); };
  if (update.form == KeyForm::kKeys) {
    const table::KeyView keys = Keys(update.keys);
    return admits(table.rows.NewBytesBound(keys.size())) || admits(table.rows.NewBytesBound(keys));
  }
  std::vector<uint64_t> blocks;  // one key of each block that the ranges touch: a block is born whole
  ForEachRange(update.keys, [&](uint64_t first, uint64_t count) {
    const std::vector<ring::Piece> pieces = table.placement.ForRange(first, count).value();
    for (const ring::Piece& piece : pieces) blocks.push_back(piece.first);
  });
  return admits(table.rows.NewBytesBound(table::KeyView(absl::MakeConstSpan(blocks))));
}

absl::Status CheckUpdate(const Part& part) {
  const table::Schema& schema = part.table->schema;
  const Update& update = part.update;
  const table::ValueView values = Values(update.values);
  if (part.keys_known) return table::CheckValues(schema, update.count, values);
  if (update.form == KeyForm::kKeys) return table::CheckUpdate(schema, Keys(update.keys), values);
  absl::Status content;
  size_t at = 0;
  ForEachRange(update.keys, [&](uint64_t first, uint64_t count) {
    if (!content.ok()) return;
    content = table::CheckRangeUpdate(schema, first, count, values.subview(at, count * schema.dim));
    at += count * schema.dim;
  });
  return content;
}

}  // namespace

absl::Status CheckNotDropped(const TableInfo& table, const Segment& segment) {
  if (!segment.IsDropped(table.id) || Planted(Bug::kDroppedTableResurrected)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("table '", table.name, "' (", table.id.v,
                                          ") was dropped; open it again for a new one of that name"));
}

absl::Status CheckPlacedIn(const TableInfo& table, int ring_bits, SegmentId segment, KeyForm form,
                           absl::string_view keys) {
  const table::Schema& schema = table.schema;
  const ring::Placement placement =
      schema.kind == table::Kind::kSparse
          ? ring::Placement::Sparse(table.id, ring_bits).value()
          : ring::Placement::Ranged(table.id, ring_bits, schema.rows, schema.dim).value();
  return CheckPlaced(placement, segment, form, keys);
}

absl::Status CheckContent(const Part& part, const Segment& segment) {
  const Update& update = part.update;
  ABSL_RETURN_IF_ERROR(CheckNotDropped(*part.table, segment));
  const Segment::SessionState& session = *segment.FindSession(update.session);
  if (session.finished) {
    return absl::InvalidArgumentError(
        "session: its worker has finished, and said that no more updates would come; open a new "
        "session for more");
  }
  if (const auto clock = segment.jobs().find(session.job); clock != segment.jobs().end()) {
    const auto worker = clock->second.workers().find(update.session);
    if (worker != clock->second.workers().end() && update.clock < worker->second.counted) {
      return absl::InvalidArgumentError(
          absl::StrCat("clock: ", update.clock, " is already sealed by this worker's tick ",
                       worker->second.counted, "; push updates of a clock before ticking past it"));
    }
  }
  if (!part.keys_known) {
    const absl::Status placed =
        CheckPlacedIn(*part.table, segment.ring_bits(), segment.id(), update.form, update.keys);
    if (!placed.ok()) return absl::InvalidArgumentError(placed.message());
  }
  const absl::Status content = CheckUpdate(part);
  if (content.ok()) return content;
  return absl::InvalidArgumentError(absl::StrCat("table '", part.table->name, "': ", content.message()));
}

absl::Status CheckFits(const Part& part, const Segment& segment, RowMemory& memory) {
  if (Fits(*segment.FindTable(part.table->id), part.update, memory)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the shard's memory budget is full; part ", part.update.number,
                   " would need more and was not taken; add shards or raise --memory-budget"));
}

}  // namespace paceline::log
