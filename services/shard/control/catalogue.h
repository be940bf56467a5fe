#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "libs/log/record.h"
#include "paceline/v1/types.pb.h"

namespace paceline::shard {

// The list of tables, one version of it. Immutable; shared between threads as shared_ptr<const Catalogue>.
class Catalogue {
 public:
  Catalogue() = default;

  // INVALID_ARGUMENT naming the table and field if a schema is not valid.
  static absl::StatusOr<Catalogue> FromProto(const v1::Catalogue& catalogue);

  CatalogueVersion version() const { return version_; }

  // The table, as a session of `job` may see it. NOT_FOUND: no such table, or it was dropped;
  // PERMISSION_DENIED: another job's.
  absl::StatusOr<std::shared_ptr<const log::TableInfo>> Find(TableId table, JobId job) const;

 private:
  CatalogueVersion version_;
  TableId newest_;  // that was ever created
  absl::flat_hash_map<TableId, std::shared_ptr<const log::TableInfo>> tables_;
};

}  // namespace paceline::shard
