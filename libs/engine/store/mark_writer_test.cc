#include "libs/engine/store/mark_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::engine {
namespace {

using ::paceline::testing::IsOk;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// The content of a file, shared by all its handles. Syncs fail while the test tells them to.
struct Disk {
  Mutex mutex;
  CondVar changed;
  std::string bytes ABSL_GUARDED_BY(mutex);
  std::vector<int> slots ABSL_GUARDED_BY(mutex);  // that were written to, one after the other
  int failed ABSL_GUARDED_BY(mutex) = 0;
  bool fails ABSL_GUARDED_BY(mutex) = false;

  Disk() : bytes(2 * kMarkSlotBytes, '\0') {
    const std::string first = EncodeMark({.count = 1, .files = {}}).value();
    bytes.replace(0, first.size(), first);
  }
  FoundMark Found() {
    const MutexLock lock(&mutex);
    const auto found = NewestMark(bytes);
    EXPECT_THAT(found, IsOk());
    return found.ok() ? *found : FoundMark();
  }
  void Fail(bool whether) {
    const MutexLock lock(&mutex);
    fails = whether;
  }
  template <class Done>
  bool Await(Done done) {
    const MutexLock lock(&mutex);
    return changed.AwaitFor(&mutex, absl::Seconds(30), done);
  }
};

class DiskFile final : public rocksdb::FSRandomRWFile {
 public:
  explicit DiskFile(Disk& disk) : disk_(disk) {}
  IOStatus Write(uint64_t offset, const rocksdb::Slice& data, const IOOptions&, IODebugContext*) override {
    const MutexLock lock(&disk_.mutex);
    disk_.slots.push_back(static_cast<int>(offset / kMarkSlotBytes));
    // One that fails leaves half of it.
    disk_.bytes.replace(offset, disk_.fails ? data.size() / 2 : data.size(), data.data(),
                        disk_.fails ? data.size() / 2 : data.size());
    return IOStatus::OK();
  }
  IOStatus Read(uint64_t, size_t, const IOOptions&, rocksdb::Slice*, char*, IODebugContext*) const override {
    return IOStatus::NotSupported();
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    const MutexLock lock(&disk_.mutex);
    disk_.failed += disk_.fails ? 1 : 0;
    disk_.changed.SignalAll();
    return disk_.fails ? IOStatus::IOError("fsync", "Input/output error") : IOStatus::OK();
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  Disk& disk_;
};

std::unique_ptr<MarkWriter> WriterOf(Disk& disk) {
  return std::make_unique<MarkWriter>(std::make_unique<DiskFile>(disk), disk.Found());
}

SyncedMark::File Log(int log, uint64_t bytes) {
  return {.name = absl::StrCat(log, ".log"), .bytes = bytes, .crc32c = static_cast<uint32_t>(bytes)};
}

TEST(MarkWriterTest, FollowsByItself) {
  Disk disk;
  const auto writer = WriterOf(disk);
  writer->Synced(Log(1, 10));
  writer->Reached(4);
  EXPECT_TRUE(disk.Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto found = NewestMark(disk.bytes);
    return found.ok() && found->mark.position == 4 && found->mark.Find("1.log") != nullptr;
  }));
}

TEST(MarkWriterTest, IsCompleteAtItsEnd) {
  Disk disk;
  for (uint64_t bytes = 1; bytes < 50; ++bytes) {
    auto writer = WriterOf(disk);
    writer->Synced(Log(1, bytes));
    writer.reset();
    EXPECT_EQ(disk.Found().mark.files, std::vector{Log(1, bytes)});
  }
}

// The slots are written in turn, so that a write never touches the last whole mark.
TEST(MarkWriterTest, AFailedMarkIsWrittenAgainInItsSlot) {
  Disk disk;
  const auto writer = WriterOf(disk);
  writer->Synced(Log(1, 10));
  ASSERT_TRUE(writer->WriteNow().ok());
  disk.Fail(true);
  writer->Synced(Log(1, 20));
  EXPECT_FALSE(writer->WriteNow().ok());
  EXPECT_FALSE(writer->status().ok());
  EXPECT_EQ(disk.Found().mark.files, std::vector{Log(1, 10)});
  ASSERT_TRUE(disk.Await([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return disk.failed >= 3; }));
  EXPECT_EQ(disk.Found().mark.files, std::vector{Log(1, 10)});
  disk.Fail(false);
  EXPECT_TRUE(writer->WriteNow().ok());
  EXPECT_TRUE(writer->status().ok());
  EXPECT_EQ(disk.Found().mark.files, std::vector{Log(1, 20)});
  const MutexLock lock(&disk.mutex);
  ASSERT_GE(disk.slots.size(), 4u);
  EXPECT_EQ(disk.slots.front(), 1) << "the first mark is in slot 0";
  for (size_t i = 1; i < disk.slots.size(); ++i) EXPECT_EQ(disk.slots[i], 0) << "the good one is in slot 1";
}

TEST(MarkWriterTest, AFileThatCannotBeForgottenIsKept) {
  Disk disk;
  const auto writer = WriterOf(disk);
  writer->Synced(Log(1, 10));
  ASSERT_TRUE(writer->WriteNow().ok());
  disk.Fail(true);
  EXPECT_FALSE(writer->Forget("1.log").ok());
  EXPECT_FALSE(writer->Forget("1.log").ok()) << "the disk still has it";
  disk.Fail(false);
  EXPECT_TRUE(writer->Forget("1.log").ok());
  EXPECT_TRUE(disk.Found().mark.files.empty());
}

// A thread that deletes a file finds no mark that names it, even while others write.
TEST(MarkWriterTest, ManyAtATime) {
  Disk disk;
  const auto writer = WriterOf(disk);
  std::vector<std::thread> threads;
  for (int log = 1; log <= 4; ++log) {
    threads.emplace_back([&, log] {
      for (uint64_t round = 1; round <= 200; ++round) {
        writer->Synced(Log(log, round));
        writer->Reached(round);
        EXPECT_TRUE(round % 3 != 0 || writer->WriteNow().ok());
        if (round % 10 != 0) continue;
        EXPECT_TRUE(writer->Forget(Log(log, round).name).ok());
        EXPECT_EQ(disk.Found().mark.Find(Log(log, round).name), nullptr);
      }
      writer->Synced(Log(log, 1000));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(writer->WriteNow().ok());
  for (int log = 1; log <= 4; ++log) EXPECT_NE(disk.Found().mark.Find(Log(log, 0).name), nullptr);
  EXPECT_EQ(disk.Found().mark.position, 200u);
}

}  // namespace
}  // namespace paceline::engine
