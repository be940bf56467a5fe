// RocksDB's folder with one file damaged: all that was synced is there, or the folder is refused and the
// message names the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/store/marked_files.h"
#include "libs/engine/store/marked_folder.h"
#include "libs/engine/store/rocksdb_engine.h"
#include "libs/world/random.h"
#include "libs/world/real_clock.h"

namespace paceline::engine {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

constexpr size_t kBuffer = size_t{64} << 10;
constexpr absl::Duration kLongEnough = absl::Seconds(30);

class Records final : public Reader {
 public:
  absl::Status OnBase(SegmentId, Lsn, absl::string_view) override { return absl::OkStatus(); }
  absl::Status OnPage(SegmentId, const PageKey&, absl::string_view bytes) override {
    pages.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status OnRecord(LogEntry entry) override {
    last = entry.lsn.v;
    return absl::OkStatus();
  }
  uint64_t last = 0;
  std::string pages;
};

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() {
    std::string name = ::testing::TempDir() + "/paceline_damage_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~DamageTest() override { fs::remove_all(folder_); }

  fs::path Dir(const std::string& name = "d") const { return folder_ / name; }

  static absl::StatusOr<std::unique_ptr<Engine>> Open(const fs::path& dir) {
    return OpenRocksDbEngine(dir, {.write_buffer_bytes = kBuffer});
  }
  // Loads a copy of `dir`, which stays as it is, and returns what it holds.
  absl::StatusOr<Records> Find(const fs::path& dir) const {
    fs::remove_all(Dir("copy"));
    fs::copy(dir, Dir("copy"), fs::copy_options::recursive);
    const auto engine = Open(Dir("copy"));
    if (!engine.ok()) return engine.status();
    Records found;
    if (absl::Status loaded = (*engine)->Load(found); !loaded.ok()) return loaded;
    return found;
  }
  // Records from `first` on in `dir`; each is synced, and the engine is closed.
  static void Work(const fs::path& dir, uint64_t first, uint64_t records, size_t size = 3000) {
    auto engine = Open(dir);
    ASSERT_THAT(engine, IsOk());
    Records found;
    ASSERT_THAT((*engine)->Load(found), IsOk());
    for (uint64_t lsn = first; lsn < first + records; ++lsn) {
      ASSERT_NO_FATAL_FAILURE(Append(**engine, lsn, 1, size, dir.filename()));
      ASSERT_THAT((*engine)->Sync(), IsOk());
    }
  }
  static void Append(Engine& engine, uint64_t first, uint64_t records, size_t size,
                     const std::string& page = "page") {
    for (uint64_t lsn = first; lsn < first + records; ++lsn) {
      Batch batch;
      batch.Add(LogEntry{.segment = SegmentId(1),
                         .epoch = Epoch(1),
                         .lsn = Lsn(lsn),
                         .record = absl::Cord(std::string(size, static_cast<char>('a' + lsn % 26)))});
      batch.Add(Batch::PutPage{.segment = SegmentId(1),
                               .key = {.table = TableId(1), .start = lsn % 7, .depth = 1},
                               .bytes = page + std::to_string(lsn)});
      ASSERT_THAT(engine.Write(batch), IsOk());
    }
  }
  static std::vector<std::string> Files(const fs::path& dir, const std::function<bool(std::string)>& is) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir)) {
      if (is(entry.path().filename())) names.push_back(entry.path().filename());
    }
    return names;
  }
  static std::string OnlyLog(const fs::path& dir) {
    const auto names = Files(dir, IsLog);
    EXPECT_EQ(names.size(), 1u);
    return names.at(0);
  }

  fs::path folder_;
};

