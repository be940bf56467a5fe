#include "tools/paceline/snapshot_import.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "libs/base/status.h"
#include "libs/base/version.h"
#include "libs/snapshot/manifest.h"
#include "libs/snapshot/segment_file.h"
#include "libs/table/rule.h"
#include "libs/table/schema.h"
#include "libs/wire/schema_codec.h"

namespace paceline::tool {
namespace {

constexpr uint32_t kJob = 1;
constexpr size_t kTablesMax = 4096;
constexpr size_t kNameBytesMax = 128;

absl::Status Wrong(const std::string& array, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("array '", array, "': ", what));
}

std::string ShapeOf(const ArrayShape& array) {
  return absl::StrCat("[", absl::StrJoin(array.shape, ", "), "]");
}

absl::Status CheckTableName(const std::string& name) {
  const bool fits = !name.empty() && name.size() <= kNameBytesMax && std::ranges::all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("._-/:", c);
  });
  if (fits) return absl::OkStatus();
  return Wrong(name,
               "its name would be that of a table; expected 1 to 128 letters, digits, '.', '_', '-', "
               "'/' and ':'");
}

// The product of all but the first dimension.
absl::StatusOr<uint32_t> WidthOf(const std::string& name, const ArrayShape& array) {
  if (array.type != ArrayType::kF32) return Wrong(name, "expected f32 values");
  if (array.shape.empty()) return Wrong(name, "it is a single number; expected rows");
  uint64_t width = 1;
  for (size_t i = 1; i < array.shape.size(); ++i) {
    if (array.shape[i] == 0 || width > UINT32_MAX / array.shape[i]) {
      return Wrong(name, absl::StrCat("shape ", ShapeOf(array), "; expected rows of 1 to 2^32 - 1 values"));
    }
    width *= array.shape[i];
  }
  return static_cast<uint32_t>(width);
}

// "T" of "T.keys", "T.values" and "T.slots".
absl::string_view PartOf(absl::string_view array) {
  return array.substr(0, array.rfind('.'));
}

absl::Status Agree(const std::string& name, absl::string_view field, uint64_t stated, uint64_t is) {
  if (stated == 0 || stated == is) return absl::OkStatus();
  return Wrong(name, absl::StrCat(field, ": ", is, "; its schema has ", stated));
}

absl::Status CheckSlots(const ImportedTable& table, const ArrayFile& arrays, const table::Schema& schema) {
  if (table.slots.empty()) return absl::OkStatus();
  const ArrayShape& slots = arrays.arrays().at(table.slots);
  const uint64_t rows = arrays.arrays().at(table.values).shape[0];
  const uint32_t each = table::SlotsPerValue(schema.rule);
  if (slots.type == ArrayType::kF32 && slots.shape == std::vector<uint64_t>{rows, each, schema.dim}) {
    return absl::OkStatus();
  }
  return Wrong(table.slots, absl::StrCat("shape ", ShapeOf(slots), "; expected f32 [", rows, ", ", each, ", ",
                                         schema.dim, "] by the rule of its table"));
}

// The schema as the arrays complete it.
absl::Status Complete(const ArrayFile& arrays, ImportedTable& table) {
  const ArrayShape& values = arrays.arrays().at(table.values);
  ABSL_ASSIGN_OR_RETURN(const uint32_t dim, WidthOf(table.values, values));
  v1::TableSchema& schema = *table.table.mutable_schema();
  const bool ranged = table.keys.empty();
  const v1::TableKind kind = ranged ? v1::TABLE_KIND_RANGED : v1::TABLE_KIND_SPARSE;
  ABSL_RETURN_IF_ERROR(CheckTableName(table.table.name()));
  ABSL_RETURN_IF_ERROR(Agree(table.values, "kind", schema.kind(), kind));
  ABSL_RETURN_IF_ERROR(Agree(table.values, "values a row", schema.dim(), dim));
  if (ranged) {
    ABSL_RETURN_IF_ERROR(Agree(table.values, "rows", schema.rows(), values.shape[0]));
    schema.set_rows(values.shape[0]);
  } else {
    const ArrayShape& keys = arrays.arrays().at(table.keys);
    if (keys.type == ArrayType::kF32 || keys.shape != std::vector<uint64_t>{values.shape[0]}) {
      return Wrong(table.keys,
                   absl::StrCat("shape ", ShapeOf(keys), "; expected u64 or i64 [", values.shape[0],
                                "], a key for each row of '", table.values, "'"));
    }
  }
  schema.set_kind(kind);
  schema.set_dim(dim);
  if (!schema.has_initialiser()) schema.mutable_initialiser()->mutable_zeros();
  if (!schema.has_rule()) schema.mutable_rule()->mutable_add();
  const absl::StatusOr<table::Schema> checked = wire::SchemaFromProto(schema);
  if (!checked.ok()) return Wrong(table.values, checked.status().message());
  return CheckSlots(table, arrays, *checked);
}

