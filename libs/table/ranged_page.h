#pragma once

#include <cstddef>
#include <cstdint>

#include "libs/table/page.h"

namespace paceline::table {

// One block of a ranged table: consecutive keys, all born at once. All values come first, then all slots,
// then all second slots, so that a range is one contiguous piece of each.
class RangedPage : public Page {
 public:
  // Keys first .. first + rows - 1, their values and slots not initialised yet.
  RangedPage(RowShape shape, uint64_t first, size_t rows);

  // The bytes such a page holds beside its own object.
  static size_t BufferBytes(RowShape shape, size_t rows);

  // Replaces all rows by the image's; false if it is older than the page (one of its age
  // may know of updates that the page does not). REQUIRES: it is one of this block.
  bool Install(const PageImage& image);
};

}  // namespace paceline::table
