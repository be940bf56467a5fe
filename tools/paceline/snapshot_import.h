#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/snapshot/files.h"
#include "paceline/v1/snapshot.pb.h"
#include "tools/paceline/arrays.h"

namespace paceline::tool {

// A table to be made of arrays.
struct ImportedTable {
  v1::Table table;   // name and schema
  std::string keys;  // arrays; empty: it is ranged
  std::string values;
  std::string slots;  // empty: slots begin as in a new row
};

// Decides what the arrays of a file become. T.keys and T.values make a sparse table T; T.slots, beside T or
// these two, has its slots; every other array is a ranged table of its own name, its first dimension the rows
// and the others together a row's values. `schemas`, by the names of their tables, give initialiser, rule,
// and so on; kind and widths follow from the arrays, and must agree with a schema that states them. A table
// without a schema has the rule Add. kInvalidArgument names the array and the expectation.
absl::StatusOr<std::vector<ImportedTable>> TablesOf(const ArrayFile& arrays,
                                                    const v1::SnapshotManifest& schemas);

struct ImportOptions {
  std::string snapshot;  // the new one's name
  std::string job;
  uint64_t clock = 0;  // at which workers start
  int64_t created_unix_s = 0;
};

// Writes the arrays as a snapshot of a ring of one segment, which is restored as any other. Takes 8 bytes of
// memory per key of the largest sparse table, and little else. On failure it deletes its output.
// kAlreadyExists: there is a snapshot of that name.
absl::StatusOr<v1::SnapshotManifest> ImportArrays(snapshot::Files& files, ArrayFile& arrays,
                                                  const std::vector<ImportedTable>& tables,
                                                  const ImportOptions& options);

}  // namespace paceline::tool
