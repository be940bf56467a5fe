#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace paceline::shard {

// Bounds the memory of replies' values, of all streams together, until the carrier has sent them.
// Thread-safe.
class ReplyBudget : public std::enable_shared_from_this<ReplyBudget> {
 public:
  explicit ReplyBudget(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // So many bytes, until it is destroyed.
  class Share {
   public:
    Share(std::shared_ptr<ReplyBudget> budget, uint64_t bytes) : budget_(std::move(budget)), bytes_(bytes) {}
    ~Share() { budget_->taken_ -= bytes_; }
    Share(const Share&) = delete;

   private:
    const std::shared_ptr<ReplyBudget> budget_;
    const uint64_t bytes_;
  };

  // nullptr: there is no room. The first one always fits, however large.
  std::shared_ptr<const Share> Take(uint64_t bytes) {
    uint64_t taken = taken_;
    do {
      if (taken != 0 && taken + bytes > bytes_max_) return nullptr;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes));
    return std::make_shared<const Share>(shared_from_this(), bytes);
  }

  // More than half of it is taken: streams whose clients do not read are closed.
  bool crowded() const { return taken_ > bytes_max_ / 2; }
  uint64_t taken() const { return taken_; }
  uint64_t bytes_max() const { return bytes_max_; }

 private:
  const uint64_t bytes_max_;
  std::atomic<uint64_t> taken_ = 0;
};

}  // namespace paceline::shard
