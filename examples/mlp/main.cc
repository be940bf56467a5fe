// A multilayer perceptron, trained by worker processes over a Paceline cluster, and the same in one process
// beside it. `mlp --help` says how to use it.

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "examples/lib/cluster_training.h"
#include "examples/lib/console.h"
#include "examples/lib/job_worker.h"
#include "examples/lib/read_rows.h"
#include "examples/lib/text_file.h"
#include "examples/mlp/images.h"
#include "examples/mlp/network.h"
#include "examples/mlp/options.h"
#include "examples/mlp/outcome.h"
#include "examples/mlp/reference.h"
#include "examples/mlp/worker.h"

namespace paceline::examples {
namespace {

// The cluster's weights, by layer, with every update.
absl::StatusOr<std::vector<std::vector<float>>> ReadModel(const MlpOptions& options,
                                                          const std::vector<LayerShape>& shapes,
                                                          uint64_t min_clock) {
  const ClientOptions reader = ReaderClient(kMlpProgram, options);
  std::vector<std::vector<float>> weights;
  for (size_t layer = 0; layer < shapes.size(); ++layer) {
    absl::StatusOr<std::vector<float>> rows =
        ReadFirstRows(reader, LayerTable(layer), shapes[layer].rows(), min_clock);
    if (!rows.ok()) return rows.status();
    weights.push_back(*std::move(rows));
  }
  return weights;
}

// One run, from the images to the report. The exit code.
int Run(const MlpOptions& options, const std::vector<std::string>& arguments) {
  const absl::StatusOr<SplitImages> images = ReadImages(options.images);
  if (!images.ok()) return Fail(kMlpProgram, images.status());
  const Progress::Options shown = {
      .examples_per_epoch = images->train.count(), .epochs = options.epochs, .examples = "images"};
  if (options.join) return RunJoining(kMlpProgram, options, TrainingOf(options), shown);
  const std::vector<LayerShape> shapes = ShapesOf(images->train.pixels, options.hidden, images->classes());
  const ClusterTraining training = TrainOnCluster(arguments, options, shown);
  if (!training.status.ok()) return FailTraining(kMlpProgram, training);
  const auto model = ReadModel(options, shapes, training.totals.clock_all_have);
  if (!model.ok()) return Fail(kMlpProgram, model.status());
  // After the other, lest they take the cores from each other.
  const absl::StatusOr<MlpReference> reference = TrainReference(options, shapes, images->train);
  if (!reference.ok()) return Fail(kMlpProgram, reference.status());

  MlpOutcome outcome{.test_accuracy = AccuracyOf(shapes, *model, images->test),
                     .reference_test_accuracy = AccuracyOf(shapes, reference->weights, images->test),
                     .reference_seconds = reference->curve.back().seconds,
                     .reference_curve = reference->curve,
                     .images = images->train.count(),
                     .totals = training.totals};
  for (const LayerShape& shape : shapes) outcome.weights += shape.values();
  std::fputs(FormatOutcome(options, outcome).c_str(), stdout);
  if (options.json_out.empty()) return 0;
  const absl::Status written = WriteFile(options.json_out, OutcomeJson(options, outcome));
  return written.ok() ? 0 : Fail(kMlpProgram, written);
}

}  // namespace
}  // namespace paceline::examples

int main(int argc, char** argv) {
  using namespace paceline::examples;  // this file's own
  const std::variant<MlpOptions, int> parsed = ParseMlpOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const MlpOptions& options = std::get<MlpOptions>(parsed);
  if (options.worker >= 0) return RunWorkerProcess(kMlpProgram, options, TrainingOf(options));
  return Run(options, std::vector<std::string>(argv, argv + argc));
}