// Any damage to the only log.
TEST_F(DamageTest, DamageToTheLogIsRefusedByName) {
  ASSERT_NO_FATAL_FAILURE(Work(Dir(), 1, 10));
  EXPECT_EQ(Find(Dir())->last, 10u);
  const fs::path log = Dir() / OnlyLog(Dir());
  const std::string good = ReadAll(log);
  const std::string name = log.filename();
  world::SplitMix64 random(1);
  for (int i = 0; i < 50; ++i) {
    std::string bytes = good;
    bytes[world::Uniform(random, bytes.size())] ^= static_cast<char>(1 << world::Uniform(random, 8));
    WriteAll(log, bytes);
    EXPECT_THAT(Find(Dir()), StatusIs(StatusCode::kDataLoss, HasSubstr(name + " is damaged")));
    WriteAll(log, good.substr(0, world::Uniform(random, good.size())));
    EXPECT_THAT(Find(Dir()), StatusIs(StatusCode::kDataLoss, HasSubstr(name + " was cut")));
  }
  WriteAll(log, "");
  EXPECT_THAT(Find(Dir()), StatusIs(StatusCode::kDataLoss, HasSubstr(name + " was cut: it has 0 bytes")));
  fs::remove(log);
  EXPECT_THAT(Find(Dir()), StatusIs(StatusCode::kDataLoss, HasSubstr(name + " is missing")));
  EXPECT_THAT(Find(Dir()),
              StatusIs(StatusCode::kDataLoss, HasSubstr("start the shard with an empty folder")));
  WriteAll(log, good);
  EXPECT_EQ(Find(Dir())->last, 10u);
}

// A refusal changes nothing: once the file is put back, everything is there.
TEST_F(DamageTest, AFileThatIsPutBackIsAccepted) {
  ASSERT_NO_FATAL_FAILURE(Work(Dir(), 1, 10));
  const fs::path log = Dir() / OnlyLog(Dir());
  fs::rename(log, folder_ / "aside");
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Open(Dir()), StatusIs(StatusCode::kDataLoss));
  fs::rename(folder_ / "aside", log);
  ASSERT_NO_FATAL_FAILURE(Work(Dir(), 11, 1));
  EXPECT_EQ(Find(Dir())->last, 11u);
}

// After a clean end the mark covers everything; bytes beyond it were not synced, and may be torn.
TEST_F(DamageTest, UnsyncedBytesMayBeTorn) {
  ASSERT_NO_FATAL_FAILURE(Work(Dir(), 1, 10));
  auto engine = Open(Dir());
  ASSERT_THAT(engine, IsOk());
  Records found;
  ASSERT_THAT((*engine)->Load(found), IsOk());
  ASSERT_NO_FATAL_FAILURE(Append(**engine, 11, 10, 3000));
  ASSERT_THAT((*engine)->Sync(), IsOk());
  const uintmax_t synced = fs::file_size(Dir() / OnlyLog(Dir()));
  ASSERT_NO_FATAL_FAILURE(Append(**engine, 21, 10, 3000));
  fs::copy(Dir(), Dir("killed"));
  engine->reset();
  // The mark of after the end: it does not say less, and knows nothing of what was not synced.
  fs::copy(Dir() / kMarkFile, Dir("killed") / kMarkFile, fs::copy_options::overwrite_existing);
  EXPECT_EQ(Find(Dir("killed"))->last, 30u);
  const fs::path log = Dir("killed") / OnlyLog(Dir("killed"));
  const std::string good = ReadAll(log);
  ASSERT_GT(good.size(), synced);
  const auto mark = NewestMark(ReadAll(Dir() / kMarkFile));
  ASSERT_THAT(mark, IsOk());
  ASSERT_NE(mark->mark.Find(log.filename().string()), nullptr);
  EXPECT_EQ(mark->mark.Find(log.filename().string())->bytes, synced);
  EXPECT_EQ(mark->mark.position, 20u);
  world::SplitMix64 random(3);
  for (int i = 0; i < 30; ++i) {
    std::string torn = good;
    torn[synced + world::Uniform(random, good.size() - synced)] ^= 1;
    WriteAll(log, i % 2 == 0 ? torn : good.substr(0, synced + world::Uniform(random, good.size() - synced)));
    const auto left = Find(Dir("killed"));
    ASSERT_THAT(left, IsOk());
    EXPECT_GE(left->last, 20u);
    EXPECT_LT(left->last, 30u);
  }
}

