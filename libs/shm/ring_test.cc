#include "libs/shm/ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace paceline::shm {
namespace {

// A ring in this process's memory.
struct TestRing {
  explicit TestRing(uint64_t bytes) : data(bytes), words(std::make_unique<RingWords>()) {}
  RingWriter writer() { return {*words, data.data(), data.size()}; }
  RingReader reader() { return {*words, data.data(), data.size()}; }

  std::vector<char> data;
  std::unique_ptr<RingWords> words;
};

char ByteAt(uint64_t position) {
  return static_cast<char>((position * 2'654'435'761u) >> 13);
}

TEST(Ring, IsAQueueOfBytes) {
  std::mt19937 random(20'261'126);
  for (const uint64_t bytes : {16, 64, 256}) {
    TestRing ring(bytes);
    RingWriter writer = ring.writer();
    RingReader reader = ring.reader();
    std::deque<char> hidden, shown;  // the reference: put, and published as well
    uint64_t unreleased = 0;
    const auto used = [&] { return hidden.size() + shown.size() + unreleased; };
    for (int step = 0; step < 100'000; ++step) {
      char piece[300];
      const size_t size = random() % (bytes + 40);
      switch (random() % 4) {
        case 0: {
          for (size_t i = 0; i < size; ++i) piece[i] = static_cast<char>(random());
          const size_t put = writer.Put(piece, size);
          ASSERT_EQ(put, std::min<uint64_t>(size, bytes - used()));
          hidden.insert(hidden.end(), piece, piece + put);
          break;
        }
        case 1:
          ASSERT_FALSE(writer.Publish());
          shown.insert(shown.end(), hidden.begin(), hidden.end());
          hidden.clear();
          break;
        case 2: {
          ASSERT_EQ(reader.HasBytes(), !shown.empty());
          const size_t taken = reader.Take(piece, size);
          ASSERT_EQ(taken, std::min<uint64_t>(size, shown.size()));
          ASSERT_TRUE(std::equal(piece, piece + taken, shown.begin()));
          shown.erase(shown.begin(), shown.begin() + static_cast<ptrdiff_t>(taken));
          unreleased += taken;
          break;
        }
        default:
          ASSERT_FALSE(reader.Release());
          unreleased = 0;
      }
      ASSERT_EQ(writer.HasRoom(), used() < bytes);
    }
    EXPECT_FALSE(writer.damaged() || reader.damaged());
  }
}

TEST(Ring, WhoSleepsIsWokenOnce) {
  TestRing ring(64);
  RingWriter writer = ring.writer();
  RingReader reader = ring.reader();
  EXPECT_TRUE(reader.Sleep());
  const std::string full(64, 'x');
  EXPECT_EQ(writer.Put(full.data(), 1), 1u);
  EXPECT_TRUE(writer.Publish());
  EXPECT_FALSE(writer.Publish()) << "it is awake";
  EXPECT_FALSE(reader.Sleep()) << "there is a byte";

  EXPECT_FALSE(writer.AwaitRoom()) << "there is room";
  EXPECT_EQ(writer.Put(full.data(), full.size()), 63u);
  writer.Publish();
  EXPECT_TRUE(writer.AwaitRoom());
  char out[64];
  EXPECT_EQ(reader.Take(out, 31), 31u);
  EXPECT_FALSE(reader.Release()) << "less than half is free";
  EXPECT_EQ(reader.Take(out, 1), 1u);
  EXPECT_TRUE(reader.Release());
  EXPECT_EQ(reader.Take(out, 1), 1u);
  EXPECT_FALSE(reader.Release());
}

TEST(Ring, APositionThatCannotBeTrueIsNotGoneBy) {
  for (const uint64_t lie : {uint64_t{65}, uint64_t{1} << 40, ~uint64_t{0}}) {
    TestRing ring(64);
    RingReader reader = ring.reader();
    RingWriter writer = ring.writer();
    ring.words->head = lie;
    char out[128];
    EXPECT_EQ(reader.Take(out, sizeof(out)), 0u);
    EXPECT_TRUE(reader.damaged());
    ring.words->tail = lie;
    EXPECT_EQ(writer.Put(out, sizeof(out)), 0u);
    EXPECT_TRUE(writer.damaged());
    EXPECT_FALSE(writer.AwaitRoom()) << "nobody would wake it";
  }
}

TEST(Ring, AFrozenReaderSeesOnlyWhatWasThere) {
  TestRing ring(64);
  RingWriter writer = ring.writer();
  RingReader reader = ring.reader();
  writer.Put("abc", 3);
  writer.Publish();
  reader.Freeze();
  writer.Put("def", 3);
  writer.Publish();
  char out[8];
  EXPECT_EQ(reader.Take(out, sizeof(out)), 3u);
  reader.Release();
  EXPECT_EQ(reader.Take(out, sizeof(out)), 0u);
}

// Bytes through a small ring by two threads that sleep by the ring's rules: a wake-up that is missed would
// hang one of them, and the test's time runs out.
struct Bells {
  std::atomic<uint32_t> to_reader{0};
  std::atomic<uint32_t> to_writer{0};
};

void WriteAll(RingWriter writer, uint64_t total, Bells& bells) {
  std::mt19937 random(1);
  char piece[100];
  for (uint64_t at = 0; at < total;) {
    const size_t size = std::min<uint64_t>(random() % sizeof(piece) + 1, total - at);
    for (size_t i = 0; i < size; ++i) piece[i] = ByteAt(at + i);
    size_t done = 0;
    while (done < size) {
      const size_t put = writer.Put(piece + done, size - done);
      done += put;
      const uint32_t rung = bells.to_writer.load();
      if (writer.Publish()) {
        ++bells.to_reader;
        bells.to_reader.notify_one();
      }
      if (put == 0 && writer.AwaitRoom()) bells.to_writer.wait(rung);
    }
    at += size;
  }
}

bool ReadAll(RingReader reader, uint64_t total, Bells& bells) {
  std::mt19937 random(2);
  char piece[100];
  bool same = true;
  for (uint64_t at = 0; at < total;) {
    const uint32_t rung = bells.to_reader.load();
    const size_t taken = reader.Take(piece, random() % sizeof(piece) + 1);
    for (size_t i = 0; i < taken; ++i) same = same && piece[i] == ByteAt(at + i);
    at += taken;
    if (reader.Release()) {
      ++bells.to_writer;
      bells.to_writer.notify_one();
    }
    if (taken == 0 && reader.Sleep()) bells.to_reader.wait(rung);
    reader.Rise();
  }
  return same;
}

TEST(Ring, TwoThreadsLoseNothing) {
  constexpr uint64_t kTotal = 2'000'000;
  TestRing ring(128);
  Bells bells;
  std::thread thread([&] { WriteAll(ring.writer(), kTotal, bells); });
  EXPECT_TRUE(ReadAll(ring.reader(), kTotal, bells));
  thread.join();
}

TEST(Ring, TwoProcessesLoseNothing) {
  constexpr uint64_t kBytes = 4096;
  constexpr uint64_t kTotal = 2'000'000;
  void* const memory =
      mmap(nullptr, sizeof(RingWords) + kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const words = static_cast<RingWords*>(memory);
  char* const data = static_cast<char*>(memory) + sizeof(RingWords);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // writes, and looks again while there is no room
    RingWriter writer(*words, data, kBytes);
    for (uint64_t at = 0; at < kTotal && getppid() != 1;) {
      char piece[1000];
      const size_t size = std::min<uint64_t>(sizeof(piece), kTotal - at);
      for (size_t i = 0; i < size; ++i) piece[i] = ByteAt(at + i);
      at += writer.Put(piece, size);
      writer.Publish();
    }
    _exit(0);
  }
  RingReader reader(*words, data, kBytes);
  bool same = true;
  for (uint64_t at = 0; at < kTotal && !reader.damaged();) {
    char piece[777];
    const size_t taken = reader.Take(piece, sizeof(piece));
    for (size_t i = 0; i < taken; ++i) same = same && piece[i] == ByteAt(at + i);
    at += taken;
    reader.Release();
  }
  EXPECT_TRUE(same);
  EXPECT_FALSE(reader.damaged());
  int ended = -1;
  EXPECT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
  munmap(memory, sizeof(RingWords) + kBytes);
}

}  // namespace
}  // namespace paceline::shm
