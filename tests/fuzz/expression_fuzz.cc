// Expressions: any text is refused with words, or makes a program within its bounds that treats many values
// as it treats one.
#include <bit>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/table/expression/evaluator.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

using expression::Evaluator;
using expression::Program;

constexpr size_t kValues = 150;  // more than a block

void CheckProgram(const Program& program, bool counts_steps) {
  FUZZ_CHECK(program.registers <= expression::kRegistersMax, "registers are bounded");
  FUZZ_CHECK(program.code.size() + program.uniforms.size() <= expression::kOperationsMax,
             "operations are bounded");
  FUZZ_CHECK(program.stored.size() == (counts_steps ? 4u : 3u), "the slots are those that it names");
  const std::vector<float> rates = {0.5f, 3};
  const Evaluator evaluator(std::make_shared<const Program>(program), rates);
  const size_t planes = program.stored.size();
  std::vector<float> together(planes * kValues);
  std::vector<float> gradients(kValues);
  for (size_t i = 0; i < together.size(); ++i) together[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < kValues; ++i) gradients[i] = static_cast<float>(i % 5) - 2;
  std::vector<float> apart = together;
  evaluator.Apply(together.data(), kValues, gradients.data(), kValues);
  for (size_t i = 0; i < kValues; ++i) evaluator.Apply(apart.data() + i, kValues, gradients.data() + i, 1);
  for (size_t i = 0; i < together.size(); ++i) {
    FUZZ_CHECK(std::bit_cast<uint32_t>(together[i]) == std::bit_cast<uint32_t>(apart[i]),
               "values do not affect each other");
  }
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  return {{"adagrad", "n = n + g*g; w = w - lr*g / (sqrt(n) + 1e-8)"},
          {"ftrl",
           "m = n + g*g;\nsigma = (sqrt(m) - sqrt(n)) / lr; z = (z + g) - sigma*w; n = m;\n"
           "w = select(abs(z) <= beta, 0, -(z - select(z < 0, -beta, beta)) / ((1 + sqrt(n)) / lr + .5));"},
          {"all",
           "a = min(w, max(g, 2)); b = select(a == n, 1, 2) + select(a != z, 3, 4) + select(a > 0, 5, 6);"
           "w = a*b - --n / step + select(a >= b, w, g); n = z; z = 3e38"}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const absl::string_view code(reinterpret_cast<const char*>(data), size);
  const std::vector<absl::string_view> slots = {"n", "z"};
  const std::vector<absl::string_view> parameters = {"lr", "beta"};
  const auto program = expression::Compile({.code = code, .slots = slots, .parameters = parameters});
  if (program.ok()) {
    CheckProgram(*program, expression::CountsSteps(code));
    return 0;
  }
  FUZZ_CHECK(absl::IsInvalidArgument(program.status()), "refusals are INVALID_ARGUMENT");
  FUZZ_CHECK(absl::StrContains(program.status().message(), "; expected "), "refusals say what was expected");
  FUZZ_CHECK(program.status().message().size() < 1000, "refusals are short");
  return 0;
}
