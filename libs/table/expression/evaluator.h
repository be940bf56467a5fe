#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "libs/table/expression/program.h"

namespace paceline::expression {

// Updates values by a program with known parameters. Immutable; safe to share between threads.
//
// Many values are updated at a time: each operation goes over a block of them before the next one begins. No
// value affects another, so the result is that of one value at a time, bit for bit. A NaN that is stored is
// always the same one, 0x7fc00000: which of two NaNs an operation passes on depends on the machine's
// instructions, and nothing else that is stored depends on that.
class Evaluator {
 public:
  // Values in a block. To update fewer costs nearly as much.
  static constexpr size_t kBlock = 128;

  // REQUIRES: parameters.size() == program->parameters.
  Evaluator(std::shared_ptr<const Program> program, absl::Span<const float> parameters);

  // The same program with other parameters.
  Evaluator With(absl::Span<const float> parameters) const { return Evaluator(program_, parameters); }

  // Applies element i of `gradients`, which may be at any address, to values[i] and its slots: slot k of it
  // is at values[i + (k + 1) * slot_stride]. Allocates nothing.
  void Apply(float* values, size_t slot_stride, const void* gradients, size_t count) const;

 private:
  std::shared_ptr<const Program> program_;
  std::vector<float> loaded_;  // of the registers after g
};

}  // namespace paceline::expression
