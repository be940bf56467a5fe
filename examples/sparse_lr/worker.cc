#include "examples/sparse_lr/worker.h"

#include <cmath>
#include <optional>
#include <vector>

#include "examples/lib/train_batches.h"
#include "examples/sparse_lr/logistic.h"
#include "examples/sparse_lr/training_set.h"

namespace paceline::examples {
namespace {

// What FtrlProximal does, bit for bit.
Expression FtrlAsExpression(const FtrlOptions& ftrl) {
  return {.slots = {"n", "z"},
          .params = {{"alpha", ftrl.alpha}, {"beta", ftrl.beta}, {"l1", ftrl.lambda1}, {"l2", ftrl.lambda2}},
          .code = R"(m = n + g*g;
                     sigma = (sqrt(m) - sqrt(n)) / alpha;
                     z = (z + g) - sigma*w;
                     n = m;
                     w = select(abs(z) <= l1, 0,
                                -(z - select(z < 0, -l1, l1)) / ((beta + sqrt(n)) / alpha + l2)))"};
}

Rule ServerRule(const RunOptions& options, const Shape& shape) {
  if (options.rule == "sgd") return Sgd{.lr = SgdStepOf(options, shape)};
  const FtrlOptions ftrl = FtrlOf(options, shape);
  if (options.rule == "ftrl-expression") return FtrlAsExpression(ftrl);
  return FtrlProximal{.alpha = ftrl.alpha, .beta = ftrl.beta, .l1 = ftrl.lambda1, .l2 = ftrl.lambda2};
}

class Trainer {
 public:
  Trainer(const RunOptions& options, JobWorker& worker) : options_(options), worker_(worker) {}

  absl::Status Run() {
    absl::StatusOr<TrainingSet> train = ReadTrainingSet(options_.train, options_.scale);
    if (!train.ok()) return train.status();
    if (absl::Status s = worker_.Join(); !s.ok()) return s;
    // Under Bsp the table is aggregated: the gradients of a clock are summed over the workers.
    absl::StatusOr<Table> weights = worker_.client().OpenOrCreate(
        "weights",
        Sparse{.dim = 1, .rule = ServerRule(options_, train->shape), .consistency = options_.consistency});
    if (!weights.ok()) return weights.status();
    weights_ = *weights;
    return Train(train->data);
  }

 private:
  absl::Status Train(const Dataset& data) {
    BatchBuilder builder(&data);
    Batch batch;
    return TrainBatches(worker_,
                        {.examples = data.rows(),
                         .batch_size = options_.batch_size,
                         .workers = options_.workers,
                         .epochs = options_.epochs,
                         .seed = options_.seed},
                        [&](const TrainingBatch& next) {
                          builder.Build(next.rows, &batch);
                          return TrainOn(batch);
                        });
  }

  absl::StatusOr<double> TrainOn(const Batch& batch) {
    const absl::StatusOr<std::vector<float>> weights = worker_.Await(weights_->PullAsync(batch.keys));
    if (!weights.ok()) return weights.status();
    gradient_.resize(batch.keys.size());
    const double loss = ComputeGradient(batch, *weights, absl::MakeSpan(gradient_));
    if (!std::isfinite(loss)) {
      return absl::InternalError(
          "the training diverges: the loss is not finite; lower --alpha, --lr or --batch");
    }
    worker_.Push(*weights_, batch.keys, gradient_);
    return loss;
  }

  const RunOptions& options_;
  JobWorker& worker_;
  std::optional<Table> weights_;
  std::vector<float> gradient_;
};

}  // namespace

Training TrainingOf(const RunOptions& options) {
  return [&options](JobWorker& worker) { return Trainer(options, worker).Run(); };
}

}  // namespace paceline::examples
