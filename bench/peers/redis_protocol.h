#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bench/peers/pipeline.h"

namespace paceline::bench::peers {

// How rows are kept in Redis: each a string, under the 8 bytes of its key.
enum class RedisRows {
  kBinary,    // its f32 values; a push sets them (MSET), for Redis has no addition of these
  kDecimals,  // one value as text; a push adds (INCRBYFLOAT)
};

// Requests of one kind as Redis' clients send them, and their replies.
class RedisProtocol final : public Protocol {
 public:
  // `dim` values a row. Pushes push `value`. `work` must outlive this; without keys there is one row, of key
  // 0.
  RedisProtocol(RedisRows rows, Op op, const Work& work, size_t dim, float value);

  absl::string_view Request(uint64_t i) override;
  absl::Span<char> Room() override;
  absl::StatusOr<size_t> Took(size_t bytes) override;

  // Of the last pull that is complete: row after row.
  const std::vector<float>& values() const { return values_; }

 private:
  size_t RowsARequest() const { return work_.keys.empty() ? 1 : work_.batch; }
  // Elements of a reply: of an array, or replies to single commands.
  size_t ElementsARequest() const;
  // Takes one element from what was read. False: it is not whole yet.
  absl::StatusOr<bool> TakeElement();
  absl::Status Store(absl::string_view row);

  const RedisRows rows_;
  const Op op_;
  const Work& work_;
  const size_t dim_;
  const std::string value_;  // a row as it is pushed
  std::string request_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what was read and not taken
  size_t elements_ = 0;         // taken of the present reply
  std::vector<float> values_;
};

}  // namespace paceline::bench::peers
