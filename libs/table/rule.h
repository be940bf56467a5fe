#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "libs/table/expression/evaluator.h"
#include "libs/table/schema.h"
#include "libs/table/views.h"

// Applies update rules to rows. The formulas are those of about.h. Rules are stateless, allocate nothing and
// are deterministic.
namespace paceline::table {

// A rule ready to run: the kind of rule is dispatched once, not per row. Free to copy, safe to share between
// threads.
//
// The values of a row, or of neighbouring rows, are contiguous; so are their first slots, at a distance of
// `slot_stride` floats, their second slots at twice that, and so on. In a sparse page that distance is dim,
// as a row is [w …][n …][z …]; in a block of a ranged table it is all of the block's values.
class RuleKernel {
 public:
  // REQUIRES: a valid schema may have the rule.
  explicit RuleKernel(const Rule& rule);

  // The same rule with other rates. REQUIRES: CheckRuleChange of this rule to `rule` is OK.
  RuleKernel WithRates(const Rule& rule) const;

  // Applies one update to `count` values: element i of `gradients` to values[i]. The gradients may be
  // unaligned but must not overlap the values or slots.
  void Apply(float* values, size_t slot_stride, const void* gradients, size_t count) const {
    apply_(*this, values, slot_stride, gradients, count);
  }

  // The same to rows of one value, of which none occurs twice: element i of `gradients` to *rows[i], behind
  // which its slots lie. REQUIRES: at most kRowsAtOnce rows, and kSlotsOfRow slots.
  void ApplyToRows(absl::Span<float* const> rows, const void* gradients) const;
  static constexpr size_t kRowsAtOnce = 64;
  static constexpr uint32_t kSlotsOfRow = 2;

  // Sets the slots of the `count` values at `values` to their state before the first update.
  void InitSlots(float* values, size_t slot_stride, size_t count) const;

  // A value and its slots.
  uint32_t floats_per_value() const { return 1 + static_cast<uint32_t>(initial_slots_.size()); }

  // True if a few values take nearly as long as many: it is worth to copy rows side by side.
  bool prefers_blocks() const { return evaluator_ != nullptr; }

  // True if two updates of one key have the effect of the later one (Assign) instead of that of their sum.
  bool last_wins() const { return last_wins_; }

 private:
  using ApplyFn = void (*)(const RuleKernel&, float*, size_t, const void*, size_t);

  template <class T>
  static void ApplyTo(const RuleKernel& kernel, float* w, size_t slot_stride, const void* gradients,
                      size_t count);

  Rule rule_;
  ApplyFn apply_;
  std::vector<float> initial_slots_;
  bool last_wins_;
  std::shared_ptr<const expression::Evaluator> evaluator_;  // of an Expression; null: of another rule
};

}  // namespace paceline::table