// Reads a whole number of elements at a time.
template <class T>
absl::Status ReadInto(snapshot::Source& source, const std::string& name, absl::Span<T> to) {
  ABSL_ASSIGN_OR_RETURN(const size_t got,
                        source.Read(reinterpret_cast<char*>(to.data()), to.size() * sizeof(T)));
  if (got == to.size() * sizeof(T)) return absl::OkStatus();
  return Wrong(name, "it is cut off");
}

// So that the reader has compared the checksum at its end.
absl::Status AtEnd(snapshot::Source& source, const std::string& name) {
  char more = 0;
  ABSL_ASSIGN_OR_RETURN(const size_t got, source.Read(&more, 1));
  return got == 0 ? absl::OkStatus() : Wrong(name, "it has more bytes than its shape says");
}

// Puts the rows of one table into a snapshot's file.
class TableWriter {
 public:
  TableWriter(const ImportedTable& table, const table::Schema& schema, const ArrayFile& arrays)
      : table_(table), schema_(schema), kernel_(schema.rule) {
    rows_ = arrays.arrays().at(table.values).shape[0];
    if (!table.keys.empty()) signed_ = arrays.arrays().at(table.keys).type == ArrayType::kI64;
  }

  absl::Status Write(ArrayFile& arrays, snapshot::FileEncoder& encoder, snapshot::NewFile& to) {
    ABSL_ASSIGN_OR_RETURN(values_, arrays.Open(table_.values));
    if (!table_.keys.empty()) {
      ABSL_ASSIGN_OR_RETURN(keys_, arrays.Open(table_.keys));
    }
    if (!table_.slots.empty()) {
      ABSL_ASSIGN_OR_RETURN(slots_, arrays.Open(table_.slots));
    }
    const size_t floats = table::FloatsPerRow(schema_);
    const uint64_t at_once = std::max<uint64_t>(1, table::kPageBytes / (floats * sizeof(float)));
    for (uint64_t row = 0; row < rows_; row += at_once) {
      const size_t count = static_cast<size_t>(std::min(at_once, rows_ - row));
      ABSL_RETURN_IF_ERROR(ReadRows(row, count));
      ABSL_RETURN_IF_ERROR(to.Append(encoder.Rows(
          {.table = TableId(table_.table.id()),
           .floats = static_cast<uint32_t>(floats),
           .keys = {reinterpret_cast<const char*>(numbers_.data()), count * sizeof(uint64_t)},
           .rows = {reinterpret_cast<const char*>(packed_.data()), count * floats * sizeof(float)}})));
    }
    ABSL_RETURN_IF_ERROR(AtEnd(*values_, table_.values));
    if (slots_ != nullptr) {
      ABSL_RETURN_IF_ERROR(AtEnd(*slots_, table_.slots));
    }
    if (keys_ == nullptr) return absl::OkStatus();
    ABSL_RETURN_IF_ERROR(AtEnd(*keys_, table_.keys));
    std::ranges::sort(all_keys_);
    const auto twice = std::ranges::adjacent_find(all_keys_);
    if (twice == all_keys_.end()) return absl::OkStatus();
    return Wrong(table_.keys, absl::StrCat("key ", *twice, " is there twice"));
  }

