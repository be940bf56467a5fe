#include "services/shard/disk/disk_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "libs/base/test_util/status_matchers.h"

namespace paceline::shard {
namespace {

using ::paceline::testing::IsOk;

// Notes its calls; fails as long as a test wants it to.
class SlowEngine final : public engine::Engine {
 public:
  struct Seen {
    Mutex mutex;
    CondVar changed;
    std::vector<uint64_t> lsns;
    uint64_t writes = 0;
    uint64_t syncs = 0;
    absl::Status error;
    bool held = false;  // writes wait

    template <class Holds>
    void Await(Holds holds) {
      MutexLock lock(&mutex);
      EXPECT_TRUE(changed.AwaitFor(&mutex, absl::Seconds(30), holds));
    }
  };
  explicit SlowEngine(Seen& seen) : seen_(seen) {}

  absl::Status Load(engine::Reader&) override { return absl::OkStatus(); }
  absl::Status Write(const engine::Batch& batch) override {
    MutexLock lock(&seen_.mutex);
    ++seen_.writes;
    seen_.changed.SignalAll();
    seen_.changed.Await(&seen_.mutex, [this] { return !seen_.held; });
    if (!seen_.error.ok()) return seen_.error;
    for (const auto& operation : batch.operations()) {
      if (const auto* entry = std::get_if<engine::LogEntry>(&operation)) seen_.lsns.push_back(entry->lsn.v);
    }
    seen_.changed.SignalAll();
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    MutexLock lock(&seen_.mutex);
    ++seen_.syncs;
    seen_.changed.SignalAll();
    return seen_.error;
  }
  absl::StatusOr<std::string> Note(absl::string_view) const override { return absl::NotFoundError("none"); }
  absl::StatusOr<engine::Usage> usage() const override { return engine::Usage(); }

 private:
  Seen& seen_;
};

// Writes `batch` and waits until the writer says that it is synced. That the engine was told to sync is not
// enough: the writer counts what it has done when the engine returns.
void WriteAndSync(DiskWriter& writer, SlowEngine::Seen& seen, engine::Batch batch) {
  bool synced = false;  // guarded by seen.mutex
  writer.Write(std::move(batch), [&] {
    MutexLock lock(&seen.mutex);
    synced = true;
    seen.changed.SignalAll();
  });
  seen.Await([&] { return synced; });
}

engine::Batch Batch(uint64_t lsn) {
  engine::Batch batch;
  batch.Add(engine::LogEntry{
      .segment = SegmentId(1), .epoch = Epoch(1), .lsn = Lsn(lsn), .record = absl::Cord("record")});
  return batch;
}

TEST(DiskWriterTest, BatchesThatComeMeanwhileAreWrittenTogether) {
  SlowEngine::Seen seen;
  seen.held = true;
  DiskWriter writer(std::make_unique<SlowEngine>(seen));
  writer.Write(Batch(1));
  seen.Await([&] { return seen.writes == 1; });
  for (uint64_t lsn = 2; lsn <= 50; ++lsn) writer.Write(Batch(lsn));
  EXPECT_GT(writer.pending_bytes(), 50u * 6);
  {
    MutexLock lock(&seen.mutex);
    seen.held = false;
    seen.changed.SignalAll();
  }
  seen.Await([&] { return seen.lsns.size() == 50; });
  MutexLock lock(&seen.mutex);
  EXPECT_EQ(seen.writes, 2u);
  EXPECT_TRUE(std::ranges::is_sorted(seen.lsns));
}

TEST(DiskWriterTest, IsSyncedSoonAndAtTheEnd) {
  SlowEngine::Seen seen;
  Disk::Done done;
  {
    DiskWriter writer(std::make_unique<SlowEngine>(seen));
    writer.Write(Batch(1));  // nobody waits for it
    seen.Await([&] { return seen.syncs == 1; });
    WriteAndSync(writer, seen, Batch(2));
    done = writer.done();
    writer.Write(Batch(3));
  }
  EXPECT_EQ(seen.syncs, 3u);
  EXPECT_EQ(done.syncs, 2u);
  EXPECT_EQ(done.bytes, Batch(1).bytes() + Batch(2).bytes());
  EXPECT_THAT(seen.lsns, ::testing::ElementsAre(1, 2, 3));
}

TEST(DiskWriterTest, AFailedWriteIsRepeated) {
  SlowEngine::Seen seen;
  seen.error = absl::ResourceExhaustedError("full");
  DiskWriter writer(std::make_unique<SlowEngine>(seen));
  writer.Write(Batch(1));
  seen.Await([&] { return seen.writes >= 2; });
  EXPECT_EQ(writer.status().code(), absl::StatusCode::kResourceExhausted);
  {
    MutexLock lock(&seen.mutex);
    seen.error = absl::OkStatus();
  }
  WriteAndSync(writer, seen, Batch(2));
  EXPECT_THAT(writer.status(), IsOk());
  EXPECT_EQ(writer.pending_bytes(), 0u);
  MutexLock lock(&seen.mutex);
  EXPECT_THAT(seen.lsns, ::testing::ElementsAre(1, 2));
}

TEST(DiskWriterTest, AFailingDiskDoesNotHoldUpTheEnd) {
  SlowEngine::Seen seen;
  seen.error = absl::UnavailableError("gone");
  DiskWriter writer(std::make_unique<SlowEngine>(seen));
  writer.Write(Batch(1));
  seen.Await([&] { return seen.writes == 1; });
}

TEST(DiskWriterTest, ManyThreadsKeepTheirOrder) {
  SlowEngine::Seen seen;
  constexpr uint64_t kThreads = 4, kEach = 500;
  {
    DiskWriter writer(std::make_unique<SlowEngine>(seen));
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&writer, t] {
        for (uint64_t i = 0; i < kEach; ++i) writer.Write(Batch(t * kEach + i));
      });
    }
    threads.clear();
  }
  ASSERT_EQ(seen.lsns.size(), kThreads * kEach);
  std::vector<uint64_t> next(kThreads);
  for (const uint64_t lsn : seen.lsns) EXPECT_EQ(next[lsn / kEach]++, lsn % kEach);
}

}  // namespace
}  // namespace paceline::shard
