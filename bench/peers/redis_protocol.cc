#include "bench/peers/redis_protocol.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::bench::peers {
namespace {

constexpr size_t kRoom = size_t{64} << 10;

std::string RowOf(RedisRows rows, size_t dim, float value) {
  if (rows == RedisRows::kDecimals) return absl::StrCat(value);
  const std::vector<float> values(dim, value);
  return std::string(reinterpret_cast<const char*>(values.data()), dim * sizeof(float));
}

void AppendBulk(std::string& out, absl::string_view bytes) {
  absl::StrAppend(&out, "$", bytes.size(), "\r\n", bytes, "\r\n");
}

}  // namespace

RedisProtocol::RedisProtocol(RedisRows rows, Op op, const Work& work, size_t dim, float value)
    : rows_(rows),
      op_(op),
      work_(work),
      dim_(dim),
      value_(RowOf(rows, dim, value)),
      buffer_(2 * kRoom),
      values_(RowsARequest() * dim) {}

size_t RedisProtocol::ElementsARequest() const {
  if (op_ == Op::kPush && rows_ == RedisRows::kBinary) return 1;
  return RowsARequest();
}

absl::string_view RedisProtocol::Request(uint64_t i) {
  static constexpr uint64_t kOnlyKey = 0;
  const uint64_t* keys = work_.keys.empty() ? &kOnlyKey : work_.keys_of(i);
  const size_t rows = RowsARequest();
  const auto key = [&](size_t at) {
    return absl::string_view(reinterpret_cast<const char*>(keys + at), sizeof(*keys));
  };
  request_.clear();
  if (op_ == Op::kPush && rows_ == RedisRows::kDecimals) {
    for (size_t r = 0; r < rows; ++r) {
      request_.append("*3\r\n$11\r\nINCRBYFLOAT\r\n");
      AppendBulk(request_, key(r));
      AppendBulk(request_, value_);
    }
    return request_;
  }
  if (op_ == Op::kPush) {
    absl::StrAppend(&request_, "*", 1 + 2 * rows, "\r\n");
    AppendBulk(request_, rows == 1 ? "SET" : "MSET");
    for (size_t r = 0; r < rows; ++r) {
      AppendBulk(request_, key(r));
      AppendBulk(request_, value_);
    }
    return request_;
  }
  absl::StrAppend(&request_, "*", 1 + rows, "\r\n");
  AppendBulk(request_, rows == 1 ? "GET" : "MGET");
  for (size_t r = 0; r < rows; ++r) AppendBulk(request_, key(r));
  return request_;
}

absl::Span<char> RedisProtocol::Room() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (buffer_.size() - end_ < kRoom && begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kRoom) buffer_.resize(2 * buffer_.size());
  return absl::MakeSpan(buffer_).subspan(end_);
}

absl::StatusOr<size_t> RedisProtocol::Took(size_t bytes) {
  end_ += bytes;
  size_t replies = 0;
  while (true) {
    ABSL_ASSIGN_OR_RETURN(const bool taken, TakeElement());
    if (!taken) return replies;
    if (elements_ == ElementsARequest()) {
      elements_ = 0;
      ++replies;
    }
  }
}

absl::StatusOr<bool> RedisProtocol::TakeElement() {
  const absl::string_view read(buffer_.data() + begin_, end_ - begin_);
  const size_t line_end = read.substr(0, 4096).find("\r\n");
  if (line_end == absl::string_view::npos) {
    if (read.size() >= 4096) return absl::InternalError("peers: Redis sent a line that does not end");
    return false;
  }
  const absl::string_view line = read.substr(0, line_end);
  size_t size = line_end + 2;
  switch (line.empty() ? '\0' : line[0]) {
    case '*':  // its elements follow, and are counted
      break;
    case '+':
    case ':':
      ++elements_;
      break;
    case '$': {
      int64_t length = 0;
      if (!absl::SimpleAtoi(line.substr(1), &length) || length < 0) {
        return absl::DataLossError("peers: Redis has lost a key");
      }
      const auto bytes = static_cast<size_t>(length);
      if (read.size() < size + bytes + 2) return false;
      if (op_ == Op::kPull) ABSL_RETURN_IF_ERROR(Store(read.substr(size, bytes)));
      ++elements_;
      size += bytes + 2;
      break;
    }
    default:
      return absl::InternalError(absl::StrCat("peers: Redis answers: ", line));
  }
  begin_ += size;
  return true;
}

absl::Status RedisProtocol::Store(absl::string_view row) {
  float* to = values_.data() + elements_ * dim_;
  if (rows_ == RedisRows::kDecimals) {
    const auto parsed = std::from_chars(row.data(), row.data() + row.size(), *to);
    if (parsed.ec == std::errc() && parsed.ptr == row.data() + row.size()) return absl::OkStatus();
  } else if (row.size() == dim_ * sizeof(float)) {
    std::memcpy(to, row.data(), row.size());
    return absl::OkStatus();
  }
  return absl::DataLossError("peers: a row in Redis is not what was put there");
}

}  // namespace paceline::bench::peers
