// Pages that were written anew leave the disk: after a start too, which compacts nothing before it has loaded
// all.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/store/rocksdb_engine.h"

namespace paceline::engine {
namespace {

namespace fs = std::filesystem;
using ::paceline::testing::IsOk;

constexpr size_t kBuffer = size_t{64} << 10;
constexpr size_t kPageBytes = size_t{20} << 10;
constexpr uint64_t kKeys = 7;

class Pages final : public Reader {
 public:
  absl::Status OnBase(SegmentId, Lsn, absl::string_view) override { return absl::OkStatus(); }
  absl::Status OnPage(SegmentId, const PageKey&, absl::string_view) override {
    ++pages;
    return absl::OkStatus();
  }
  absl::Status OnRecord(LogEntry) override { return absl::OkStatus(); }
  uint64_t pages = 0;
};

class CompactionTest : public ::testing::Test {
 protected:
  CompactionTest() {
    std::string name = ::testing::TempDir() + "/paceline_compaction_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~CompactionTest() override { fs::remove_all(folder_); }

  std::unique_ptr<Engine> Load(uint64_t* pages) const {
    auto engine = OpenRocksDbEngine(folder_ / "d", {.write_buffer_bytes = kBuffer});
    EXPECT_THAT(engine, IsOk());
    Pages found;
    EXPECT_THAT((*engine)->Load(found), IsOk());
    *pages = found.pages;
    return *std::move(engine);
  }
  static void Write(Engine& engine, int times) {
    for (int i = 0; i < times; ++i) {
      Batch batch;
      batch.Add(Batch::PutPage{.segment = SegmentId(1),
                               .key = {.table = TableId(1), .start = i % kKeys, .depth = 1},
                               .bytes = std::string(kPageBytes, static_cast<char>('a' + i % 26))});
      ASSERT_THAT(engine.Write(batch), IsOk());
    }
    ASSERT_THAT(engine.Sync(), IsOk());
  }
  uint64_t TableBytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "d")) {
      std::error_code gone;
      const uint64_t size = entry.path().extension() == ".sst" ? entry.file_size(gone) : 0;
      bytes += gone ? 0 : size;
    }
    return bytes;
  }

  fs::path folder_;
};

TEST_F(CompactionTest, PagesThatWereReplacedLeaveTheDisk) {
  constexpr int kTimes = 500;
  for (const uint64_t expected : {uint64_t{0}, kKeys}) {
    uint64_t pages = 0;
    const auto engine = Load(&pages);
    EXPECT_EQ(pages, expected);
    ASSERT_NO_FATAL_FAILURE(Write(*engine, kTimes));
    const absl::Time end = absl::Now() + absl::Seconds(60);
    while (TableBytes() > kTimes * kPageBytes / 4 && absl::Now() < end) std::this_thread::yield();
    EXPECT_LE(TableBytes(), kTimes * kPageBytes / 4);
  }
}

}  // namespace
}  // namespace paceline::engine
