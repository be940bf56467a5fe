#include "examples/mlp/worker.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "examples/lib/train_batches.h"
#include "examples/mlp/images.h"
#include "examples/mlp/network.h"

namespace paceline::examples {
namespace {

class Trainer {
 public:
  Trainer(const MlpOptions& options, JobWorker& worker) : options_(options), worker_(worker) {}

  absl::Status Run() {
    absl::StatusOr<SplitImages> images = ReadImages(options_.images);
    if (!images.ok()) return images.status();
    shapes_ = ShapesOf(images->train.pixels, options_.hidden, images->classes());
    if (absl::Status s = worker_.Join(); !s.ok()) return s;
    if (absl::Status s = OpenLayers(); !s.ok()) return s;
    Pass pass(shapes_);
    return TrainBatches(worker_,
                        {.examples = images->train.count(),
                         .batch_size = options_.batch_size,
                         .workers = options_.workers,
                         .epochs = options_.epochs,
                         .seed = options_.seed},
                        [&](const TrainingBatch& next) { return Train(images->train, next, pass); });
  }

 private:
  absl::Status OpenLayers() {
    for (size_t layer = 0; layer < shapes_.size(); ++layer) {
      const float start = StartOf(shapes_[layer]);
      absl::StatusOr<Table> table =
          worker_.client().OpenOrCreate(LayerTable(layer), Ranged{.rows = shapes_[layer].rows(),
                                                                  .dim = shapes_[layer].outputs,
                                                                  .init = Uniform{-start, start},
                                                                  .rule = Sgd{.lr = options_.lr},
                                                                  .consistency = options_.consistency,
                                                                  .seed = LayerSeed(options_.seed, layer)});
      if (!table.ok()) return table.status();
      layers_.push_back(*std::move(table));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> Train(const Images& images, const TrainingBatch& batch, Pass& pass) {
    if (batch.rows.empty()) return 0.0;
    std::vector<Future<std::vector<float>>> coming;
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      coming.push_back(
          layers_[layer].PullRangeAsync(0, shapes_[layer].rows(), {.priority = options_.PriorityOf(layer)}));
    }
    pass.Begin(images, batch.rows);
    std::vector<std::vector<float>> weights(layers_.size());
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      absl::StatusOr<std::vector<float>> pulled = worker_.Await(std::move(coming[layer]));
      if (!pulled.ok()) return pulled.status();
      weights[layer] = *std::move(pulled);
      if (layer == 0) worker_.Pause();
      pass.Forward(layer, weights[layer]);
    }
    const double loss = pass.Loss();
    if (!std::isfinite(loss)) {
      return absl::InternalError("the training diverges: the loss is not finite; lower --lr");
    }
    for (size_t layer = layers_.size(); layer-- > 0;) {
      worker_.PushRange(layers_[layer], 0, pass.Backward(layer, weights[layer]),
                        {.priority = options_.PriorityOf(layer)});
    }
    return loss;
  }

  const MlpOptions& options_;
  JobWorker& worker_;
  std::vector<LayerShape> shapes_;
  std::vector<Table> layers_;
};

}  // namespace

Training TrainingOf(const MlpOptions& options) {
  return [&options](JobWorker& worker) { return Trainer(options, worker).Run(); };
}

}  // namespace paceline::examples
