// A shard's disk as it is in a process, over files that fill up, fail, and lose power: what was said to be
// safe is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "libs/base/mutex.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/store/rocksdb_engine.h"
#include "libs/engine/store/test_util/failing_files.h"
#include "libs/world/real_clock.h"
#include "services/shard/disk/disk_writer.h"

namespace paceline::shard {
namespace {

using engine::testing::Platter;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

class LastRecord final : public engine::Reader {
 public:
  absl::Status OnBase(SegmentId, Lsn, absl::string_view) override { return absl::OkStatus(); }
  absl::Status OnPage(SegmentId, const engine::PageKey&, absl::string_view) override {
    return absl::OkStatus();
  }
  absl::Status OnRecord(engine::LogEntry entry) override {
    EXPECT_EQ(entry.lsn.v, lsn + 1);
    lsn = entry.lsn.v;
    return absl::OkStatus();
  }
  uint64_t lsn = 0;
};

struct Meeting {
  std::string name;
  Platter::Fault fault;
  absl::StatusCode code;
  std::string says;
};

class DiskFaultsTest : public ::testing::TestWithParam<Meeting> {
 protected:
  DiskFaultsTest() {
    std::string name = ::testing::TempDir() + "/paceline_faults_XXXXXX";
    folder_ = mkdtemp(name.data());
    auto opened =
        engine::OpenRocksDbEngine(Dir(), {.write_buffer_bytes = size_t{64} << 10, .env = env_.get()});
    EXPECT_THAT(opened, IsOk());
    LastRecord none;
    EXPECT_THAT((*opened)->Load(none), IsOk());
    writer_ = std::make_unique<DiskWriter>(*std::move(opened));
  }
  ~DiskFaultsTest() override {
    writer_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::string Dir() const { return folder_ + "/d"; }

  // One more record; its Synced is noted.
  void Write() {
    engine::Batch batch;
    batch.Add(engine::LogEntry{.segment = SegmentId(1),
                               .epoch = Epoch(1),
                               .lsn = Lsn(++written_),
                               .record = absl::Cord(std::string(world::Uniform(random_, 3000), 'r'))});
    writer_->Write(std::move(batch), [this, lsn = written_] {
      const MutexLock lock(&mutex_);
      synced_ = std::max(synced_, lsn);
      changed_.SignalAll();
    });
  }
  uint64_t synced() {
    const MutexLock lock(&mutex_);
    return synced_;
  }
  void AwaitSynced(uint64_t lsn) {
    MutexLock lock(&mutex_);
    ASSERT_TRUE(changed_.AwaitFor(&mutex_, absl::Seconds(30), [&] { return synced_ >= lsn; }));
  }
  // Writes until the disk has failed; no more than a few records wait meanwhile, as a shard takes no parts
  // either when its disk falls behind: the disk of a busy machine would have gigabytes to write after the
  // fault.
  void WriteUntilItFails() {
    constexpr uint64_t kMayWait = 64;
    const absl::Time end = world::MonotonicNow() + absl::Seconds(30);
    while (writer_->status().ok()) {
      ASSERT_LT(world::MonotonicNow(), end);
      if (written_ - synced() < kMayWait) Write();
      std::this_thread::yield();
    }
  }
  // After power was lost, and with what had been said to be safe by then.
  void ExpectAllSafeIsThere() {
    const uint64_t safe = synced();
    const std::string left = folder_ + "/left";
    platter_.LosePower(Dir(), left, random_);
    auto opened = engine::OpenRocksDbEngine(left);
    ASSERT_THAT(opened, IsOk());
    LastRecord last;
    ASSERT_THAT((*opened)->Load(last), IsOk());
    EXPECT_GE(last.lsn, safe);
    EXPECT_LE(last.lsn, written_);
  }

  std::string folder_;
  Platter platter_;
  const std::unique_ptr<rocksdb::Env> env_ = engine::testing::FailingEnv(platter_);
  world::SplitMix64 random_{7};
  uint64_t written_ = 0;
  Mutex mutex_;
  CondVar changed_;
  uint64_t synced_ = 0;
  std::unique_ptr<DiskWriter> writer_;
};

INSTANTIATE_TEST_SUITE_P(All, DiskFaultsTest,
                         ::testing::Values(Meeting{"Full", Platter::Fault::kFull,
                                                   absl::StatusCode::kResourceExhausted,
                                                   "No space left on device"},
                                           Meeting{"WritesFail", Platter::Fault::kWritesFail,
                                                   absl::StatusCode::kUnavailable, "Input/output error"},
                                           Meeting{"SyncsFail", Platter::Fault::kSyncsFail,
                                                   absl::StatusCode::kUnavailable, "Input/output error"}),
                         [](const auto& meeting) { return meeting.param.name; });

TEST_P(DiskFaultsTest, PowerIsLostWhileItFails) {
  for (int i = 0; i < 100; ++i) Write();
  ASSERT_NO_FATAL_FAILURE(AwaitSynced(100));
  platter_.MeetAfter(1 + world::Uniform(random_, 20), GetParam().fault);
  ASSERT_NO_FATAL_FAILURE(WriteUntilItFails());
  EXPECT_THAT(writer_->status(), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
  EXPECT_LT(synced(), written_);
  ExpectAllSafeIsThere();
}

TEST_P(DiskFaultsTest, AfterAFaultAllWaitingBatchesAreSafe) {
  for (int round = 0; round < 2; ++round) {
    platter_.MeetAfter(1 + world::Uniform(random_, 200), GetParam().fault);
    ASSERT_NO_FATAL_FAILURE(WriteUntilItFails());
    EXPECT_THAT(writer_->status(), StatusIs(GetParam().code, HasSubstr(GetParam().says)));
    for (int i = 0; i < 20; ++i) Write();
    EXPECT_LT(synced(), written_);
    platter_.Meet(Platter::Fault::kNone);
    ASSERT_NO_FATAL_FAILURE(AwaitSynced(written_));
    EXPECT_THAT(writer_->status(), IsOk());
    EXPECT_EQ(writer_->pending_bytes(), 0u);
    ExpectAllSafeIsThere();
  }
}

}  // namespace
}  // namespace paceline::shard
