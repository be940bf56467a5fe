#include "libs/log/record_check.h"

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/log/keys.h"

namespace paceline::log {
namespace {

template <class... Parts>
absl::Status Misfit(const Segment& segment, const Parts&... parts) {
  return absl::DataLossError(absl::StrCat("record ", segment.version().v + 1, " of segment ", segment.id().v,
                                          ": ", parts...,
                                          "; its log is not the one that this member has applied"));
}

absl::Status CheckOpen(const Segment& segment, SessionId session) {
  if (segment.FindSession(session) != nullptr) return absl::OkStatus();
  return Misfit(segment, "session ", session.v, " is not open");
}

absl::Status CheckRows(const Segment& segment, TableId id, KeyForm form, absl::string_view keys,
                       size_t floats, bool with_slots = false) {
  const Segment::Table* table = segment.FindTable(id);
  if (table == nullptr) return Misfit(segment, "table ", id.v, " is not open");
  ABSL_ASSIGN_OR_RETURN(const uint64_t rows, CountRows(form, keys));
  const table::Schema& schema = table->info->schema;
  const size_t dim = with_slots ? table::FloatsPerRow(schema) : schema.dim;
  if (floats / dim != rows || floats % dim != 0) {
    return Misfit(segment, floats, " floats for ", rows, " rows of ", dim);
  }
  if (auto placed = CheckPlaced(table->placement, segment.id(), form, keys); !placed.ok()) {
    return Misfit(segment, placed.message());
  }
  if (!table->placement.ranged() || form == KeyForm::kRanges) return absl::OkStatus();
  const table::KeyView view = Keys(keys);
  for (size_t i = 0; i < view.size(); ++i) {
    if (view[i] >= table->placement.rows()) {
      return Misfit(segment, "key ", view[i], " of a table of ", table->placement.rows(), " rows");
    }
  }
  return absl::OkStatus();
}

class Checker {
 public:
  explicit Checker(const Segment& segment) : segment_(segment) {}

  absl::Status operator()(const OpenTable& record) const {
    if (!segment_.IsDropped(record.table->id)) return absl::OkStatus();
    return Misfit(segment_, "table ", record.table->id.v, " was dropped");
  }

  absl::Status operator()(const OpenSession& record) const {
    if (!segment_.IsClosed(record.session)) return absl::OkStatus();
    return Misfit(segment_, "session ", record.session.v, " was closed");
  }

  absl::Status operator()(const Join& record) const {
    ABSL_RETURN_IF_ERROR(CheckOpen(segment_, record.session));
    const Segment::SessionState& session = *segment_.FindSession(record.session);
    if (session.finished) return Misfit(segment_, "worker ", record.session.v, " has finished");
    const Clock min_clock = segment_.MinClockOf(session.job);
    if (record.start >= min_clock) return absl::OkStatus();
    return Misfit(segment_, "worker ", record.session.v, " starts at ", record.start, " below the min clock ",
                  min_clock);
  }

  absl::Status operator()(const Finish& record) const { return CheckOpen(segment_, record.session); }
  absl::Status operator()(const Evict&) const { return absl::OkStatus(); }
  absl::Status operator()(const Advance&) const { return absl::OkStatus(); }
  absl::Status operator()(const DropTable&) const { return absl::OkStatus(); }
  absl::Status operator()(const CloseJob&) const { return absl::OkStatus(); }

  absl::Status operator()(const Update& record) const {
    ABSL_RETURN_IF_ERROR(CheckOpen(segment_, record.session));
    if (record.count == 0) return absl::OkStatus();
    return CheckRows(segment_, record.table, record.form, record.keys, record.values.size() / sizeof(float));
  }

  absl::Status operator()(const Fold& record) const {
    for (const FoldedRows& rows : record.tables) {
      const absl::string_view keys(reinterpret_cast<const char*>(rows.keys.data()),
                                   rows.keys.size() * kKeyBytes);
      ABSL_RETURN_IF_ERROR(CheckRows(segment_, rows.table, KeyForm::kKeys, keys, rows.values.size()));
    }
    for (const auto& [session, number] : record.numbers) {
      ABSL_RETURN_IF_ERROR(CheckOpen(segment_, session));
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const ChangeRule& record) const {
    const Segment::Table* table = segment_.FindTable(record.table->id);
    if (table == nullptr) return Misfit(segment_, "table ", record.table->id.v, " is not open");
    if (record.number < table->rules.last()) {
      return Misfit(segment_, "rates ", record.number, " come after ", table->rules.last());
    }
    if (auto same = table::CheckRuleChange(table->info->schema.rule, record.rule); !same.ok()) {
      return Misfit(segment_, same.message());
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const Cut& record) const {
    const uint64_t last = segment_.SnapshotsOf(record.job).cut;
    if (record.id > last) return absl::OkStatus();
    return Misfit(segment_, "cut ", record.id, " of job ", record.job.v, " comes after ", last);
  }

  absl::Status operator()(const Load& record) const {
    const absl::string_view keys(reinterpret_cast<const char*>(record.keys.data()),
                                 record.keys.size() * kKeyBytes);
    return CheckRows(segment_, record.table, KeyForm::kKeys, keys, record.rows.size(), /*with_slots=*/true);
  }

  absl::Status operator()(const EndLoad& record) const {
    const Clock min_clock = segment_.MinClockOf(record.job);
    if (record.clock >= min_clock) return absl::OkStatus();
    return Misfit(segment_, "job ", record.job.v, " was loaded at clock ", record.clock,
                  " below its min clock ", min_clock);
  }

  absl::Status operator()(const BeginChange& record) const {
    if (record.number == 0 || !segment_.changes().IsLate(record.subject, record.number)) {
      return absl::OkStatus();
    }
    return Misfit(segment_, "change ", record.number, " of subject ", record.subject.id, " is late");
  }

  absl::Status operator()(const BeginEpoch& record) const {
    if (record.epoch > segment_.epoch()) return absl::OkStatus();
    return Misfit(segment_, "epoch ", record.epoch.v, " begins after ", segment_.epoch().v);
  }

 private:
  const Segment& segment_;
};

}  // namespace

absl::Status CheckApplies(const Segment& segment, const Record& record) {
  return std::visit(Checker(segment), record);
}

}  // namespace paceline::log
