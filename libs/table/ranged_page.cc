#include "libs/table/ranged_page.h"

#include <cstring>

namespace paceline::table {

// The marks come first: they are whole words, so the floats stay aligned.
size_t RangedPage::BufferBytes(RowShape shape, size_t rows) {
  return (MarkBytes(rows) + kAlignment - 1) / kAlignment * kAlignment + rows * shape.bytes();
}

RangedPage::RangedPage(RowShape shape, uint64_t first, size_t rows) : Page(shape, {.start = first}) {
  rows_ = rows;
  row_stride_ = shape.dim;
  slot_stride_ = static_cast<uint32_t>(rows * shape.dim);
  buffer_bytes_ = BufferBytes(shape, rows);
  buffer_ = AllocatePageBuffer(buffer_bytes_);
  marks_ = reinterpret_cast<uint64_t*>(buffer_.get());
  std::memset(marks_, 0, MarkBytes(rows));
  values_ = reinterpret_cast<float*>(buffer_.get() + buffer_bytes_ - rows * shape.bytes());
}

bool RangedPage::Install(const PageView& image) {
  if (image.version < version_) return false;
  for (size_t row = 0; row < rows_; ++row) {
    SetRow(row, image.rows.subview(row * shape_.floats(), shape_.floats()).data());
  }
  version_ = installed_ = image.version;
  return true;
}

}  // namespace paceline::table
