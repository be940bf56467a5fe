#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// A ring of bytes in memory that two processes share: one process writes, the other one reads. The peer may
// be broken or hostile. So each end keeps its own position to itself, reads the peer's position once per use,
// and checks it before it goes by it. A position that cannot be true marks the ring as damaged, for good.
//
// Pure: the classes work on memory that they are given, and say when somebody has to be woken.
namespace paceline::shm {

// The words of one ring. Each lies in a cache line of its own. All zero at the beginning.
struct RingWords {
  alignas(64) std::atomic<uint64_t> head;           // bytes ever written; the writer's
  alignas(64) std::atomic<uint64_t> tail;           // bytes ever read; the reader's
  alignas(64) std::atomic<uint32_t> reader_sleeps;  // 1: wake the reader when there is something to read
  alignas(64) std::atomic<uint32_t> writer_waits;   // 1: wake the writer when there is room
};
static_assert(sizeof(RingWords) == 256);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// Not thread-safe: one thread at a time.
class RingWriter {
 public:
  // `bytes`, a power of two, lie at `data`. Both must outlive the writer.
  RingWriter(RingWords& words, char* data, uint64_t bytes) : words_(&words), data_(data), bytes_(bytes) {}

  // Copies as many of the `size` bytes as there is room for, and returns how many. The reader does not see
  // them before Publish.
  size_t Put(const char* from, size_t size);
  // Shows the reader what was put. True: the reader sleeps, and the caller has to wake it.
  bool Publish();
  // For a writer that found no room. True: there still is none, and the reader will wake the writer.
  bool AwaitRoom();
  // The writer looks by itself again; the reader need not wake it.
  void Rise();
  // True: there is room for one byte or more.
  bool HasRoom();
  bool damaged() const { return damaged_; }

 private:
  uint64_t Room();

  RingWords* words_;
  char* data_;
  uint64_t bytes_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;  // as it was seen last
  bool damaged_ = false;
};

// Not thread-safe: one thread at a time.
class RingReader {
 public:
  RingReader(RingWords& words, const char* data, uint64_t bytes)
      : words_(&words), data_(data), bytes_(bytes) {}

  // Copies up to `size` bytes that were published, and returns how many. Their room is not free before
  // Release.
  size_t Take(char* to, size_t size);
  // Gives the room back. True: the writer waits for room, and the caller has to wake it.
  bool Release();
  // True: there is something to read.
  bool HasBytes();
  // True: there is nothing to read, and the writer will wake the reader. False: there is something.
  bool Sleep();
  // The reader is awake; the writer need not wake it.
  void Rise();
  // From now on only what is published by now can be read.
  void Freeze();
  bool damaged() const { return damaged_; }

 private:
  uint64_t Filled();

  RingWords* words_;
  const char* data_;
  uint64_t bytes_;
  uint64_t tail_ = 0;
  uint64_t head_ = 0;  // as it was seen last
  bool frozen_ = false;
  bool damaged_ = false;
};

}  // namespace paceline::shm
