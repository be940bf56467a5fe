#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "examples/lda/topics.h"
#include "examples/lib/job_options.h"
#include "examples/lib/schedule.h"

namespace paceline::examples {

inline const std::string kLdaProgram = "lda";

// The options of lda's command line.
struct LdaOptions : JobOptions {
  std::string documents;
  std::string vocabulary;  // empty: words are numbers
  std::string topics_out;  // empty: none
  uint32_t topics = 50;
  int sweeps = 40;
  uint32_t batches = 10;  // of a worker's documents, in a sweep
  float alpha = 0.1f;
  float beta = 0.01f;
  double held_out = 0.1;
};

// The options of a run, or the exit code of a process that has nothing more to do: 0 after --help, 2 after
// complaining about the command line on standard error.
std::variant<LdaOptions, int> ParseLdaOptions(int argc, char** argv);

// The documents of a run; InvalidArgument if they are too few, or the model of their words would be too
// large.
absl::StatusOr<Corpus> ReadDocuments(const LdaOptions& options);
TopicShape ShapeOf(const LdaOptions& options, const Corpus& corpus);
// How workers share so many documents by a queue: batches of as many documents as with a fixed split. Epoch 0
// counts them, and each later one is a sweep.
ScheduleOptions QueueOf(const LdaOptions& options, size_t documents);

}  // namespace paceline::examples
