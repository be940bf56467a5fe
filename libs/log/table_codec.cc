#include "libs/log/table_codec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/wire/schema_codec.h"
#include "libs/wire/texts.h"

namespace paceline::log {

v1::Table ToProto(const TableInfo& table) {
  v1::Table out;
  out.set_id(table.id.v);
  out.set_job(table.job.v);
  out.set_name(table.name);
  *out.mutable_schema() = wire::ToProto(table.schema);
  return out;
}

absl::StatusOr<std::shared_ptr<const TableInfo>> TableFromProto(const v1::Table& table) {
  if (absl::Status wrong = wire::CheckTexts(table); !wrong.ok()) return wrong;
  absl::StatusOr<table::Schema> schema = wire::SchemaFromProto(table.schema());
  if (!schema.ok()) {
    return absl::Status(schema.status().code(),
                        absl::StrCat("table '", table.name(), "': ", schema.status().message()));
  }
  return std::make_shared<const TableInfo>(TableInfo{.id = TableId(table.id()),
                                                     .job = JobId(table.job()),
                                                     .name = table.name(),
                                                     .schema = *std::move(schema)});
}

}  // namespace paceline::log
