#pragma once

#include "absl/status/statusor.h"
#include "libs/table/schema.h"
#include "paceline/v1/types.pb.h"

namespace paceline::wire {

// Converts a table's schema between its wire form and the form in use. Pure. SchemaFromProto is safe for
// hostile messages: INVALID_ARGUMENT names the field that is missing, unknown, or refused by table::Validate.
// A missing initialiser means zeros.
v1::TableSchema ToProto(const table::Schema& schema);
absl::StatusOr<table::Schema> SchemaFromProto(const v1::TableSchema& schema);

// The same for a rule alone. RuleFromProto does not check its rates: table::Validate does, as part of a
// schema.
v1::Rule ToProto(const table::Rule& rule);
absl::StatusOr<table::Rule> RuleFromProto(const v1::Rule& rule);

}  // namespace paceline::wire
