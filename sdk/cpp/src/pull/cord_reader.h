#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace paceline::sdk {

// Copies a Cord from front to back. Borrows it.
class CordReader {
 public:
  explicit CordReader(const absl::Cord& cord) : chunk_(cord.chunk_begin()), end_(cord.chunk_end()) {}

  // Copies the next `bytes`, or as many as are left.
  void Read(char* to, size_t bytes) {
    Take(bytes, [&to](absl::string_view piece) {
      std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    });
  }
  // The next `bytes`, if they lie side by side; otherwise empty, and nothing is taken.
  absl::string_view TakeFlat(size_t bytes) {
    if (rest_.empty() && chunk_ != end_) {
      rest_ = *chunk_;
      ++chunk_;
    }
    if (rest_.size() < bytes) return {};
    const absl::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  void Skip(size_t bytes) {
    Take(bytes, [](absl::string_view) {});
  }

 private:
  template <class Use>
  void Take(size_t bytes, Use use) {
    while (bytes > 0) {
      if (rest_.empty()) {
        if (chunk_ == end_) return;
        rest_ = *chunk_;
        ++chunk_;
        continue;
      }
      const size_t n = std::min(bytes, rest_.size());
      use(rest_.substr(0, n));
      rest_.remove_prefix(n);
      bytes -= n;
    }
  }

  absl::Cord::ChunkIterator chunk_;
  absl::Cord::ChunkIterator end_;
  absl::string_view rest_;
};

}  // namespace paceline::sdk
