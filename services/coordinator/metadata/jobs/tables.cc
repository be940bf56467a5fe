#include "services/coordinator/metadata/jobs/tables.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/ring/hash.h"
#include "libs/table/schema.h"
#include "libs/wire/schema_codec.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

// The seed of a table whose creator stated none: different for each table, never 0.
uint64_t SeedOf(uint32_t table) {
  return ring::Mix64(/*seed=*/table, /*x=*/1) | 1;
}

}  // namespace

absl::StatusOr<v1::OpenTableReply> Tables::Open(const v1::OpenTableRequest& request) {
  ABSL_ASSIGN_OR_RETURN(const SessionRecord* session, sessions_.FindLive(request.session(), request.token()));
  ABSL_RETURN_IF_ERROR(CheckName("name", request.name(), context_.options.limits.name_bytes));
  const uint32_t job = session->job();
  v1::OpenTableReply reply;
  if (const v1::Table* table = context_.facts.FindTable(job, request.name())) {
    if (request.create()) ABSL_RETURN_IF_ERROR(CheckSame(*table, request.schema()));
    if (request.bound_max() > table->bound_max())
      ABSL_RETURN_IF_ERROR(AllowBound(*table, request.bound_max()));
    ABSL_RETURN_IF_ERROR(CheckHoldsBack(request, table->schema()));
    table = context_.facts.FindTable(job, request.name());
    if (request.holds_back() && !table->holds_back()) ABSL_RETURN_IF_ERROR(HoldBack(*table));
    *reply.mutable_table() = *context_.facts.FindTable(job, request.name());
  } else if (request.create()) {
    ABSL_ASSIGN_OR_RETURN(*reply.mutable_table(), Create(job, request));
  } else {
    return absl::NotFoundError(absl::StrCat("table '", request.name(), "' of ", context_.facts.JobName(job),
                                            " does not exist; create it, or see whether its name is right"));
  }
  reply.set_catalogue_version(context_.facts.counters().catalogue_version());
  return reply;
}

absl::Status Tables::CheckSame(const v1::Table& table, const v1::TableSchema& schema) const {
  ABSL_ASSIGN_OR_RETURN(table::Schema wanted, wire::SchemaFromProto(schema));
  ABSL_ASSIGN_OR_RETURN(const table::Schema existing, wire::SchemaFromProto(table.schema()));
  if (wanted.seed == 0) wanted.seed = existing.seed;  // accepts any seed
  const std::optional<std::string> difference = table::FirstDifference(existing, wanted);
  if (!difference.has_value()) return absl::OkStatus();
  if (table.has_created_rule()) {
    // A program that was not told of new rates still states those of the table's creation.
    table::Schema created = existing;
    ABSL_ASSIGN_OR_RETURN(created.rule, wire::RuleFromProto(table.created_rule()));
    if (created == wanted) return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat("table '", table.name(), "' of ",
                                               context_.facts.JobName(table.job()),
                                               " exists with another schema: ", *difference,
                                               "; open it with the schema it has, or choose another name"));
}

absl::Status Tables::AllowBound(v1::Table table, uint32_t bound_max) {
  table.set_bound_max(bound_max);
  Changes changes;
  changes.tables.push_back(std::move(table));
  return context_.Commit(changes);
}

absl::Status Tables::CheckHoldsBack(const v1::OpenTableRequest& request,
                                    const v1::TableSchema& schema) const {
  if (!request.holds_back()) return absl::OkStatus();
  if (schema.aggregated()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "table '", request.name(),
        "': holds_back: the table is aggregated, and what is held back would be folded into a later "
        "clock; push every update in its clock"));
  }
  return membership_.CheckSpoken(2, absl::StrCat("table '", request.name(), "': holds_back"));
}

absl::Status Tables::HoldBack(v1::Table table) {
  table.set_holds_back(true);
  Changes changes;
  changes.tables.push_back(std::move(table));
  return context_.Commit(changes);
}

absl::StatusOr<v1::Table> Tables::Create(uint32_t job, const v1::OpenTableRequest& request) {
  ABSL_ASSIGN_OR_RETURN(table::Schema schema, wire::SchemaFromProto(request.schema()));
  ABSL_RETURN_IF_ERROR(membership_.CheckSpoken(
      table::LevelOf(schema.rule),
      absl::StrCat("table '", request.name(), "': the rule ", table::NameOfRule(schema.rule))));
  ABSL_RETURN_IF_ERROR(CheckHoldsBack(request, request.schema()));
  const size_t limit = context_.options.limits.tables;
  const size_t tables = context_.facts.tables().size() + context_.facts.drops().size();
  if (tables >= limit) return TooMany("tables", limit, "use one that exists, or drop one");
  Changes changes;
  changes.counters = context_.facts.counters();
  CountersRecord& counters = *changes.counters;
  counters.set_table(counters.table() + 1);
  counters.set_catalogue_version(counters.catalogue_version() + 1);
  if (schema.seed == 0) schema.seed = SeedOf(counters.table());
  v1::Table table;
  table.set_id(counters.table());
  table.set_job(job);
  table.set_name(request.name());
  *table.mutable_schema() = wire::ToProto(schema);
  if (request.bound_max() != 0) table.set_bound_max(request.bound_max());
  if (request.holds_back()) table.set_holds_back(true);
  changes.tables.push_back(table);
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  context_.probe.TableCreated(table);
  membership_.Pump();
  return table;
}

}  // namespace paceline::coordinator
