#include "libs/snapshot/segment_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/crc32c.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"

namespace paceline::snapshot {
namespace {

enum Kind : uint32_t { kHead = 1, kRows = 2, kEnd = 3 };
constexpr size_t kBlockHead = 16;  // checksum, kind, length
constexpr size_t kHeadBytes = 48;
constexpr size_t kRowsHead = 16;
constexpr size_t kEndBytes = 16;

void AddU32(uint32_t value, std::string* to) {
  char bytes[sizeof(value)];
  StoreU32(value, bytes);
  to->append(bytes, sizeof(bytes));
}

void AddU64(uint64_t value, std::string* to) {
  char bytes[sizeof(value)];
  StoreU64(value, bytes);
  to->append(bytes, sizeof(bytes));
}

// The checksum covers all that follows it.
std::string Block(Kind kind, absl::string_view head, absl::string_view keys = {},
                  absl::string_view rows = {}) {
  std::string block(sizeof(uint32_t), '\0');
  block.reserve(kBlockHead + head.size() + keys.size() + rows.size());
  AddU32(kind, &block);
  AddU64(head.size() + keys.size() + rows.size(), &block);
  absl::StrAppend(&block, head, keys, rows);
  StoreU32(Crc32c(std::string_view(block).substr(sizeof(uint32_t))), block.data());
  return block;
}

}  // namespace

std::string FileEncoder::Count(std::string bytes) {
  bytes_ += bytes.size();
  crc_ = ExtendCrc32c(crc_, bytes);
  return bytes;
}

std::string FileEncoder::Head(const FileHead& head) {
  std::string payload;
  AddU64(head.cut, &payload);
  AddU32(head.job.v, &payload);
  AddU32(head.segment.v, &payload);
  AddU32(head.ring_bits, &payload);
  AddU32(0, &payload);
  AddU64(head.epoch.v, &payload);
  AddU64(head.lsn.v, &payload);
  AddU64(head.clock, &payload);
  return Count(absl::StrCat(kMagic, Block(kHead, payload)));
}

std::string FileEncoder::Rows(const RowsBlock& rows) {
  const uint64_t count = rows.keys.size() / sizeof(uint64_t);
  std::string head;
  AddU32(rows.table.v, &head);
  AddU32(rows.floats, &head);
  AddU64(count, &head);
  ++blocks_;
  rows_ += count;
  return Count(Block(kRows, head, rows.keys, rows.rows));
}

std::string FileEncoder::End() {
  std::string payload;
  AddU64(blocks_, &payload);
  AddU64(rows_, &payload);
  return Count(Block(kEnd, payload));
}

absl::Status FileDecoder::Damaged(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(name_, ": ", what, " at byte ", bytes_,
                   "; the file is damaged: take another copy of it, or another snapshot"));
}

absl::Status FileDecoder::Fill(size_t size) {
  const size_t had = buffer_.size();
  buffer_.resize(had + size);
  ABSL_ASSIGN_OR_RETURN(const size_t read, source_->Read(buffer_.data() + had, size));
  if (read == size) return absl::OkStatus();
  return Damaged("it ends too early");
}

absl::StatusOr<FileDecoder::Block> FileDecoder::NextBlock() {
  buffer_.clear();
  ABSL_RETURN_IF_ERROR(Fill(kBlockHead));
  const uint64_t length = LoadU64(buffer_.data() + 8);
  if (length > kBlockBytesMax) return Damaged("a block of impossible length");
  ABSL_RETURN_IF_ERROR(Fill(length));
  const std::string_view block = buffer_;
  if (Crc32c(block.substr(sizeof(uint32_t))) != LoadU32(buffer_.data())) return Damaged("a wrong checksum");
  crc_ = ExtendCrc32c(crc_, block);
  bytes_ += block.size();
  return Block{.kind = LoadU32(buffer_.data() + 4), .payload = absl::string_view(buffer_).substr(kBlockHead)};
}

absl::StatusOr<FileHead> FileDecoder::Head() {
  ABSL_RETURN_IF_ERROR(Fill(kMagic.size()));
  if (buffer_ != kMagic) return Damaged("not the beginning of a snapshot's file");
  crc_ = Crc32c(buffer_);
  bytes_ = buffer_.size();
  ABSL_ASSIGN_OR_RETURN(const Block block, NextBlock());
  if (block.kind != kHead || block.payload.size() != kHeadBytes) return Damaged("a wrong head");
  const char* at = block.payload.data();
  return FileHead{.cut = LoadU64(at),
                  .job = JobId(LoadU32(at + 8)),
                  .segment = SegmentId(LoadU32(at + 12)),
                  .ring_bits = LoadU32(at + 16),
                  .epoch = Epoch(LoadU64(at + 24)),
                  .lsn = Lsn(LoadU64(at + 32)),
                  .clock = LoadU64(at + 40)};
}

absl::StatusOr<std::optional<RowsBlock>> FileDecoder::Next() {
  ABSL_ASSIGN_OR_RETURN(const Block block, NextBlock());
  const char* at = block.payload.data();
  if (block.kind == kEnd && block.payload.size() == kEndBytes) {
    if (LoadU64(at) != blocks_ || LoadU64(at + 8) != rows_) return Damaged("blocks are missing");
    char more = 0;
    ABSL_ASSIGN_OR_RETURN(const size_t read, source_->Read(&more, 1));
    if (read != 0) return Damaged("something after its end");
    return std::optional<RowsBlock>();
  }
  if (block.kind != kRows || block.payload.size() < kRowsHead) return Damaged("a block of unknown kind");
  const uint64_t floats = LoadU32(at + 4);
  const uint64_t count = LoadU64(at + 8);
  if (count > kBlockBytesMax ||
      block.payload.size() != kRowsHead + count * (sizeof(uint64_t) + floats * sizeof(float))) {
    return Damaged("rows that do not fit their number");
  }
  ++blocks_;
  rows_ += count;
  return RowsBlock{.table = TableId(LoadU32(at)),
                   .floats = static_cast<uint32_t>(floats),
                   .keys = block.payload.substr(kRowsHead, count * sizeof(uint64_t)),
                   .rows = block.payload.substr(kRowsHead + count * sizeof(uint64_t))};
}

}  // namespace paceline::snapshot
