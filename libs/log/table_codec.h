#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "libs/log/record.h"
#include "paceline/v1/types.pb.h"

namespace paceline::log {

// Converts a table between its wire form and the form that records use. TableFromProto is safe for hostile
// messages: INVALID_ARGUMENT names the table and the field of its schema that is missing, unknown, or refused
// by table::Validate.
v1::Table ToProto(const TableInfo& table);
absl::StatusOr<std::shared_ptr<const TableInfo>> TableFromProto(const v1::Table& table);
// The same for the subject of a change.
v1::Subject ToProto(const Subject& subject);
absl::StatusOr<Subject> SubjectFromProto(const v1::Subject& subject);

}  // namespace paceline::log
