// Files of snapshots and their manifests, in memory and in a directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/snapshot/manifest.h"
#include "libs/snapshot/memory_files.h"
#include "libs/snapshot/store/directory.h"

namespace paceline::snapshot {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFile[] = "segment-0.cut-9.epoch-2";

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

const FileHead kHead = {.cut = 9,
                        .job = JobId(3),
                        .segment = SegmentId(0),
                        .ring_bits = 0,
                        .epoch = Epoch(2),
                        .lsn = Lsn(70),
                        .clock = 5};

// Two rows of a value and a slot.
std::string WholeFile(FileEncoder& encoder) {
  const std::string keys = Bytes<uint64_t>({7, 8});
  const std::string rows = Bytes<float>({1, 0.5f, -2, 0.25f});
  std::string bytes = encoder.Head(kHead);
  bytes += encoder.Rows({.table = TableId(4), .floats = 2, .keys = keys, .rows = rows});
  bytes += encoder.End();
  return bytes;
}

v1::SnapshotManifest Manifest(const FileEncoder& encoder) {
  v1::SnapshotManifest manifest;
  manifest.set_format(kFormat);
  manifest.set_name("ctr-9");
  manifest.set_job("ctr");
  manifest.set_clock(5);
  v1::SnapshotFile& file = *manifest.add_files();
  file.set_name(kFile);
  file.set_cut(9);
  file.set_epoch(2);
  file.set_lsn(70);
  file.set_rows(encoder.rows());
  file.set_bytes(encoder.bytes());
  file.set_crc32c(encoder.crc32c());
  v1::TableSchema& schema = *manifest.add_tables()->mutable_schema();
  schema.mutable_rule()->mutable_sgd()->set_learning_rate(0.1f);
  return manifest;
}

absl::Status Write(Files& files, const std::string& folder, const std::string& file,
                   absl::string_view bytes) {
  if (absl::Status s = files.MakeFolder(folder); !s.ok()) return s;
  auto to = files.Create(folder, file);
  if (!to.ok()) return to.status();
  if (absl::Status s = (*to)->Append(bytes); !s.ok()) return s;
  return (*to)->Commit();
}

// Reads the file of `manifest` to its end.
absl::Status ReadWhole(Files& files, const v1::SnapshotManifest& manifest) {
  auto decoder = OpenFile(files, manifest, manifest.files(0));
  if (!decoder.ok()) return decoder.status();
  while (true) {
    const auto block = decoder->Next();
    if (!block.ok()) return block.status();
    if (!block->has_value()) return CheckWhole(*decoder, manifest, manifest.files(0));
  }
}

// Every later release reads the files written today: add to these bytes, never change them.
TEST(SegmentFileTest, BytesStayAsTheyAre) {
  FileEncoder encoder;
  const std::string bytes = WholeFile(encoder);
  EXPECT_EQ(absl::BytesToHexString(bytes),
            // head
            "504c534e4150310a8527cd800100000030000000000000000900000000000000030000000000000000000000"
            "00000000020000000000000046000000000000000500000000000000"
            // rows
            "9cd48ec8020000003000000000000000040000000200000002000000000000000700000000000000"
            "08000000000000000000803f0000003f000000c00000803e"
            // end
            "0fdfc4f10300000010000000000000000100000000000000"
            "0200000000000000");
  EXPECT_EQ(encoder.bytes(), bytes.size());
  EXPECT_EQ(encoder.rows(), 2u);
}

TEST(SegmentFileTest, ReadsBackItsRows) {
  MemoryFiles files;
  FileEncoder encoder;
  ASSERT_THAT(Write(files, "ctr-9", kFile, WholeFile(encoder)), IsOk());
  auto source = files.Open("ctr-9", kFile);
  ASSERT_THAT(source, IsOk());
  FileDecoder decoder(kFile, *std::move(source));
  const auto head = decoder.Head();
  ASSERT_THAT(head, IsOk());
  EXPECT_EQ(*head, kHead);
  const auto rows = decoder.Next();
  ASSERT_THAT(rows, IsOk());
  ASSERT_TRUE(rows->has_value());
  EXPECT_EQ((*rows)->table, TableId(4));
  EXPECT_EQ((*rows)->floats, 2u);
  EXPECT_EQ((*rows)->keys, Bytes<uint64_t>({7, 8}));
  EXPECT_EQ((*rows)->rows, Bytes<float>({1, 0.5f, -2, 0.25f}));
  const auto end = decoder.Next();
  ASSERT_THAT(end, IsOk());
  EXPECT_FALSE(end->has_value());
  EXPECT_EQ(decoder.crc32c(), encoder.crc32c());
}

TEST(SegmentFileTest, EveryChangedOrMissingByteIsFound) {
  FileEncoder encoder;
  const std::string whole = WholeFile(encoder);
  const v1::SnapshotManifest manifest = Manifest(encoder);
  MemoryFiles files;
  std::string& bytes = files.folders["ctr-9"][kFile];
  bytes = whole;
  ASSERT_THAT(ReadWhole(files, manifest), IsOk());
  const auto damaged = StatusIs(StatusCode::kDataLoss, HasSubstr(std::string("ctr-9/") + kFile));
  for (size_t i = 0; i < whole.size(); ++i) {
    bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    EXPECT_THAT(ReadWhole(files, manifest), damaged) << "byte " << i;
    bytes = whole.substr(0, i);
    EXPECT_THAT(ReadWhole(files, manifest), damaged) << "cut off at " << i;
  }
  bytes = whole + '\0';
  EXPECT_THAT(ReadWhole(files, manifest), damaged);
  files.folders["ctr-9"].erase(kFile);
  EXPECT_THAT(ReadWhole(files, manifest), damaged);
}

TEST(SegmentFileTest, AnotherWholeFileIsRefusedByTheManifest) {
  FileEncoder encoder;
  MemoryFiles files;
  WholeFile(encoder);
  const v1::SnapshotManifest manifest = Manifest(encoder);
  FileEncoder other;
  files.folders["ctr-9"][kFile] = other.Head(kHead) + other.End();
  EXPECT_THAT(ReadWhole(files, manifest),
              StatusIs(StatusCode::kDataLoss, HasSubstr("another file has taken its place")));
}

class FilesTest : public ::testing::TestWithParam<bool> {
 protected:
  FilesTest() {
    if (!GetParam()) return;
    char folder[] = "/tmp/paceline-snapshot-test-XXXXXX";
    path_ = mkdtemp(folder);
    directory_ = *OpenDirectory(path_ + "/made/as/needed");
  }
  ~FilesTest() override {
    if (!path_.empty()) std::filesystem::remove_all(path_);
  }
  Files& files() { return directory_ != nullptr ? *directory_ : memory_; }

