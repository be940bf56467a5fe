#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "examples/lib/job_options.h"
#include "examples/matrix_factorization/factors.h"

namespace paceline::examples {

inline const std::string kFactorProgram = "matrix_factorization";

// The options of matrix_factorization's command line.
struct FactorOptions : JobOptions {
  std::string ratings;
  uint32_t rank = 32;
  int epochs = 30;
  uint32_t batch_size = 500;
  float lr = 0.02f;
  float decay = 0.95f;
  float reg = 0.1f;
  double held_out = 0.1;

  size_t dim() const { return rank + 1; }
};

// The options of a run, or the exit code of a process that has nothing more to do: 0 after --help, 2 after
// complaining about the command line on standard error.
std::variant<FactorOptions, int> ParseFactorOptions(int argc, char** argv);

// The steps of an epoch, from 0.
Steps StepsOf(const FactorOptions& options, int epoch);

}  // namespace paceline::examples
