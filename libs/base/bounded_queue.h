#pragma once

#include <cstddef>
#include <deque>
#include <utility>

namespace paceline {

// A first-in, first-out queue, bounded in items and in bytes. The caller states the weight of each item it
// pushes. Not thread-safe: for one thread, or under the caller's lock. All operations take constant time.
template <class T>
class BoundedQueue {
 public:
  BoundedQueue(size_t items_max, size_t bytes_max) : items_max_(items_max), bytes_max_(bytes_max) {}

  // Moves `item` in. False: there is no room, and `item` is untouched. An item heavier than bytes_max() never
  // finds room, not even in an empty queue: refuse it as an error rather than wait.
  [[nodiscard]] bool TryPush(T&& item, size_t bytes) {
    if (items_.size() >= items_max_ || bytes > bytes_max_ - bytes_) {
      return false;
    }
    items_.emplace_back(std::move(item), bytes);
    bytes_ += bytes;
    return true;
  }

  // Takes the oldest item. REQUIRES: !empty().
  T Pop() {
    T item = std::move(items_.front().first);
    bytes_ -= items_.front().second;
    items_.pop_front();
    return item;
  }

  // The oldest item. REQUIRES: !empty().
  T& front() { return items_.front().first; }
  const T& front() const { return items_.front().first; }

  void Clear() {
    items_.clear();
    bytes_ = 0;
  }

  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  size_t bytes() const { return bytes_; }
  size_t items_max() const { return items_max_; }
  size_t bytes_max() const { return bytes_max_; }

 private:
  size_t items_max_;
  size_t bytes_max_;
  size_t bytes_ = 0;  // never above bytes_max_
  std::deque<std::pair<T, size_t>> items_;
};

}  // namespace paceline
