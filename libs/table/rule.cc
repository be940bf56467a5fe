#include "libs/table/rule.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/wide_vectors.h"
#include "libs/table/about.h"
#include "libs/table/expressions.h"
#include "libs/table/invariant.h"

namespace paceline::table {
namespace {

// Each kernel is one loop over independent values which the compiler turns into vector instructions; those
// of +, -, *, / and square root round exactly as their scalar forms do.
template <class T>
PACELINE_WIDE_VECTORS void Loop(const T& rule, float* __restrict w, size_t slot_stride,
                                const void* __restrict gradients, size_t count) {
  const T parameters = rule;
  const ValueView g(gradients, count);
  constexpr size_t kSlots = About<T>::kSlots.size();
  static_assert(kSlots <= 4);
  [[maybe_unused]] float* __restrict a = kSlots > 0 ? w + slot_stride : nullptr;
  [[maybe_unused]] float* __restrict b = kSlots > 1 ? w + 2 * slot_stride : nullptr;
  [[maybe_unused]] float* __restrict c = kSlots > 2 ? w + 3 * slot_stride : nullptr;
  [[maybe_unused]] float* __restrict d = kSlots > 3 ? w + 4 * slot_stride : nullptr;
  for (size_t i = 0; i < count; ++i) {
    if constexpr (kSlots == 0) About<T>::Step(parameters, g[i], w[i]);
    if constexpr (kSlots == 1) About<T>::Step(parameters, g[i], w[i], a[i]);
    if constexpr (kSlots == 2) About<T>::Step(parameters, g[i], w[i], a[i], b[i]);
    if constexpr (kSlots == 3) About<T>::Step(parameters, g[i], w[i], a[i], b[i], c[i]);
    if constexpr (kSlots == 4) About<T>::Step(parameters, g[i], w[i], a[i], b[i], c[i], d[i]);
  }
}

template <class T>
float InitialSlot(const T& rule, size_t) {
  return About<T>::InitialSlot(rule);
}
float InitialSlot(const Expression& rule, size_t slot) {
  return slot < rule.slots.size() ? rule.slots[slot].value : 0;  // none has been counted
}

// Copies rows side by side, a plane for the values and one for each slot, and back.
template <size_t kPlanes, size_t kStride>
void Gather(absl::Span<float* const> rows, float* lanes) {
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t plane = 0; plane < kPlanes; ++plane) lanes[plane * kStride + i] = rows[i][plane];
  }
}
template <size_t kPlanes, size_t kStride>
void Scatter(const float* lanes, absl::Span<float* const> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t plane = 0; plane < kPlanes; ++plane) rows[i][plane] = lanes[plane * kStride + i];
  }
}

}  // namespace

template <class T>
void RuleKernel::ApplyTo(const RuleKernel& kernel, float* w, size_t slot_stride, const void* gradients,
                         size_t count) {
  if constexpr (std::is_same_v<T, Expression>) {
    kernel.evaluator_->Apply(w, slot_stride, gradients, count);
  } else {
    Loop(*std::get_if<T>(&kernel.rule_), w, slot_stride, gradients, count);
  }
}

RuleKernel::RuleKernel(const Rule& rule) : rule_(rule), initial_slots_(SlotsPerValue(rule)) {
  std::visit(
      [this]<class T>(const T& chosen) {
        apply_ = ApplyTo<T>;
        last_wins_ = About<T>::kLastWins;
        for (size_t i = 0; i < initial_slots_.size(); ++i) initial_slots_[i] = InitialSlot(chosen, i);
      },
      rule);
  const Expression* written = std::get_if<Expression>(&rule);
  if (written == nullptr) return;
  absl::StatusOr<expression::Program> program = Compile(*written);
  if (!program.ok()) Broken(program.status().ToString());
  evaluator_ = std::make_shared<const expression::Evaluator>(
      std::make_shared<const expression::Program>(*std::move(program)), ParametersOf(rule));
}

RuleKernel RuleKernel::WithRates(const Rule& rule) const {
  RuleKernel changed = *this;
  changed.rule_ = rule;
  if (evaluator_ != nullptr) {  // whose text is read once
    changed.evaluator_ = std::make_shared<const expression::Evaluator>(evaluator_->With(ParametersOf(rule)));
  }
  return changed;
}

void RuleKernel::ApplyToRows(absl::Span<float* const> rows, const void* gradients) const {
  float lanes[(1 + kSlotsOfRow) * kRowsAtOnce];
  const auto through_lanes = [&](auto gather, auto scatter) {
    gather(rows, lanes);
    Apply(lanes, kRowsAtOnce, gradients, rows.size());
    scatter(lanes, rows);
  };
  switch (floats_per_value()) {
    case 1:
      return through_lanes(Gather<1, kRowsAtOnce>, Scatter<1, kRowsAtOnce>);
    case 2:
      return through_lanes(Gather<2, kRowsAtOnce>, Scatter<2, kRowsAtOnce>);
    case 3:
      return through_lanes(Gather<3, kRowsAtOnce>, Scatter<3, kRowsAtOnce>);
    default:
      Broken(absl::StrCat("rows of a value and ", floats_per_value() - 1, " slots side by side"));
  }
}

void RuleKernel::InitSlots(float* values, size_t slot_stride, size_t count) const {
  for (size_t slot = 0; slot < initial_slots_.size(); ++slot) {
    std::fill_n(values + (slot + 1) * slot_stride, count, initial_slots_[slot]);
  }
}

}  // namespace paceline::table
