#include "libs/table/expression/evaluator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "libs/base/wide_vectors.h"

namespace paceline::expression {
namespace {

using Instruction = Program::Instruction;

// Loops go over whole groups, so that none ends with single values.
constexpr size_t kGroup = 16;
constexpr float kNan = std::bit_cast<float>(0x7fc00000u);

size_t Groups(size_t count) {
  return (count + kGroup - 1) / kGroup;
}

template <Operation kOperation>
PACELINE_WIDE_VECTORS void Run(const Instruction& instruction, float* registers, size_t groups) {
  const auto at = [registers](Register r) { return registers + r * Evaluator::kBlock; };
  float* to = at(instruction.to);
  const float* a = at(instruction.of[0]);
  const float* b = at(instruction.of[1]);
  const float* c = at(instruction.of[2]);
  const float* d = at(instruction.of[3]);
  const size_t count = groups * kGroup;
  // `to` is none of the operands, or is one of them whole: either way no element is read after it was
  // written.
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) to[i] = Result<kOperation>(a[i], b[i], c[i], d[i]);
}

PACELINE_WIDE_VECTORS void Store(const float* __restrict from, float* __restrict to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float value = from[i];
    to[i] = value == value ? value : kNan;
  }
}

template <Operation kOperation>
float Once(float a, float b, float c, float d) {
  return Result<kOperation>(a, b, c, d);
}

using RunFn = void (*)(const Instruction&, float*, size_t);
using OnceFn = float (*)(float, float, float, float);

template <size_t... i>
std::array<RunFn, kOperations> AllRuns(std::index_sequence<i...>) {
  return {Run<static_cast<Operation>(i)>...};
}
template <size_t... i>
constexpr std::array<OnceFn, kOperations> AllOnces(std::index_sequence<i...>) {
  return {Once<static_cast<Operation>(i)>...};
}
const std::array<RunFn, kOperations> kRuns = AllRuns(std::make_index_sequence<kOperations>());
constexpr std::array<OnceFn, kOperations> kOnces = AllOnces(std::make_index_sequence<kOperations>());

// The rest of the last group is 0: a number that costs no operation more than others do.
void Load(const void* from, float* to, size_t count, size_t groups) {
  std::memcpy(to, from, count * sizeof(float));
  std::fill(to + count, to + groups * kGroup, 0.0f);
}

}  // namespace

Evaluator::Evaluator(std::shared_ptr<const Program> program, absl::Span<const float> parameters)
    : program_(std::move(program)) {
  std::vector<float> uniforms(parameters.begin(), parameters.end());
  uniforms.insert(uniforms.end(), program_->constants.begin(), program_->constants.end());
  for (const Program::Uniform& uniform : program_->uniforms) {
    const auto& of = uniform.of;
    const OnceFn once = kOnces[static_cast<size_t>(uniform.operation)];
    uniforms.push_back(once(uniforms[of[0]], uniforms[of[1]], uniforms[of[2]], uniforms[of[3]]));
  }
  for (const uint16_t place : program_->loaded) loaded_.push_back(uniforms[place]);
}

void Evaluator::Apply(float* values, size_t slot_stride, const void* gradients, size_t count) const {
  alignas(64) float registers[kRegistersMax * kBlock];  // 32 KiB, of which few are touched
  const std::vector<std::optional<Register>>& stored = program_->stored;
  const size_t first_groups = Groups(std::min(count, kBlock));
  float* const gradient = registers + stored.size() * kBlock;
  for (size_t i = 0; i < loaded_.size(); ++i) {
    std::fill_n(gradient + (i + 1) * kBlock, first_groups * kGroup, loaded_[i]);
  }
  const std::byte* bytes = static_cast<const std::byte*>(gradients);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    const size_t groups = Groups(size);
    for (size_t plane = 0; plane < stored.size(); ++plane) {
      Load(values + plane * slot_stride + begin, registers + plane * kBlock, size, groups);
    }
    Load(bytes + begin * sizeof(float), gradient, size, groups);
    for (const Instruction& instruction : program_->code) {
      kRuns[static_cast<size_t>(instruction.operation)](instruction, registers, groups);
    }
    for (size_t plane = 0; plane < stored.size(); ++plane) {
      if (!stored[plane].has_value()) continue;
      Store(registers + *stored[plane] * kBlock, values + plane * slot_stride + begin, size);
    }
  }
}

}  // namespace paceline::expression
