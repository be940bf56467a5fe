#pragma once

#include <cstddef>

#include "libs/table/schema.h"
#include "libs/table/views.h"

// Applies update rules to rows. The formulas are those of about.h. Rules are stateless, allocate nothing and
// are deterministic.
namespace paceline::table {

// A rule ready to run: the kind of rule is dispatched once, not per row. Small, free to copy, safe to share
// between threads.
//
// The values of a row, or of neighbouring rows, are contiguous; so are their first slots, at a distance of
// `slot_stride` floats, and their second slots at twice that. In a sparse page that distance is dim, as a row
// is [w …][n …][z …]; in a block of a ranged table it is all of the block's values.
class RuleKernel {
 public:
  explicit RuleKernel(const Rule& rule);

  // Applies one update to `count` values: element i of `gradients` to values[i]. The gradients may be
  // unaligned but must not overlap the values or slots.
  void Apply(float* values, size_t slot_stride, const void* gradients, size_t count) const {
    apply_(rule_, values, slot_stride, gradients, count);
  }

  // Sets the slots of the `count` values at `values` to their state before the first update.
  void InitSlots(float* values, size_t slot_stride, size_t count) const;

  // A value and its slots.
  uint32_t floats_per_value() const { return 1 + slots_per_value_; }

  // True if two updates of one key have the effect of the later one (Assign) instead of that of their sum.
  bool last_wins() const { return last_wins_; }

 private:
  using ApplyFn = void (*)(const Rule&, float*, size_t, const void*, size_t);

  Rule rule_;
  ApplyFn apply_;
  uint32_t slots_per_value_;
  float initial_slot_;
  bool last_wins_;
};

}  // namespace paceline::table
