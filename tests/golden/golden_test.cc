// This release reads the files of earlier ones, and writes the same bytes as they did. The
// files beside this one are never changed: a new format has a new number, and files of its own.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/format.h"
#include "libs/engine/synced_mark.h"
#include "libs/log/record_codec.h"
#include "libs/log/segment_image.h"
#include "libs/snapshot/manifest.h"
#include "libs/snapshot/memory_files.h"
#include "libs/snapshot/store/directory.h"
#include "services/shard/disk/disk_contents.h"

namespace paceline {
namespace {

using ::paceline::testing::IsOk;
using ::testing::ElementsAre;

namespace fs = std::filesystem;

constexpr char kGolden[] = PACELINE_GOLDEN;
constexpr char kSnapshot[] = "ctr-9-00ff00ff";
constexpr SegmentId kSegment{1};
constexpr int kRingBits = 1;

std::string Read(const std::string& name) {
  std::ifstream file(fs::path(kGolden) / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// If `bytes` are not those of the file they are written to a folder where they can be looked at.
void ExpectGolden(const std::string& name, const std::string& bytes) {
  if (Read(name) == bytes) return;
  const fs::path now = fs::temp_directory_path() / "paceline-golden-now" / name;
  fs::create_directories(now.parent_path());
  std::ofstream(now, std::ios::binary) << bytes;
  ADD_FAILURE() << name << ": this release writes other bytes: " << now;
}

template <class T>
std::string Bytes(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

// -- snapshots of jobs --

v1::SnapshotManifest WriteSnapshot(snapshot::Files& files) {
  snapshot::FileEncoder encoder;
  const std::string keys = Bytes<uint64_t>({7, 8});
  const std::string rows = Bytes<float>({1, 0.5f, -2, 0.25f});
  std::string bytes = encoder.Head({.cut = 9,
                                    .job = JobId(3),
                                    .segment = SegmentId(0),
                                    .ring_bits = 0,
                                    .epoch = Epoch(2),
                                    .lsn = Lsn(70),
                                    .clock = 5});
  bytes += encoder.Rows({.table = TableId(4), .floats = 2, .keys = keys, .rows = rows});
  bytes += encoder.End();
  v1::SnapshotManifest manifest;
  manifest.set_format(snapshot::kFormat);
  manifest.set_name(kSnapshot);
  manifest.set_job("ctr");
  manifest.set_clock(5);
  manifest.set_cluster(uint64_t{0xff00ff} << 32);
  manifest.set_version("0.1.0");
  manifest.set_created_unix_s(1'700'000'000);
  v1::SnapshotFile& file = *manifest.add_files();
  file.set_name("segment-0.cut-9.epoch-2");
  file.set_cut(9);
  file.set_epoch(2);
  file.set_lsn(70);
  file.set_clock(5);
  file.set_rows(encoder.rows());
  file.set_bytes(encoder.bytes());
  file.set_crc32c(encoder.crc32c());
  file.add_workers()->set_session(17);
  file.mutable_workers(0)->set_clock(6);
  v1::Table& table = *manifest.add_tables();
  table.set_id(4);
  table.set_job(3);
  table.set_name("weights");
  table.mutable_schema()->set_kind(v1::TABLE_KIND_SPARSE);
  table.mutable_schema()->set_dim(1);
  table.mutable_schema()->mutable_initialiser()->mutable_uniform()->set_high(0.1f);
  table.mutable_schema()->mutable_rule()->mutable_adagrad()->set_learning_rate(0.1f);
  EXPECT_THAT(files.MakeFolder(kSnapshot), IsOk());
  auto to = files.Create(kSnapshot, file.name());
  EXPECT_THAT(to, IsOk());
  EXPECT_THAT((*to)->Append(bytes), IsOk());
  EXPECT_THAT((*to)->Commit(), IsOk());
  EXPECT_THAT(snapshot::WriteManifest(files, manifest), IsOk());
  return manifest;
}

TEST(GoldenTest, SnapshotsAreWrittenAsEver) {
  snapshot::MemoryFiles files;
  WriteSnapshot(files);
  for (const auto& [file, bytes] : files.folders[kSnapshot]) {
    ExpectGolden(std::string("snapshots/") + kSnapshot + "/" + file, bytes);
  }
}

TEST(GoldenTest, SnapshotsOfFormat1AreRead) {
  const auto files = snapshot::OpenDirectoryToRead(std::string(kGolden) + "/snapshots");
  ASSERT_THAT(files, IsOk());
  const auto manifest = snapshot::ReadManifest(**files, kSnapshot);
  ASSERT_THAT(manifest, IsOk());
  snapshot::MemoryFiles memory;
  EXPECT_EQ(manifest->SerializeAsString(), WriteSnapshot(memory).SerializeAsString());
  auto decoder = snapshot::OpenFile(**files, *manifest, manifest->files(0));
  ASSERT_THAT(decoder, IsOk());
  const auto rows = decoder->Next();
  ASSERT_THAT(rows, IsOk());
  ASSERT_TRUE(rows->has_value());
  EXPECT_EQ((*rows)->keys, Bytes<uint64_t>({7, 8}));
  EXPECT_EQ((*rows)->rows, Bytes<float>({1, 0.5f, -2, 0.25f}));
  EXPECT_FALSE(decoder->Next().value().has_value());
  EXPECT_THAT(snapshot::CheckWhole(*decoder, *manifest, manifest->files(0)), IsOk());
}

// -- a shard's disk --

std::shared_ptr<const log::TableInfo> SomeTable(uint32_t id, table::Kind kind) {
  log::TableInfo info;
  info.id = TableId(id);
  info.job = JobId(1);
  info.name = "table";
  info.schema.kind = kind;
  info.schema.rows = kind == table::Kind::kRanged ? 1000 : 0;
  info.schema.dim = 2;
  info.schema.rule = table::Adagrad{.lr = 0.5f, .epsilon = 0.25f, .initial_accumulator = 0.125f};
  return std::make_shared<const log::TableInfo>(std::move(info));
}

// The first keys of a table that are the segment's.
uint64_t KeyOf(const log::Segment& segment, TableId table) {
  uint64_t key = 0;
  while (segment.FindTable(table)->placement.Of(key) != segment.id()) ++key;
  return key;
}

// A record of every kind that has no memory of others behind it.
struct History {
  log::Segment segment{kSegment, kRingBits};
  std::string group;

  History() {
    Write(log::BeginEpoch{Epoch(2)});
    Write(log::OpenTable{SomeTable(4, table::Kind::kSparse)});
    Write(log::OpenTable{SomeTable(5, table::Kind::kRanged)});
    Write(log::OpenTable{SomeTable(6, table::Kind::kSparse)});
    Write(log::OpenSession{.session = SessionId(7), .job = JobId(1), .closed_floor = SessionId(3)});
    Write(log::OpenSession{.session = SessionId(9), .job = JobId(1), .closed_floor = SessionId(3)});
    Write(log::Join{.session = SessionId(7), .start = 1, .rank = 0});
    Write(log::Join{.session = SessionId(9), .start = 1, .rank = 1});
    Write(log::Advance{.job = JobId(1), .min_clock = 1});
    const uint64_t key = KeyOf(segment, TableId(4));
    const std::string keys = Bytes<uint64_t>({key});
    const std::string values = Bytes<float>({1, -1});
    Write(log::Update{.session = SessionId(7),
                      .line = Line::kArrival,
                      .number = 1,
                      .table = TableId(4),
                      .clock = 1,
                      .form = log::KeyForm::kKeys,
                      .count = 1,
                      .keys = keys,
                      .values = values,
                      .owner = nullptr});
    log::Fold fold{.job = JobId(1), .clock = 1, .tables = {}, .numbers = {{SessionId(7), 3}}};
    fold.tables.push_back({.table = TableId(5), .keys = {KeyOf(segment, TableId(5))}, .values = {2, 3}});
    Write(fold);
    Write(
        log::ChangeRule{.table = segment.FindTable(TableId(4))->info,
                        .number = 1,
                        .rule = table::Adagrad{.lr = 0.25f, .epsilon = 0.25f, .initial_accumulator = 0.125f},
                        .clock = 4});
    Write(log::Finish{.session = SessionId(9), .clock = 3});
    Write(log::Evict{.session = SessionId(7), .counts_below = 2});
    Write(log::DropTable{TableId(6)});
    Write(log::Load{.table = TableId(4), .keys = {key}, .rows = {1, 2, 3, 4}});
    Write(log::Cut{.id = 3, .job = JobId(1), .clock = 2});
    Write(log::EndLoad{.id = 4, .job = JobId(1), .clock = 5});
  }

  void Write(const log::Record& record) {
    segment.Apply(record);
    const engine::LogEntry entry{.segment = kSegment,
                                 .epoch = Epoch(2),
                                 .lsn = segment.version(),
                                 .record = log::EncodeRecord(record)};
    group += engine::EntryHead(entry) + std::string(entry.record);
  }
};

struct DiskFiles {
  std::string note, head, page_key, page, group;

  static DiskFiles Of(const History& history) {
    DiskFiles files;
    files.note = shard::NoteOf({.cluster = 7, .shard = ShardId(2), .ring_bits = kRingBits}).bytes;
    files.head = engine::EncodeSegmentHead({.first_group = 12,
                                            .has_base = true,
                                            .lsn = history.segment.version(),
                                            .base = log::ImageOf(history.segment).SerializeAsString()});
    std::vector<v1::PageImage> pages;
    log::PageWalk(history.segment).Next(history.segment, 1, &pages);
    files.page_key = engine::PageKeyBytes(
        kSegment, {.table = TableId(pages[0].table()), .start = pages[0].start(), .depth = pages[0].depth()});
    files.page = engine::Checked(pages[0].SerializeAsString());
    files.group = history.group;
    return files;
  }
};

// Gives out what the golden files have.
class GoldenEngine final : public engine::Engine {
 public:
  explicit GoldenEngine(bool with_base) : with_base_(with_base) {}
  absl::Status Load(engine::Reader& reader) override {
    if (with_base_) {
      const auto head = engine::DecodeSegmentHead(Read("disk/segment.head"));
      EXPECT_THAT(head, IsOk());
      EXPECT_THAT(reader.OnBase(kSegment, head->lsn, head->base), IsOk());
      const auto key = engine::ParsePageKey(Read("disk/page.key"));
      EXPECT_THAT(key, IsOk());
      const std::string page = Read("disk/page.value");
      EXPECT_THAT(reader.OnPage(key->first, key->second, engine::Unchecked(page, "page").value()), IsOk());
    }
    return engine::ParseGroup(Read("disk/log.group"),
                              [&](engine::LogEntry entry) { return reader.OnRecord(std::move(entry)); });
  }
  absl::Status Write(const engine::Batch&) override { return absl::UnavailableError("golden"); }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::StatusOr<std::string> Note(absl::string_view name) const override {
    if (name != "owner") return absl::NotFoundError("format 1 has no other note");
    return Read("disk/owner.note");
  }
  absl::StatusOr<engine::Usage> usage() const override { return engine::Usage(); }

 private:
  const bool with_base_;
};

engine::SyncedMark SomeMark() {
  return {.count = 70000,
          .position = 4711,
          .current = true,
          .files = {{.name = "000012.log", .bytes = uint64_t{1} << 33, .crc32c = 0x01020304},
                    {.name = "MANIFEST-000011", .bytes = 300, .crc32c = 7}}};
}

TEST(GoldenTest, MarksAreReadAndWrittenAsEver) {
  const auto bytes = engine::EncodeMark(SomeMark());
  ASSERT_THAT(bytes, IsOk());
  ExpectGolden("disk/synced.mark", *bytes);
  std::string file = Read("disk/synced.mark");
  file.resize(2 * engine::kMarkSlotBytes, '\0');
  const auto found = engine::NewestMark(file);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->mark, SomeMark());
}

TEST(GoldenTest, DisksAreWrittenAsEver) {
  const DiskFiles files = DiskFiles::Of(History());
  ExpectGolden("disk/owner.note", files.note);
  ExpectGolden("disk/segment.head", files.head);
  ExpectGolden("disk/page.key", files.page_key);
  ExpectGolden("disk/page.value", files.page);
  ExpectGolden("disk/log.group", files.group);
}

TEST(GoldenTest, DisksOfFormat1AreRead) {
  const History history;
  GoldenEngine log(/*with_base=*/false);
  const auto from_log = shard::LoadDisk(log);
  ASSERT_THAT(from_log, IsOk());
  EXPECT_EQ(from_log->owner, (shard::DiskOwner{.cluster = 7, .shard = ShardId(2), .ring_bits = kRingBits}));
  ASSERT_TRUE(from_log->segments.at(kSegment).state.has_value());
  EXPECT_EQ(from_log->segments.at(kSegment).state->Hash(), history.segment.Hash());
  GoldenEngine base(/*with_base=*/true);
  const auto from_base = shard::LoadDisk(base);
  ASSERT_THAT(from_base, IsOk());
  const log::Segment& state = *from_base->segments.at(kSegment).state;
  EXPECT_EQ(state.version(), history.segment.version());
  std::vector<float> row(2);
  const uint64_t key = KeyOf(state, TableId(4));
  state.FindTable(TableId(4))->rows.Read(table::KeyView(absl::MakeConstSpan(&key, 1)), row.data());
  EXPECT_THAT(row, ElementsAre(1, 2));
}

}  // namespace
}  // namespace paceline