 private:
  absl::Status ReadRows(uint64_t first, size_t count) {
    const size_t dim = schema_.dim;
    const size_t floats = table::FloatsPerRow(schema_);
    const size_t slot_floats = floats - dim;
    numbers_.resize(count);
    packed_.resize(count * floats);
    read_values_.resize(count * dim);
    read_slots_.resize(slots_ == nullptr ? 0 : count * slot_floats);
    ABSL_RETURN_IF_ERROR(ReadInto(*values_, table_.values, absl::MakeSpan(read_values_)));
    if (slots_ != nullptr) {
      ABSL_RETURN_IF_ERROR(ReadInto(*slots_, table_.slots, absl::MakeSpan(read_slots_)));
    }
    ABSL_RETURN_IF_ERROR(ReadKeys(first));
    for (size_t i = 0; i < count; ++i) {
      float* row = packed_.data() + i * floats;
      std::memcpy(row, read_values_.data() + i * dim, dim * sizeof(float));
      if (slots_ != nullptr) {
        std::memcpy(row + dim, read_slots_.data() + i * slot_floats, slot_floats * sizeof(float));
      } else {
        kernel_.InitSlots(row, dim, dim);
      }
      const bool finite = std::all_of(row, row + floats, [](float value) { return std::isfinite(value); });
      if (!finite && !schema_.accept_non_finite) {
        return Wrong(table_.values, absl::StrCat("row ", first + i,
                                                 " has a value, or a slot, that is not "
                                                 "finite; a schema with accept_non_finite takes it"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadKeys(uint64_t first) {
    if (keys_ == nullptr) {
      for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = first + i;
      return absl::OkStatus();
    }
    ABSL_RETURN_IF_ERROR(ReadInto(*keys_, table_.keys, absl::MakeSpan(numbers_)));
    const auto negative = std::ranges::find_if(numbers_, [](uint64_t key) { return key >> 63 != 0; });
    if (signed_ && negative != numbers_.end()) {
      return Wrong(table_.keys,
                   absl::StrCat("key ", static_cast<int64_t>(*negative), "; expected no negative ones"));
    }
    all_keys_.insert(all_keys_.end(), numbers_.begin(), numbers_.end());
    return absl::OkStatus();
  }

  const ImportedTable& table_;
  const table::Schema schema_;
  const table::RuleKernel kernel_;
  uint64_t rows_ = 0;
  bool signed_ = false;
  std::unique_ptr<snapshot::Source> keys_;  // null: the table is ranged
  std::unique_ptr<snapshot::Source> values_;
  std::unique_ptr<snapshot::Source> slots_;  // null: as in a new row
  std::vector<uint64_t> numbers_;
  std::vector<float> packed_;
  std::vector<float> read_values_;
  std::vector<float> read_slots_;
  std::deque<uint64_t> all_keys_;  // grows without a second copy, and without trusting stated lengths
};

absl::Status WriteRows(ArrayFile& arrays, const std::vector<ImportedTable>& tables,
                       snapshot::FileEncoder& encoder, snapshot::NewFile& to) {
  for (const ImportedTable& table : tables) {
    ABSL_ASSIGN_OR_RETURN(const table::Schema schema, wire::SchemaFromProto(table.table.schema()));
    ABSL_RETURN_IF_ERROR(TableWriter(table, schema, arrays).Write(arrays, encoder, to));
  }
  ABSL_RETURN_IF_ERROR(to.Append(encoder.End()));
  return to.Commit();
}

}  // namespace

absl::StatusOr<std::vector<ImportedTable>> TablesOf(const ArrayFile& arrays,
                                                    const v1::SnapshotManifest& schemas) {
  std::map<std::string, v1::TableSchema> stated;
  for (const v1::Table& table : schemas.tables()) stated[table.name()] = table.schema();
  const auto& all = arrays.arrays();
  const auto beside = [&](const std::string& name, absl::string_view suffix) {
    std::string other = absl::StrCat(name, suffix);
    return all.contains(other) ? other : std::string();
  };
  std::vector<ImportedTable> tables;
  std::set<std::string> used;
  const auto add = [&](const std::string& name, const std::string& keys, const std::string& values) {
    ImportedTable& table = tables.emplace_back();
    table.table.set_name(name);
    table.keys = keys;
    table.values = values;
    table.slots = beside(name, ".slots");
    used.insert({keys, values, table.slots});
  };
  for (const auto& [array, shape] : all) {
    absl::string_view name = array;
    if (!absl::ConsumeSuffix(&name, ".keys") || name.empty()) continue;
    const std::string table(name);
    if (const std::string values = beside(table, ".values"); !values.empty()) add(table, array, values);
  }
  for (const auto& [array, shape] : all) {
    absl::string_view name = array;
    if (used.contains(array)) continue;
    // Slots come after what they are beside: that is in a table by now, and not in one of its own name.
    if (absl::ConsumeSuffix(&name, ".slots") && all.contains(std::string(name))) {
      return Wrong(array,
                   absl::StrCat("it would be the slots of '", name, "', which is no table but part of '",
                                PartOf(name), "'; expected it as '", PartOf(name), ".slots'"));
    }
    add(array, "", array);
  }
  if (all.contains("")) return Wrong("", "it has no name");
  if (tables.empty() || tables.size() > kTablesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file makes ", tables.size(), " tables; expected 1 to ", kTablesMax));
  }
  std::set<std::string> names;
  for (ImportedTable& table : tables) {
    const std::string& name = table.table.name();
    if (!names.insert(name).second) return Wrong(name, "it, and keys and values, would be one table");
    if (const auto schema = stated.find(name); schema != stated.end()) {
      *table.table.mutable_schema() = schema->second;
      stated.erase(schema);
    }
    ABSL_RETURN_IF_ERROR(Complete(arrays, table));
    table.table.set_id(static_cast<uint32_t>(names.size()));
    table.table.set_job(kJob);
  }
  if (stated.empty()) return tables;
  return absl::InvalidArgumentError(
      absl::StrCat("schema: table '", stated.begin()->first, "' is in no array of the file"));
}

absl::StatusOr<v1::SnapshotManifest> ImportArrays(snapshot::Files& files, ArrayFile& arrays,
                                                  const std::vector<ImportedTable>& tables,
                                                  const ImportOptions& options) {
  const absl::Status there = snapshot::ReadManifest(files, options.snapshot).status();
  if (!absl::IsNotFound(there)) {
    return there.ok() ? absl::AlreadyExistsError(absl::StrCat("snapshot '", options.snapshot, "' exists"))
                      : there;
  }
  const snapshot::FileHead head = {.cut = 1,
                                   .job = JobId(kJob),
                                   .segment = SegmentId(0),
                                   .ring_bits = 0,
                                   .epoch = Epoch(1),
                                   .lsn = Lsn(1),
                                   .clock = options.clock};
  v1::SnapshotManifest manifest;
  manifest.set_format(snapshot::kFormat);
  manifest.set_name(options.snapshot);
  manifest.set_job(options.job);
  manifest.set_clock(options.clock);
  manifest.set_exact(true);
  manifest.set_version(std::string(kVersion));
  manifest.set_created_unix_s(options.created_unix_s);
  for (const ImportedTable& table : tables) *manifest.add_tables() = table.table;
  v1::SnapshotFile& file = *manifest.add_files();
  file.set_name("segment-0.cut-1.epoch-1");
  snapshot::FileEncoder encoder;
  const auto write = [&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(files.MakeFolder(options.snapshot));
    ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<snapshot::NewFile> to,
                          files.Create(options.snapshot, file.name()));
    ABSL_RETURN_IF_ERROR(to->Append(encoder.Head(head)));
    ABSL_RETURN_IF_ERROR(WriteRows(arrays, tables, encoder, *to));
    file.set_cut(head.cut);
    file.set_epoch(head.epoch.v);
    file.set_lsn(head.lsn.v);
    file.set_clock(head.clock);
    file.set_exact(true);
    file.set_rows(encoder.rows());
    file.set_bytes(encoder.bytes());
    file.set_crc32c(encoder.crc32c());
    return snapshot::WriteManifest(files, manifest);
  };
  if (absl::Status written = write(); !written.ok()) {
    (void)files.RemoveFolder(options.snapshot);
    return written;
  }
  return manifest;
}

}  // namespace paceline::tool
