#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/ids.h"
#include "libs/snapshot/files.h"

// A file with the rows of one job in one segment, as of a cut: docs/formats.md. Pure.
namespace paceline::snapshot {

inline constexpr absl::string_view kMagic = "PLSNAP1\n";
// The most bytes in one block; a reader needs no more memory than that.
inline constexpr uint64_t kBlockBytesMax = uint64_t{1} << 20;

struct FileHead {
  uint64_t cut = 0;
  JobId job;
  SegmentId segment;
  uint32_t ring_bits = 0;
  Epoch epoch;
  Lsn lsn;
  Clock clock = 0;
  friend bool operator==(const FileHead&, const FileHead&) = default;
};

// Rows of one table. The views borrow memory from elsewhere.
struct RowsBlock {
  TableId table;
  uint32_t floats = 0;     // of each key: its values, then its slots
  absl::string_view keys;  // u64 each
  absl::string_view rows;  // f32
};

// Encodes a file, one block at a time; the caller writes the blocks one after the other.
class FileEncoder {
 public:
  std::string Head(const FileHead& head);
  // REQUIRES: `rows` has as many rows as `keys` has keys, and the block is at most kBlockBytesMax.
  std::string Rows(const RowsBlock& rows);
  std::string End();

  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc_; }  // of all bytes so far

 private:
  std::string Count(std::string bytes);
  uint64_t blocks_ = 0;
  uint64_t rows_ = 0;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
};

// Reads a file block by block and checks each before returning it. Errors: DATA_LOSS, naming the file and the
// damage, or an error of the source.
class FileDecoder {
 public:
  // `name` is for messages.
  FileDecoder(std::string name, std::unique_ptr<Source> source)
      : name_(std::move(name)), source_(std::move(source)) {}

  // Call it first.
  absl::StatusOr<FileHead> Head();
  // nullopt: there are no more blocks, and the file is complete. The views are valid until the next call.
  absl::StatusOr<std::optional<RowsBlock>> Next();

  uint64_t bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc_; }  // of all bytes so far

 private:
  struct Block {
    uint32_t kind = 0;
    absl::string_view payload;
  };
  absl::Status Damaged(absl::string_view what) const;
  absl::Status Fill(size_t size);
  absl::StatusOr<Block> NextBlock();

  std::string name_;
  std::unique_ptr<Source> source_;
  std::string buffer_;
  uint64_t blocks_ = 0;
  uint64_t rows_ = 0;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
};

}  // namespace paceline::snapshot
