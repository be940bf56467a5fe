#include "libs/table/rule.h"

#include <cmath>
#include <variant>

#include "libs/base/wide_vectors.h"

namespace paceline::table {
namespace {

using Parameters = std::array<float, 4>;

// Each kernel is one loop over independent values which the compiler turns into vector instructions; those
// of +, -, *, / and square root round exactly as their scalar forms do.

void ApplyAssign(const Parameters&, float* __restrict w, size_t, const void* __restrict gradients,
                 size_t count) {
  if (count != 0) std::memcpy(w, gradients, count * sizeof(float));
}

PACELINE_WIDE_VECTORS void ApplyAdd(const Parameters&, float* __restrict w, size_t,
                                    const void* __restrict gradients, size_t count) {
  const ValueView g(gradients, count);
  for (size_t i = 0; i < count; ++i) w[i] = w[i] + g[i];
}

PACELINE_WIDE_VECTORS void ApplySgd(const Parameters& p, float* __restrict w, size_t,
                                    const void* __restrict gradients, size_t count) {
  const ValueView g(gradients, count);
  const float lr = p[0];
  for (size_t i = 0; i < count; ++i) w[i] = w[i] - lr * g[i];
}

PACELINE_WIDE_VECTORS void ApplyAdagrad(const Parameters& p, float* __restrict w, size_t slot_stride,
                                        const void* __restrict gradients, size_t count) {
  const ValueView g(gradients, count);
  float* __restrict n = w + slot_stride;
  const float lr = p[0];
  const float epsilon = p[1];
  for (size_t i = 0; i < count; ++i) {
    const float gi = g[i];
    n[i] = n[i] + gi * gi;
    w[i] = w[i] - (lr * gi) / (std::sqrt(n[i]) + epsilon);
  }
}

PACELINE_WIDE_VECTORS void ApplyFtrl(const Parameters& p, float* __restrict w, size_t slot_stride,
                                     const void* __restrict gradients, size_t count) {
  const ValueView g(gradients, count);
  float* __restrict n = w + slot_stride;
  float* __restrict z = w + 2 * slot_stride;
  const float alpha = p[0];
  const float beta = p[1];
  const float l1 = p[2];
  const float l2 = p[3];
  for (size_t i = 0; i < count; ++i) {
    const float gi = g[i];
    const float m = n[i] + gi * gi;
    const float root = std::sqrt(m);
    const float sigma = (root - std::sqrt(n[i])) / alpha;
    const float zi = (z[i] + gi) - sigma * w[i];
    z[i] = zi;
    n[i] = m;
    const float dense = -(zi - std::copysign(l1, zi)) / ((beta + root) / alpha + l2);
    w[i] = std::abs(zi) <= l1 ? 0.0f : dense;
  }
}

}  // namespace

RuleKernel::RuleKernel(const Rule& rule)
    : slots_per_value_(SlotsPerValue(rule)), last_wins_(std::holds_alternative<Assign>(rule)) {
  struct Resolve {
    RuleKernel& kernel;
    void operator()(const Assign&) { kernel.apply_ = ApplyAssign; }
    void operator()(const Add&) { kernel.apply_ = ApplyAdd; }
    void operator()(const Sgd& r) {
      kernel.apply_ = ApplySgd;
      kernel.parameters_ = {r.lr};
    }
    void operator()(const Adagrad& r) {
      kernel.apply_ = ApplyAdagrad;
      kernel.parameters_ = {r.lr, r.epsilon};
      kernel.initial_slot_ = r.initial_accumulator;
    }
    void operator()(const FtrlProximal& r) {
      kernel.apply_ = ApplyFtrl;
      kernel.parameters_ = {r.alpha, r.beta, r.l1, r.l2};
    }
  };
  std::visit(Resolve{*this}, rule);
}

void RuleKernel::InitSlots(float* values, size_t slot_stride, size_t count) const {
  for (uint32_t slot = 1; slot <= slots_per_value_; ++slot) {
    float* slots = values + slot * slot_stride;
    for (size_t i = 0; i < count; ++i) slots[i] = initial_slot_;
  }
}

}  // namespace paceline::table
