#include "tools/paceline/snapshot_export.h"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/snapshot/manifest.h"
#include "libs/table/initialiser.h"
#include "libs/table/rule.h"
#include "libs/wire/schema_codec.h"
#include "tools/paceline/arrays.h"
#include "tools/paceline/out_file.h"

namespace paceline::tool {
namespace {

constexpr size_t kPieceFloats = size_t{256} << 10;

// An array being written: a file of its own, which begins with room for a header of NumPy's.
struct Array {
  Array(std::string called, ArrayType type, const std::string& scratch)
      : name(std::move(called)), bytes(std::make_unique<OutFile>(scratch)) {
    shape.type = type;
    bytes->Append(std::string(kNpyHeaderBytes, '\0'));
  }
  uint64_t data_bytes() const { return bytes->size() - kNpyHeaderBytes; }

  std::string name;
  ArrayShape shape;
  std::unique_ptr<OutFile> bytes;
  std::string slots;  // the names of those in it, if it is an array of slots
};

absl::string_view Bytes(absl::Span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// Collects the rows of one table.
class TableArrays {
 public:
  TableArrays(const std::string& name, const table::Schema& schema, bool slots, const std::string& scratch)
      : name_(name),
        schema_(schema),
        slots_a_value_(table::SlotsPerValue(schema.rule)),
        keys_(name + ".keys", ArrayType::kU64, scratch + ".keys"),
        values_(ranged() ? name : name + ".values", ArrayType::kF32, scratch + ".values") {
    if (slots && slots_a_value_ > 0) {
      slots_.emplace(name + ".slots", ArrayType::kF32, scratch + ".slots");
      slots_->slots = absl::StrJoin(table::SlotNamesOf(schema.rule), ",");
    }
    if (ranged()) FillInitial();
  }

  absl::Status Add(const snapshot::RowsBlock& rows) {
    if (rows.floats != table::FloatsPerRow(schema_)) {
      return absl::DataLossError(absl::StrCat("table '", name_, "': ", rows.floats,
                                              " floats a row; expected ", table::FloatsPerRow(schema_)));
    }
    const size_t value_bytes = schema_.dim * sizeof(float);
    const size_t slot_bytes = rows.floats * sizeof(float) - value_bytes;
    const size_t count = rows.keys.size() / sizeof(uint64_t);
    if (!ranged()) keys_.bytes->Append(rows.keys);
    std::string values;
    std::string slots;
    for (size_t i = 0; i < count; ++i) {
      const absl::string_view row = rows.rows.substr(i * rows.floats * sizeof(float));
      const absl::string_view value = row.substr(0, value_bytes);
      const absl::string_view slot = row.substr(value_bytes, slot_bytes);
      if (!ranged()) {
        absl::StrAppend(&values, value);
        absl::StrAppend(&slots, slot);
        continue;
      }
      const uint64_t key = LoadU64(rows.keys.data() + i * sizeof(uint64_t));
      if (key >= schema_.rows) {
        return absl::DataLossError(
            absl::StrCat("table '", name_, "': key ", key, " of ", schema_.rows, " rows"));
      }
      values_.bytes->WriteAt(kNpyHeaderBytes + key * value_bytes, value);
      if (slots_.has_value()) slots_->bytes->WriteAt(kNpyHeaderBytes + key * slot_bytes, slot);
    }
    values_.bytes->Append(values);
    if (slots_.has_value()) slots_->bytes->Append(slots);
    return Check();
  }

  absl::Status Check() const {
    ABSL_RETURN_IF_ERROR(values_.bytes->Check());
    if (slots_.has_value()) {
      ABSL_RETURN_IF_ERROR(slots_->bytes->Check());
    }
    return keys_.bytes->Check();
  }

  void MoveTo(std::vector<Array>& arrays) {
    const uint64_t rows = ranged() ? schema_.rows : keys_.data_bytes() / sizeof(uint64_t);
    keys_.shape.shape = {rows};
    values_.shape.shape = {rows, schema_.dim};
    if (slots_.has_value()) slots_->shape.shape = {rows, slots_a_value_, schema_.dim};
    if (!ranged()) arrays.push_back(std::move(keys_));
    arrays.push_back(std::move(values_));
    if (slots_.has_value()) arrays.push_back(*std::move(slots_));
  }

 private:
  bool ranged() const { return schema_.kind == table::Kind::kRanged; }

  // Rows that were never updated are in no snapshot.
  void FillInitial() {
    const table::RuleKernel kernel(schema_.rule);
    const size_t floats = table::FloatsPerRow(schema_);
    std::vector<float> row(floats);
    std::vector<float> values;
    std::vector<float> slots;
    const auto flush = [&] {
      values_.bytes->Append(Bytes(values));
      if (slots_.has_value()) slots_->bytes->Append(Bytes(slots));
      values.clear();
      slots.clear();
    };
    for (uint64_t key = 0; key < schema_.rows && values_.bytes->Check().ok(); ++key) {
      table::Fill(schema_.init, schema_.seed, key, 0, absl::MakeSpan(row).subspan(0, schema_.dim));
      kernel.InitSlots(row.data(), schema_.dim, schema_.dim);
      values.insert(values.end(), row.begin(), row.begin() + schema_.dim);
      slots.insert(slots.end(), row.begin() + schema_.dim, row.end());
      if (values.size() >= kPieceFloats) flush();
    }
    flush();
  }

  const std::string name_;
  const table::Schema schema_;
  const uint32_t slots_a_value_;
  Array keys_;  // nothing is written to it if the table is ranged
  Array values_;
  std::optional<Array> slots_;
};

// Each array's file becomes a member as it is.
absl::Status WriteNpz(std::vector<Array>& arrays, const v1::SnapshotManifest& manifest,
                      const std::string& path) {
  std::vector<ZipMember> members;
  for (const Array& array : arrays) {
    array.bytes->WriteAt(0, NpyHeader(array.shape));
    ABSL_RETURN_IF_ERROR(array.bytes->Check());
    members.push_back({.name = array.name + ".npy", .file = array.bytes->path()});
  }
  return WriteZip(members, path, manifest.data_lost());
}

// https://github.com/huggingface/safetensors: the header's length (8), the header as JSON, the data.
void WriteSafetensors(std::vector<Array>& arrays, const v1::SnapshotManifest& manifest, OutFile& out) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {
      {"job", manifest.job()}, {"snapshot", manifest.name()}, {"clock", absl::StrCat(manifest.clock())}};
  if (!manifest.data_lost().empty()) header["__metadata__"]["data_lost"] = manifest.data_lost();
  uint64_t at = 0;
  for (const Array& array : arrays) {
    if (!array.slots.empty()) header["__metadata__"][array.name] = array.slots;
    header[array.name] = {{"dtype", array.shape.type == ArrayType::kU64 ? "U64" : "F32"},
                          {"shape", array.shape.shape},
                          {"data_offsets", {at, at + array.data_bytes()}}};
    at += array.data_bytes();
  }
  std::string json = header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');
  char length[sizeof(uint64_t)];
  StoreU64(json.size(), length);
  out.Append({length, sizeof(length)});
  out.Append(json);
  for (Array& array : arrays) {
    array.bytes->ForEachPiece(kNpyHeaderBytes, [&](absl::string_view piece) { out.Append(piece); });
  }
}

using Tables = std::map<TableId, std::unique_ptr<TableArrays>>;

absl::StatusOr<Tables> TablesOf(const v1::SnapshotManifest& manifest, const ExportOptions& options,
                                const std::string& path) {
  Tables tables;
  const std::vector<std::string>& names = options.tables;
  std::set<std::string> missing(names.begin(), names.end());
  for (const v1::Table& table : manifest.tables()) {
    if (!names.empty() && missing.erase(table.name()) == 0) continue;
    ABSL_ASSIGN_OR_RETURN(const table::Schema schema, wire::SchemaFromProto(table.schema()));
    tables[TableId(table.id())] = std::make_unique<TableArrays>(table.name(), schema, options.slots,
                                                                absl::StrCat(path, ".tmp-", table.id()));
  }
  if (missing.empty()) return tables;
  return absl::NotFoundError(
      absl::StrCat("snapshot '", manifest.name(), "' has no table '", *missing.begin(), "'"));
}

absl::Status ReadRows(snapshot::Files& files, const v1::SnapshotManifest& manifest, Tables& tables) {
  for (const v1::SnapshotFile& file : manifest.files()) {
    ABSL_ASSIGN_OR_RETURN(snapshot::FileDecoder decoder, snapshot::OpenFile(files, manifest, file));
    while (true) {
      ABSL_ASSIGN_OR_RETURN(const std::optional<snapshot::RowsBlock> rows, decoder.Next());
      if (!rows.has_value()) break;
      const auto table = tables.find(rows->table);
      if (table == tables.end()) continue;
      const absl::Status added = table->second->Add(*rows);
      if (!added.ok()) {
        return absl::Status(added.code(),
                            absl::StrCat(manifest.name(), "/", file.name(), ": ", added.message()));
      }
    }
    ABSL_RETURN_IF_ERROR(snapshot::CheckWhole(decoder, manifest, file));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ExportSnapshot(snapshot::Files& files, const v1::SnapshotManifest& manifest,
                            const ExportOptions& options, const std::string& path) {
  ABSL_ASSIGN_OR_RETURN(Tables tables, TablesOf(manifest, options, path));
  ABSL_RETURN_IF_ERROR(ReadRows(files, manifest, tables));
  std::vector<Array> arrays;
  for (auto& [id, table] : tables) {
    ABSL_RETURN_IF_ERROR(table->Check());
    table->MoveTo(arrays);
  }
  std::set<std::string> taken;
  for (const Array& array : arrays) {
    if (taken.insert(array.name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("two arrays would be named '", array.name,
                                                   "'; export their tables one by one, with --table"));
  }
  if (options.npz) {
    const std::string archive = path + ".tmp-zip";
    ABSL_RETURN_IF_ERROR(WriteNpz(arrays, manifest, archive));
    return KeepFileAs(archive, path, options.replace);
  }
  OutFile out(path + ".tmp");
  WriteSafetensors(arrays, manifest, out);
  for (const Array& array : arrays) ABSL_RETURN_IF_ERROR(array.bytes->Check());
  out.KeepAs(path, options.replace);
  return out.Check();
}

}  // namespace paceline::tool
