#pragma once

#include <cstddef>
#include <cstdint>

#include "libs/table/page.h"

namespace paceline::table {

// One block of a ranged table: consecutive keys, all born together. All values come first, then all slots,
// then all second slots, so that a range of keys is contiguous in each.
class RangedPage : public Page {
 public:
  // Holds keys first .. first + rows - 1, with values and slots uninitialised.
  RangedPage(RowShape shape, uint64_t first, size_t rows);

  // The bytes such a page holds beside its own object.
  static size_t BufferBytes(RowShape shape, size_t rows);

  // Replaces all rows by the image's. False if the image is older than the page; an image of the same version
  // may know of updates that the page does not have. REQUIRES: the image is of this block.
  bool Install(const PageView& image);
};

}  // namespace paceline::table