 private:
  std::string path_;
  MemoryFiles memory_;
  std::unique_ptr<Files> directory_;
};

TEST_P(FilesTest, AFileExistsOnceItIsCommitted) {
  {
    ASSERT_THAT(files().MakeFolder("a"), IsOk());
    auto given_up = files().Create("a", "x");
    ASSERT_THAT(given_up, IsOk());
    ASSERT_THAT((*given_up)->Append("half"), IsOk());
  }
  EXPECT_THAT(files().Open("a", "x"), StatusIs(StatusCode::kNotFound, HasSubstr("a/x")));
  ASSERT_THAT(Write(files(), "a", "x", "first"), IsOk());
  ASSERT_THAT(Write(files(), "a", "x", "second"), IsOk());
  const auto read = ReadAll(files(), "a", "x", 100);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, "second");
  EXPECT_THAT(ReadAll(files(), "a", "x", 5), StatusIs(StatusCode::kResourceExhausted, HasSubstr("a/x")));
  ASSERT_THAT(Write(files(), "b", "y", ""), IsOk());
  const auto folders = files().Folders();
  ASSERT_THAT(folders, IsOk());
  EXPECT_THAT(*folders, ElementsAre("a", "b"));
  EXPECT_THAT(files().Remove("a", "x"), IsOk());
  EXPECT_THAT(files().Remove("a", "x"), IsOk());
  EXPECT_THAT(files().Open("a", "x"), StatusIs(StatusCode::kNotFound, HasSubstr("a/x")));
  EXPECT_THAT(files().RemoveFolder("b"), IsOk());
  EXPECT_THAT(files().RemoveFolder("b"), IsOk());
  EXPECT_THAT(*files().Folders(), ElementsAre("a"));
}

TEST_P(FilesTest, AWriterDoesNotBringBackADeletedFolder) {
  EXPECT_THAT(files().Create("a", "x"), StatusIs(StatusCode::kNotFound, HasSubstr("a")));
  ASSERT_THAT(files().MakeFolder("a"), IsOk());
  ASSERT_THAT(files().MakeFolder("a"), IsOk()) << "it is there already";
  auto late = files().Create("a", "x");
  ASSERT_THAT(late, IsOk());
  ASSERT_THAT((*late)->Append("rows"), IsOk());
  ASSERT_THAT(files().RemoveFolder("a"), IsOk());
  EXPECT_THAT((*late)->Commit(), StatusIs(StatusCode::kNotFound, HasSubstr("a/x")));
  EXPECT_THAT(files().Create("a", "y"), StatusIs(StatusCode::kNotFound, HasSubstr("a")));
  EXPECT_THAT(*files().Folders(), ::testing::IsEmpty());
}

