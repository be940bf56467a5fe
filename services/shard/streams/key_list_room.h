#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace paceline::shard {

// Bounds the memory of the lists of keys that streams keep (libs/filter/key_lists.h). A stream is promised
// its bound when it begins: half of what is left at most, so that there is something for those that come
// later. Thread-safe.
class KeyListRoom : public std::enable_shared_from_this<KeyListRoom> {
 public:
  explicit KeyListRoom(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // So many bytes, until it is destroyed.
  class Share {
   public:
    Share(std::shared_ptr<KeyListRoom> room, uint64_t bytes) : room_(std::move(room)), bytes_(bytes) {}
    ~Share() { room_->promised_ -= bytes_; }
    Share(const Share&) = delete;
    uint64_t bytes() const { return bytes_; }

   private:
    const std::shared_ptr<KeyListRoom> room_;
    const uint64_t bytes_;
  };

  // `most`, or less; nullptr: less than is of use.
  std::unique_ptr<const Share> Take(uint64_t most) {
    uint64_t promised = promised_;
    uint64_t bytes = 0;
    do {
      bytes = std::min(most, (bytes_max_ - std::min(bytes_max_, promised)) / 2);
      if (bytes < kOfUse) return nullptr;
    } while (!promised_.compare_exchange_weak(promised, promised + bytes));
    return std::make_unique<const Share>(shared_from_this(), bytes);
  }

  uint64_t promised() const { return promised_; }

 private:
  static constexpr uint64_t kOfUse = uint64_t{64} << 10;

  const uint64_t bytes_max_;
  std::atomic<uint64_t> promised_ = 0;
};

}  // namespace paceline::shard
