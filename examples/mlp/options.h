#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "examples/lib/job_options.h"

namespace paceline::examples {

inline const std::string kMlpProgram = "mlp";

// The options of mlp's command line.
struct MlpOptions : JobOptions {
  std::string images;
  std::vector<uint32_t> hidden = {128};
  int epochs = 5;
  uint32_t batch_size = 64;
  float lr = 0.1f;
  bool fifo = false;  // no priorities

  uint32_t PriorityOf(size_t layer) const { return fifo ? 0 : static_cast<uint32_t>(layer); }
};

// The options of a run, or the exit code of a process that has nothing more to do: 0 after --help, 2 after
// complaining about the command line on standard error.
std::variant<MlpOptions, int> ParseMlpOptions(int argc, char** argv);

}  // namespace paceline::examples
