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
    absl::StatusOr<Table> weights =
        worker_.client().OpenOrCreate("weights", Sparse{.dim = 1,
                                                        .rule = ServerRule(options_, train->shape),
                                                        .consistency = options_.consistency,
                                                        .push_filter = options_.filter.push,
                                                        .link_filters = options_.filter.link});
    if (!weights.ok()) return weights.status();
    weights_ = *weights;
    if (options_.filter.kkt.has_value()) {
      kkt_.emplace(MakeKktFilter(options_.filter, FtrlOf(options_, train->shape).lambda1, options_.workers));
    }
    if (absl::Status s = Train(train->data); !s.ok()) return s;
    if (kkt_.has_value()) LookAtAllAgain();
    return absl::OkStatus();
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
                          return TrainOn(batch, next.epoch + 1 == options_.epochs);
                        });
  }

  absl::StatusOr<double> TrainOn(const Batch& batch, bool last_epoch) {
    const absl::StatusOr<std::vector<float>> weights = worker_.Await(weights_->PullAsync(batch.keys));
    if (!weights.ok()) return weights.status();
    gradient_.resize(batch.keys.size());
    const double loss = ComputeGradient(batch, *weights, absl::MakeSpan(gradient_));
    if (!std::isfinite(loss)) {
      return absl::InternalError(
          "the training diverges: the loss is not finite; lower --alpha, --lr or --batch");
    }
    if (!kkt_.has_value()) {
      worker_.Push(*weights_, batch.keys, gradient_);
      return loss;
    }
    sent_ = batch.keys;
    kkt_->Filter(*weights, &sent_, &gradient_);
    CountKkt(batch.keys.size(), last_epoch);
    worker_.Push(*weights_, sent_, gradient_);
    return loss;
  }

  void CountKkt(size_t given, bool last_epoch) {
    counts_.given = kkt_->given();
    counts_.left_out = kkt_->left_out();
    if (last_epoch) {
      counts_.late_given += given;
      counts_.late_left_out += given - sent_.size();
    }
    worker_.SetKkt(counts_);
  }

  // The reset pass: what the filter has kept of each coordinate.
  void LookAtAllAgain() {
    kkt_->Reset(&sent_, &gradient_);
    worker_.Push(*weights_, sent_, gradient_);
  }

  const RunOptions& options_;
  JobWorker& worker_;
  std::optional<Table> weights_;
  std::vector<float> gradient_;
  std::optional<KktFilter> kkt_;
  KktCounts counts_;
  std::vector<uint64_t> sent_;  // keys that it has let pass
};

}  // namespace

Training TrainingOf(const RunOptions& options) {
  return [&options](JobWorker& worker) { return Trainer(options, worker).Run(); };
}

}  // namespace paceline::examples
