#include "libs/engine/store/synced_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/store/rocksdb_engine.h"
#include "libs/engine/store/test_util/failing_files.h"

namespace paceline::engine {
namespace {

using ::paceline::testing::IsOk;
using testing::Platter;

class SyncedFilesTest : public ::testing::Test {
 protected:
  SyncedFilesTest() {
    std::string name = ::testing::TempDir() + "/paceline_synced_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~SyncedFilesTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<rocksdb::FSWritableFile> NewFile() {
    const std::unique_ptr<rocksdb::Env> env = WithoutNeedlessSyncs(failing_->GetFileSystem());
    std::unique_ptr<rocksdb::FSWritableFile> file;
    EXPECT_TRUE(env->GetFileSystem()->NewWritableFile(folder_ + "/file", {}, &file, nullptr).ok());
    return file;
  }

  std::string folder_;
  Platter platter_;
  const std::unique_ptr<rocksdb::Env> failing_ = testing::FailingEnv(platter_);
};

TEST_F(SyncedFilesTest, IsSyncedAgainOnceSomethingWasWritten) {
  const auto file = NewFile();
  ASSERT_TRUE(file->Append("a", {}, nullptr).ok());
  ASSERT_TRUE(file->Sync({}, nullptr).ok());
  platter_.Meet(Platter::Fault::kSyncsFail);
  EXPECT_TRUE(file->Sync({}, nullptr).ok());
  EXPECT_TRUE(file->Fsync({}, nullptr).ok());
  EXPECT_EQ(platter_.met(), 0u);
  ASSERT_TRUE(file->Append("b", {}, nullptr).ok());
  EXPECT_FALSE(file->Sync({}, nullptr).ok());
}

TEST_F(SyncedFilesTest, AFailedSyncIsRepeated) {
  const auto file = NewFile();
  ASSERT_TRUE(file->Append("a", {}, nullptr).ok());
  platter_.Meet(Platter::Fault::kSyncsFail);
  EXPECT_FALSE(file->Sync({}, nullptr).ok());
  EXPECT_FALSE(file->Fsync({}, nullptr).ok());
  EXPECT_EQ(platter_.met(), 2u);
}

TEST_F(SyncedFilesTest, APartlyWrittenFileIsSyncedAgain) {
  const auto file = NewFile();
  ASSERT_TRUE(file->Sync({}, nullptr).ok());
  platter_.Meet(Platter::Fault::kFull);
  ASSERT_FALSE(file->Append("ab", {}, nullptr).ok());
  platter_.Meet(Platter::Fault::kSyncsFail);
  EXPECT_FALSE(file->Sync({}, nullptr).ok());
}

// RocksDB ends the process at a sync that comes after one that failed in the background.
TEST_F(SyncedFilesTest, NoSyncOfAClosedLogCanFailInTheBackground) {
  class Nothing final : public Reader {
   public:
    absl::Status OnBase(SegmentId, Lsn, absl::string_view) override { return absl::OkStatus(); }
    absl::Status OnPage(SegmentId, const PageKey&, absl::string_view) override { return absl::OkStatus(); }
    absl::Status OnRecord(LogEntry) override { return absl::OkStatus(); }
  };
  platter_.Meet(Platter::Fault::kNeedlessSyncsFail);
  constexpr size_t kBuffer = size_t{64} << 10;
  auto engine = OpenRocksDbEngine(folder_ + "/d", {.write_buffer_bytes = kBuffer, .env = failing_.get()});
  ASSERT_THAT(engine, IsOk());
  Nothing nothing;
  ASSERT_THAT((*engine)->Load(nothing), IsOk());
  for (uint64_t lsn = 1; lsn <= 200; ++lsn) {
    Batch batch;
    batch.Add(LogEntry{.segment = SegmentId(1),
                       .epoch = Epoch(1),
                       .lsn = Lsn(lsn),
                       .record = absl::Cord(std::string(kBuffer / 4, 'r'))});
    ASSERT_THAT((*engine)->Write(batch), IsOk());
    ASSERT_THAT((*engine)->Sync(), IsOk());
  }
  EXPECT_EQ(platter_.met(), 0u);
}

}  // namespace
}  // namespace paceline::engine
