#pragma once

#include <cstdint>

#include "libs/base/little_endian.h"
#include "sdk/cpp/src/push/batch.h"

namespace paceline::sdk {

inline uint64_t KeyAt(const Batch& batch, uint32_t entry) {
  return LoadU64(batch.keys.get() + entry * batch.EntryBytes());
}
inline uint64_t RowsAt(const Batch& batch, uint32_t entry) {
  return batch.ranges ? LoadU64(batch.keys.get() + entry * batch.EntryBytes() + 8) : 1;
}

// Calls visit(key, row of the piece) for each of its rows.
template <class Visit>
void ForEachKey(const Batch& batch, const Batch::Piece& piece, Visit visit) {
  uint32_t at = 0;
  for (uint32_t entry = piece.first_entry; entry < piece.first_entry + piece.entries; ++entry) {
    const uint64_t first = KeyAt(batch, entry);
    const uint64_t rows = RowsAt(batch, entry);
    for (uint64_t i = 0; i < rows; ++i) visit(first + i, at++);
  }
}

}  // namespace paceline::sdk
