#include "libs/table/rule.h"

#include <variant>

#include "libs/base/wide_vectors.h"
#include "libs/table/about.h"

namespace paceline::table {
namespace {

// Each kernel is one loop over independent values which the compiler turns into vector instructions; those
// of +, -, *, / and square root round exactly as their scalar forms do.
template <class T>
PACELINE_WIDE_VECTORS void ApplyTo(const Rule& rule, float* __restrict w, size_t slot_stride,
                                   const void* __restrict gradients, size_t count) {
  const T parameters = *std::get_if<T>(&rule);
  const ValueView g(gradients, count);
  constexpr size_t kSlots = About<T>::kSlots;
  [[maybe_unused]] float* __restrict n = kSlots > 0 ? w + slot_stride : nullptr;
  [[maybe_unused]] float* __restrict z = kSlots > 1 ? w + 2 * slot_stride : nullptr;
  for (size_t i = 0; i < count; ++i) {
    if constexpr (kSlots == 0) About<T>::Step(parameters, g[i], w[i]);
    if constexpr (kSlots == 1) About<T>::Step(parameters, g[i], w[i], n[i]);
    if constexpr (kSlots == 2) About<T>::Step(parameters, g[i], w[i], n[i], z[i]);
  }
}

}  // namespace

RuleKernel::RuleKernel(const Rule& rule) : rule_(rule) {
  std::visit(
      [this]<class T>(const T& chosen) {
        apply_ = ApplyTo<T>;
        slots_per_value_ = About<T>::kSlots;
        initial_slot_ = About<T>::InitialSlot(chosen);
        last_wins_ = About<T>::kLastWins;
      },
      rule);
}

void RuleKernel::InitSlots(float* values, size_t slot_stride, size_t count) const {
  for (uint32_t slot = 1; slot <= slots_per_value_; ++slot) {
    float* slots = values + slot * slot_stride;
    for (size_t i = 0; i < count; ++i) slots[i] = initial_slot_;
  }
}

}  // namespace paceline::table
