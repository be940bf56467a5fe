// Arrays become tables by their names, and a snapshot that is read as any other.
#include "tools/paceline/snapshot_import.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/snapshot/manifest.h"
#include "libs/snapshot/memory_files.h"

namespace paceline::tool {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Arrays in memory.
class Arrays final : public ArrayFile {
 public:
  template <class T>
  void Add(const std::string& name, ArrayType type, std::vector<uint64_t> shape,
           const std::vector<T>& values) {
    arrays_[name] = {.type = type, .shape = std::move(shape)};
    bytes_[name].assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void AddFloats(const std::string& name, std::vector<uint64_t> shape, const std::vector<float>& values) {
    Add(name, ArrayType::kF32, std::move(shape), values);
  }
  void AddKeys(const std::string& name, const std::vector<uint64_t>& keys, ArrayType type = ArrayType::kU64) {
    Add(name, type, {keys.size()}, keys);
  }
  absl::StatusOr<std::unique_ptr<snapshot::Source>> Open(const std::string& array) override {
    class Bytes final : public snapshot::Source {
     public:
      explicit Bytes(const std::string& bytes) : left_(bytes) {}
      absl::StatusOr<size_t> Read(char* to, size_t size) override {
        const size_t got = left_.copy(to, size);
        left_.remove_prefix(got);
        return got;
      }

     private:
      absl::string_view left_;
    };
    return std::make_unique<Bytes>(bytes_.at(array));
  }

 private:
  std::map<std::string, std::string> bytes_;
};

v1::SnapshotManifest Schemas(const std::string& table, const v1::TableSchema& schema) {
  v1::SnapshotManifest manifest;
  manifest.add_tables()->set_name(table);
  *manifest.mutable_tables(0)->mutable_schema() = schema;
  return manifest;
}

// "table key: floats", in the order of the file.
absl::StatusOr<std::vector<std::string>> Import(Arrays& arrays, const v1::SnapshotManifest& schemas = {}) {
  const auto tables = TablesOf(arrays, schemas);
  if (!tables.ok()) return tables.status();
  snapshot::MemoryFiles files;
  const auto imported =
      ImportArrays(files, arrays, *tables, {.snapshot = "m-1-00000000", .job = "m", .clock = 7});
  if (!imported.ok()) {
    EXPECT_THAT(files.folders, IsEmpty()) << "nothing is left";
    return imported.status();
  }
  EXPECT_THAT(ImportArrays(files, arrays, *tables, {.snapshot = "m-1-00000000", .job = "m"}),
              StatusIs(StatusCode::kAlreadyExists));
  const auto manifest = snapshot::ReadManifest(files, "m-1-00000000");
  EXPECT_THAT(manifest, IsOk());
  EXPECT_EQ(manifest->clock(), 7u);
  EXPECT_TRUE(manifest->exact());
  std::vector<std::string> rows;
  auto decoder = snapshot::OpenFile(files, *manifest, manifest->files(0));
  EXPECT_THAT(decoder, IsOk());
  while (true) {
    const auto block = decoder->Next();
    EXPECT_THAT(block, IsOk());
    if (!block->has_value()) break;
    const snapshot::RowsBlock& of = **block;
    for (size_t i = 0; i < of.keys.size() / 8; ++i) {
      uint64_t key = 0;
      std::memcpy(&key, of.keys.data() + i * 8, 8);
      std::vector<float> row(of.floats);
      std::memcpy(row.data(), of.rows.data() + i * of.floats * 4, of.floats * 4);
      rows.push_back(absl::StrCat(manifest->tables(static_cast<int>(of.table.v) - 1).name(), " ", key, ": ",
                                  absl::StrJoin(row, " ")));
    }
  }
  EXPECT_THAT(snapshot::CheckWhole(*decoder, *manifest, manifest->files(0)), IsOk());
  return rows;
}

TEST(SnapshotImportTest, ArraysBecomeTablesByTheirNames) {
  Arrays arrays;
  arrays.AddFloats("dense", {2, 3}, {1, 2, 3, 4, 5, 6});
  arrays.AddFloats("bias", {2}, {0.5f, -0.5f});
  arrays.AddFloats("conv", {1, 2, 2}, {1, 2, 3, 4});
  arrays.AddKeys("emb.keys", {9, uint64_t{1} << 63});
  arrays.AddFloats("emb.values", {2, 1}, {7, 8});
  arrays.AddFloats("layer.values", {1}, {3});
  const auto rows = Import(arrays);
  ASSERT_THAT(rows, IsOk());
  EXPECT_THAT(*rows, ElementsAre("emb 9: 7", "emb 9223372036854775808: 8", "bias 0: 0.5", "bias 1: -0.5",
                                 "conv 0: 1 2 3 4", "dense 0: 1 2 3", "dense 1: 4 5 6", "layer.values 0: 3"));
}

TEST(SnapshotImportTest, SlotsBeginAsInANewRowOrAsGiven) {
  v1::TableSchema schema;
  schema.mutable_rule()->mutable_adagrad()->set_learning_rate(0.1f);
  schema.mutable_rule()->mutable_adagrad()->set_initial_accumulator(0.25f);
  Arrays arrays;
  arrays.AddFloats("w", {2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(*Import(arrays, Schemas("w", schema)), ElementsAre("w 0: 1 2 0.25 0.25", "w 1: 3 4 0.25 0.25"));
  arrays.AddFloats("w.slots", {2, 1, 2}, {5, 6, 7, 8});
  EXPECT_THAT(*Import(arrays, Schemas("w", schema)), ElementsAre("w 0: 1 2 5 6", "w 1: 3 4 7 8"));
  arrays.AddFloats("w.slots", {2, 2}, {5, 6, 7, 8});
  EXPECT_THAT(
      Import(arrays, Schemas("w", schema)),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("'w.slots': shape [2, 2]; expected f32 [2, 1, 2]")));
  schema.mutable_rule()->mutable_add();
  EXPECT_THAT(Import(arrays, Schemas("w", schema)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("expected f32 [2, 0, 2]")));
}

TEST(SnapshotImportTest, EveryArrayIsImportedOrNamed) {
  Arrays arrays;
  arrays.AddKeys("emb.keys", {9});
  arrays.AddFloats("emb.values", {1, 1}, {7});
  arrays.AddFloats("emb.values.slots", {1, 1, 1}, {8});
  EXPECT_THAT(Import(arrays), StatusIs(StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("'emb.values.slots'"), HasSubstr("emb.slots"))));
}

TEST(SnapshotImportTest, NamesTheFault) {
  const auto says = [](Arrays arrays, const std::string& what, const v1::SnapshotManifest& schemas = {}) {
    EXPECT_THAT(Import(arrays, schemas), StatusIs(StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  says({}, "0 tables");
  Arrays one;
  one.AddFloats("w", {2}, {1, 2});
  v1::TableSchema schema;
  says(one, "table 'v' is in no array", Schemas("v", schema));
  schema.set_dim(3);
  says(one, "values a row: 1; its schema has 3", Schemas("w", schema));
  schema.set_dim(1);
  schema.set_kind(v1::TABLE_KIND_SPARSE);
  says(one, "kind: 2; its schema has 1", Schemas("w", schema));
  schema.set_kind(v1::TABLE_KIND_RANGED);
  schema.set_rows(4);
  says(one, "rows: 2; its schema has 4", Schemas("w", schema));
  Arrays arrays;
  arrays.AddFloats("a b", {1}, {1});
  says(arrays, "expected 1 to 128 letters");
  arrays = {};
  arrays.AddFloats("w", {}, {1});
  says(arrays, "single number");
  arrays = {};
  arrays.AddFloats("w", {0, 2}, {});
  says(arrays, "rows");
  arrays = {};
  arrays.AddKeys("w", {1});
  says(arrays, "expected f32 values");
  arrays = {};
  arrays.AddKeys("w.keys", {1, 2});
  arrays.AddFloats("w.values", {1, 2}, {1, 2});
  says(arrays, "expected u64 or i64 [1], a key for each row of 'w.values'");
  arrays.AddKeys("w.keys", {5, 5});
  arrays.AddFloats("w.values", {2}, {1, 2});
  says(arrays, "key 5 is there twice");
  arrays.AddKeys("w.keys", {5, ~uint64_t{0}}, ArrayType::kI64);
  says(arrays, "key -1; expected no negative ones");
  arrays.AddKeys("w.keys", {5, 6});
  arrays.AddFloats("w", {1}, {1});
  says(arrays, "would be one table");
  arrays = {};
  arrays.AddFloats("w", {2}, {1, std::nanf("")});
  says(arrays, "row 1 has a value");
  arrays = {};
  arrays.AddFloats("w", {3}, {1, 2});
  says(arrays, "cut off");
  arrays.AddFloats("w", {1}, {1, 2});
  says(arrays, "more bytes than its shape");
}

}  // namespace
}  // namespace paceline::tool
