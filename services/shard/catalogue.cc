#include "services/shard/catalogue.h"

#include "absl/strings/str_cat.h"
#include "libs/wire/schema_codec.h"

namespace paceline::shard {

absl::StatusOr<Catalogue> Catalogue::FromProto(const v1::Catalogue& catalogue) {
  Catalogue out;
  out.version_ = CatalogueVersion(catalogue.version());
  for (const v1::Table& table : catalogue.tables()) {
    absl::StatusOr<table::Schema> schema = wire::SchemaFromProto(table.schema());
    if (!schema.ok()) {
      return absl::Status(schema.status().code(),
                          absl::StrCat("catalogue: table '", table.name(), "': ", schema.status().message()));
    }
    const TableId id(table.id());
    out.tables_[id] = std::make_shared<const log::TableInfo>(log::TableInfo{
        .id = id, .job = JobId(table.job()), .name = table.name(), .schema = *std::move(schema)});
  }
  return out;
}

absl::StatusOr<std::shared_ptr<const log::TableInfo>> Catalogue::Find(TableId table, JobId job) const {
  const auto it = tables_.find(table);
  if (it == tables_.end()) {
    return absl::NotFoundError(absl::StrCat(
        "table: ", table.v, " is unknown; open it at the coordinator and use the id it returns"));
  }
  if (it->second->job != job) {
    return absl::PermissionDeniedError(absl::StrCat(
        "table: ", table.v, " belongs to another job; a session sees the tables of its own job only"));
  }
  return it->second;
}

}  // namespace paceline::shard
