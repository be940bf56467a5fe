#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "examples/lib/job_options.h"
#include "examples/sparse_lr/filters.h"
#include "examples/sparse_lr/ftrl_reference.h"
#include "examples/sparse_lr/training_set.h"

namespace paceline::examples {

inline const std::string kProgram = "sparse_lr";

// The options of sparse_lr's command line.
struct RunOptions : JobOptions {
  std::string train;
  std::string test;
  std::string rule = "ftrl";  // or "ftrl-expression", "sgd"
  std::optional<float> lr;    // of sgd; not given: by the data, as alpha and beta
  double l1 = 1e-5;           // in the objective: mean log-loss + l1·(sum of |w|)
  double l2 = 0;              // likewise, of half the sum of w²
  std::optional<float> alpha;
  std::optional<float> beta;
  std::string filters;  // as they were given; what they mean:
  Filters filter;
  bool refresh = false;  // ask which cached weights have changed
  bool scale = true;     // divide columns that need it
  int epochs = 5;
  uint32_t batch_size = 16;
  std::string model_out;  // empty: none
  int index = -1;         // >= 0: this process is that worker of a group that somebody else starts
};

// The options of a run, or the exit code of a process that has nothing more to do: 0 after --help, 2 after
// complaining about the command line on standard error.
std::variant<RunOptions, int> ParseCommandLine(int argc, char** argv);

// Completes the options for a training set. Steps that are not given follow from the length of its rows:
// FTRL's defaults suit rows of length 1, and are scaled so that a set of a thousand times larger values
// trains alike.
FtrlOptions FtrlOf(const RunOptions& options, const Shape& shape);
// The gradients of a clock of all workers together move the model by no more than their mean's safe step.
float SgdStepOf(const RunOptions& options, const Shape& shape);

// The same training in one process. Under bsp the batches of all workers make one update: one batch of that
// many examples.
ReferenceOptions ReferenceOf(const RunOptions& options, const Shape& shape);

}  // namespace paceline::examples