// Any byte of any file: the outcome is all that was synced, or a refusal that names a file of the
// folder.
TEST_F(DamageTest, DamageToAnyFileIsHarmlessOrNamed) {
  ASSERT_NO_FATAL_FAILURE(Work(Dir(), 1, 60));
  ASSERT_NO_FATAL_FAILURE(Work(Dir(), 61, 20));
  const auto whole = Find(Dir());
  ASSERT_THAT(whole, IsOk());
  world::SplitMix64 random(2);
  int refused = 0;
  for (const std::string& name : Files(Dir(), [](const std::string&) { return true; })) {
    const fs::path path = Dir() / name;
    const std::string good = ReadAll(path);
    std::vector<std::string> damaged = {"", good.substr(0, good.size() / 2)};
    if (!good.empty()) damaged.push_back(good.substr(0, good.size() - 1));
    for (int i = 0; i < 8 && !good.empty(); ++i) {
      damaged.push_back(good);
      damaged.back()[world::Uniform(random, good.size())] ^=
          static_cast<char>(1 << world::Uniform(random, 8));
    }
    for (size_t i = 0; i <= damaged.size(); ++i) {
      i < damaged.size() ? WriteAll(path, damaged[i]) : static_cast<void>(fs::remove(path));
      const auto found = Find(Dir());
      if (found.ok()) {
        EXPECT_EQ(found->last, 80u) << name << " " << i;
        EXPECT_EQ(found->pages, whole->pages) << name << " " << i;
      } else {
        ++refused;
        EXPECT_THAT(found, StatusIs(StatusCode::kDataLoss, HasSubstr(name))) << i;
      }
    }
    WriteAll(path, good);
  }
  EXPECT_GT(refused, 50);
}

TEST_F(DamageTest, FilesOfAnotherFolderAreRefused) {
  for (const char* dir : {"d", "e"}) {
    ASSERT_NO_FATAL_FAILURE(Work(Dir(dir), 1, 60));
    ASSERT_NO_FATAL_FAILURE(Work(Dir(dir), 61, 20));
  }
  const auto whole = Find(Dir());
  ASSERT_THAT(whole, IsOk());
  int refused = 0;
  for (const std::string& name : Files(Dir(), [](const std::string&) { return true; })) {
    if (!fs::exists(Dir("e") / name)) continue;
    const std::string good = ReadAll(Dir() / name);
    WriteAll(Dir() / name, ReadAll(Dir("e") / name));
    const auto found = Find(Dir());
    if (found.ok()) {
      EXPECT_EQ(found->last, 80u) << name;
      EXPECT_EQ(found->pages, whole->pages) << name;
    } else {
      ++refused;
      EXPECT_THAT(found, StatusIs(StatusCode::kDataLoss, HasSubstr(name)));
    }
    WriteAll(Dir() / name, good);
  }
  EXPECT_GT(refused, 3);
}

// An older copy of a single file beside the others.
TEST_F(DamageTest, AFileOfBeforeIsHarmlessOrNamed) {
  ASSERT_NO_FATAL_FAILURE(Work(Dir(), 1, 60));
  fs::copy(Dir(), Dir("old"));
  ASSERT_NO_FATAL_FAILURE(Work(Dir(), 61, 50));
  const auto whole = Find(Dir());
  for (const std::string& name : Files(Dir("old"), [](const std::string&) { return true; })) {
    const bool there = fs::exists(Dir() / name);
    const std::string good = there ? ReadAll(Dir() / name) : "";
    WriteAll(Dir() / name, ReadAll(Dir("old") / name));
    const auto found = Find(Dir());
    if (found.ok()) {
      EXPECT_EQ(found->last, 110u) << name;
      EXPECT_EQ(found->pages, whole->pages) << name;
    } else {
      EXPECT_THAT(found, StatusIs(StatusCode::kDataLoss, HasSubstr(name)));
    }
    there ? WriteAll(Dir() / name, good) : static_cast<void>(fs::remove(Dir() / name));
  }
}

// -- the mark in time --

// While it runs the mark follows by itself, without further requests.
TEST_F(DamageTest, TheMarkFollowsTheSyncs) {
  auto engine = Open(Dir());
  ASSERT_THAT(engine, IsOk());
  Records found;
  ASSERT_THAT((*engine)->Load(found), IsOk());
  Batch batch;
  batch.Add(Batch::PutNote{.name = "note", .bytes = "of note"});
  ASSERT_THAT((*engine)->Write(batch), IsOk());
  ASSERT_THAT((*engine)->Sync(), IsOk());
  const auto marked = [&] {
    const auto mark = NewestMark(ReadAll(Dir() / kMarkFile));
    return mark.ok() && mark->mark.position == 1;
  };
  const absl::Time limit = world::MonotonicNow() + kLongEnough;
  while (!marked()) {
    ASSERT_TRUE(world::MonotonicNow() < limit) << "the mark does not follow";
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace paceline::engine
