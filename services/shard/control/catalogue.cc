#include "services/shard/control/catalogue.h"

#include "absl/strings/str_cat.h"
#include "libs/log/table_codec.h"

namespace paceline::shard {

absl::StatusOr<Catalogue> Catalogue::FromProto(const v1::Catalogue& catalogue) {
  Catalogue out;
  out.version_ = CatalogueVersion(catalogue.version());
  out.newest_ = TableId(catalogue.newest_table());
  for (const v1::Table& table : catalogue.tables()) {
    absl::StatusOr<std::shared_ptr<const log::TableInfo>> info = log::TableFromProto(table);
    if (!info.ok()) {
      return absl::Status(info.status().code(), absl::StrCat("catalogue: ", info.status().message()));
    }
    const TableId id = (*info)->id;
    out.tables_[id] = *std::move(info);
  }
  return out;
}

absl::StatusOr<std::shared_ptr<const log::TableInfo>> Catalogue::Find(TableId table, JobId job) const {
  const auto it = tables_.find(table);
  if (it == tables_.end() && table > TableId(0) && table <= newest_) {
    return absl::NotFoundError(
        absl::StrCat("table: ", table.v, " was dropped; open it again by name for a new one"));
  }
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
