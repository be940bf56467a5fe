#pragma once

#include <array>
#include <cstddef>

#include "libs/table/schema.h"
#include "libs/table/views.h"

// Update rules. w is a value, g the update's gradient for it, n and z are slots, all f32:
//
//   Assign         w = g
//   Add            w = w + g
//   Sgd            w = w - lr * g
//   Adagrad        n = n + g * g
//                  w = w - (lr * g) / (sqrt(n) + epsilon)
//   FtrlProximal   m = n + g * g
//                  sigma = (sqrt(m) - sqrt(n)) / alpha
//                  z = (z + g) - sigma * w
//                  n = m
//                  w = |z| <= l1 ? 0 : -(z - sign(z) * l1) / ((beta + sqrt(n)) / alpha + l2)
//
// Sources: Duchi, Hazan, Singer: "Adaptive subgradient methods", JMLR 12, 2011 (n starts at
// initial_accumulator); McMahan et al.: "Ad click prediction: a view from the trenches", KDD 2013, algorithm
// 1 (n and z start at 0; w is kept up to date instead of being computed when it is read).
//
// Rules are stateless, allocate nothing and are deterministic: the operations are those above in that order,
// each rounded to f32, never fused, so that replicas agree bit for bit. One value never affects another.
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
    apply_(parameters_, values, slot_stride, gradients, count);
  }

  // Sets the slots of the `count` values at `values` to their state before the first update.
  void InitSlots(float* values, size_t slot_stride, size_t count) const;

  // A value and its slots.
  uint32_t floats_per_value() const { return 1 + slots_per_value_; }

  // True if two updates of one key have the effect of the later one (Assign) instead of that of their sum.
  bool last_wins() const { return last_wins_; }

 private:
  using Parameters = std::array<float, 4>;  // of the rule, in the order of its struct
  using ApplyFn = void (*)(const Parameters&, float*, size_t, const void*, size_t);

  ApplyFn apply_;
  Parameters parameters_ = {};
  uint32_t slots_per_value_;
  float initial_slot_ = 0;
  bool last_wins_;
};

}  // namespace paceline::table
