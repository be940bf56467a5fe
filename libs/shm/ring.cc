#include "libs/shm/ring.h"

#include <algorithm>
#include <cstring>

// Whoever is about to sleep first raises its flag and then looks at the peer's position once more; the peer
// first moves its position and then looks at the flag. Both are sequentially consistent, so at least one of
// the two sees the other: nobody sleeps over something that is there.
namespace paceline::shm {

uint64_t RingWriter::Room() {
  const uint64_t tail = words_->tail.load(std::memory_order_seq_cst);
  // It never goes back.
  if (damaged_ || tail - tail_ > head_ - tail_) {
    damaged_ = true;
    return 0;
  }
  tail_ = tail;
  return bytes_ - (head_ - tail_);
}

bool RingWriter::HasRoom() {
  return Room() > 0;
}

size_t RingWriter::Put(const char* from, size_t size) {
  uint64_t room = bytes_ - (head_ - tail_);
  if (room < size || damaged_) room = Room();
  const size_t put = std::min<uint64_t>(size, room);
  const uint64_t at = head_ & (bytes_ - 1);
  const size_t first = std::min<uint64_t>(put, bytes_ - at);
  std::memcpy(data_ + at, from, first);
  std::memcpy(data_, from + first, put - first);
  head_ += put;
  return put;
}

bool RingWriter::Publish() {
  words_->head.store(head_, std::memory_order_seq_cst);
  return words_->reader_sleeps.load(std::memory_order_seq_cst) != 0 &&
         words_->reader_sleeps.exchange(0, std::memory_order_seq_cst) != 0;
}

bool RingWriter::AwaitRoom() {
  words_->writer_waits.store(1, std::memory_order_seq_cst);
  if (Room() == 0 && !damaged_) return true;
  words_->writer_waits.store(0, std::memory_order_seq_cst);
  return false;
}

void RingWriter::Rise() {
  if (words_->writer_waits.load(std::memory_order_relaxed) != 0) {
    words_->writer_waits.store(0, std::memory_order_seq_cst);
  }
}

uint64_t RingReader::Filled() {
  if (!frozen_) head_ = words_->head.load(std::memory_order_seq_cst);
  if (damaged_ || head_ - tail_ > bytes_) {
    damaged_ = true;
    return 0;
  }
  return head_ - tail_;
}

bool RingReader::HasBytes() {
  return Filled() > 0;
}

size_t RingReader::Take(char* to, size_t size) {
  const size_t taken = std::min<uint64_t>(size, Filled());
  const uint64_t at = tail_ & (bytes_ - 1);
  const size_t first = std::min<uint64_t>(taken, bytes_ - at);
  std::memcpy(to, data_ + at, first);
  std::memcpy(to + first, data_, taken - first);
  tail_ += taken;
  return taken;
}

// A writer that waits is woken when half of the ring is free: to be woken for each piece would cost it more
// than to copy it. It waits only at a full ring, so that moment is still to come.
bool RingReader::Release() {
  words_->tail.store(tail_, std::memory_order_seq_cst);
  if (words_->writer_waits.load(std::memory_order_seq_cst) == 0) return false;
  return Filled() <= bytes_ / 2 && words_->writer_waits.exchange(0, std::memory_order_seq_cst) != 0;
}

bool RingReader::Sleep() {
  words_->reader_sleeps.store(1, std::memory_order_seq_cst);
  if (Filled() == 0 && !damaged_) return true;
  Rise();
  return false;
}

void RingReader::Rise() {
  if (words_->reader_sleeps.load(std::memory_order_relaxed) != 0) {
    words_->reader_sleeps.store(0, std::memory_order_seq_cst);
  }
}

void RingReader::Freeze() {
  Filled();
  frozen_ = true;
}

}  // namespace paceline::shm
