#pragma once

#include "absl/status/statusor.h"
#include "libs/table/schema.h"
#include "paceline/v1/types.pb.h"

namespace paceline::wire {

// A table's schema as it travels and as it is used. Pure. SchemaFromProto takes hostile messages: it returns
// INVALID_ARGUMENT naming the field that is missing, unknown, or refused by table::Validate. A missing
// initialiser means zeros.
v1::TableSchema ToProto(const table::Schema& schema);
absl::StatusOr<table::Schema> SchemaFromProto(const v1::TableSchema& schema);

// The same of a rule alone. RuleFromProto does not judge its rates: table::Validate does, in a schema.
v1::Rule ToProto(const table::Rule& rule);
absl::StatusOr<table::Rule> RuleFromProto(const v1::Rule& rule);

}  // namespace paceline::wire
