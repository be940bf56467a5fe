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

v1::Subject ToProto(const Subject& subject) {
  v1::Subject out;
  out.set_kind(static_cast<v1::Subject::Kind>(subject.kind));
  out.set_id(subject.id);
  return out;
}

absl::StatusOr<Subject> SubjectFromProto(const v1::Subject& subject) {
  if (subject.kind() != v1::Subject::KIND_UNSPECIFIED && v1::Subject::Kind_IsValid(subject.kind())) {
    return Subject{.kind = static_cast<Subject::Kind>(subject.kind()), .id = subject.id()};
  }
  return absl::InvalidArgumentError(absl::StrCat("subject: kind ", static_cast<int>(subject.kind()),
                                                 "; expected a session, a table or a job"));
}

}  // namespace paceline::log