TEST_P(FilesTest, ASnapshotExistsOnceItHasItsManifest) {
  FileEncoder encoder;
  ASSERT_THAT(Write(files(), "ctr-9", kFile, WholeFile(encoder)), IsOk());
  ASSERT_THAT(Write(files(), "ctr-7-00ff00ff", kFile, ""), IsOk());
  EXPECT_THAT(ReadManifest(files(), "ctr-9"), StatusIs(StatusCode::kNotFound, HasSubstr("never completed")));
  EXPECT_THAT(ListSnapshots(files())->snapshots, ::testing::IsEmpty());
  EXPECT_THAT(ListSnapshots(files())->incomplete, ElementsAre("ctr-7-00ff00ff"));
  EXPECT_THAT(DeleteSnapshot(files(), "ctr-9"), StatusIs(StatusCode::kNotFound, HasSubstr("ctr-9")))
      << "a folder of somebody else";
  EXPECT_THAT(DeleteSnapshot(files(), "ctr-7-00ff00ff"), IsOk());
  const v1::SnapshotManifest manifest = Manifest(encoder);
  ASSERT_THAT(WriteManifest(files(), manifest), IsOk());
  const auto read = ReadManifest(files(), "ctr-9");
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->SerializeAsString(), manifest.SerializeAsString()) << "floats too, bit for bit";
  EXPECT_THAT(ReadWhole(files(), *read), IsOk());
  EXPECT_EQ(ListSnapshots(files())->snapshots.size(), 1u);
  ASSERT_THAT(DeleteSnapshot(files(), "ctr-9"), IsOk());
  EXPECT_THAT(ReadManifest(files(), "ctr-9"), StatusIs(StatusCode::kNotFound, HasSubstr("ctr-9")));
  EXPECT_THAT(*files().Folders(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Both, FilesTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Directory" : "Memory"; });

TEST(ManifestTest, DamageIsFoundAndNamed) {
  MemoryFiles files;
  FileEncoder encoder;
  files.folders["ctr-9"][kFile] = WholeFile(encoder);
  ASSERT_THAT(WriteManifest(files, Manifest(encoder)), IsOk());
  std::string& json = files.folders["ctr-9"]["manifest.json"];
  const std::string whole = json;
  for (size_t i = 0; i < whole.size(); i += 7) {
    json = whole;
    json[i] = static_cast<char>(json[i] ^ 1);
    ASSERT_THAT(ReadManifest(files, "ctr-9"),
                StatusIs(StatusCode::kDataLoss, HasSubstr("ctr-9/manifest.json")));
  }
  const auto listing = ListSnapshots(files);
  ASSERT_THAT(listing, IsOk());
  EXPECT_THAT(listing->snapshots, ::testing::IsEmpty());
  EXPECT_THAT(listing->problems, ElementsAre(HasSubstr("ctr-9/manifest.json")));
}

TEST(ManifestTest, AManifestThatContradictsItselfIsRefused) {
  MemoryFiles files;
  ASSERT_THAT(files.MakeFolder("ctr-9"), IsOk());
  FileEncoder encoder;
  WholeFile(encoder);
  const v1::SnapshotManifest good = Manifest(encoder);
  const auto read = [&](const std::function<void(v1::SnapshotManifest&)>& change) {
    v1::SnapshotManifest manifest = good;
    change(manifest);
    EXPECT_THAT(WriteManifest(files, manifest), IsOk());
    return ReadManifest(files, "ctr-9").status();
  };
  EXPECT_THAT(read([](auto&) {}), IsOk());
  EXPECT_THAT(read([](auto& m) { m.set_format(2); }),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("format 2")));
  EXPECT_THAT(read([](auto& m) { *m.add_files() = m.files(0); }),
              StatusIs(StatusCode::kDataLoss, HasSubstr("twice")));
  EXPECT_THAT(read([](auto& m) { m.set_ring_bits(1); }),
              StatusIs(StatusCode::kDataLoss, HasSubstr("1 files for a ring of 2^1")));
  EXPECT_THAT(read([](auto& m) { m.mutable_files(0)->set_name("../x"); }),
              StatusIs(StatusCode::kDataLoss, HasSubstr("impossible name")));
  EXPECT_THAT(read([](auto& m) { m.set_job("ctr\nother"); }),
              StatusIs(StatusCode::kDataLoss, HasSubstr("job: 'ctr\\x0aother'")));
  EXPECT_THAT(read([](auto& m) { m.add_tables()->set_name("\x1b[2J"); }),
              StatusIs(StatusCode::kDataLoss, HasSubstr("tables.name: '\\x1b[2J'")));
  for (const char* name : {"", "..", ".x", "a/b", "a b"}) {
    EXPECT_THAT(ReadManifest(files, name),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("is not a valid name")));
    EXPECT_THAT(DeleteSnapshot(files, name),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("is not a valid name")));
  }
}

}  // namespace
}  // namespace paceline::snapshot
