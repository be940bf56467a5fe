#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "examples/sparse_lr/libsvm.h"

namespace paceline::examples {

// The yardstick of the distributed job: the same training in one process and one thread, every gradient
// computed on the newest weights.

// FTRL-proximal, per coordinate (McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013,
// algorithm 1).
//
// The defaults suit rows of unit length, such as tf-idf of text, in batches of 16, and bear staleness: with
// four workers 2 to 8 clocks behind each other, the held-out log-loss on 20 newsgroups moves by less than a
// 400th. The rule steps by the gradient summed over a batch, so what hurts is batch·workers·staleness: once
// some 1,000 examples meet the same old weights the model begins to oscillate; then lower alpha or the
// batch.
struct FtrlOptions {
  float alpha = 1.0f;    // step size; > 0
  float beta = 0.2f;     // damps the first steps; >= 0
  float lambda1 = 0.0f;  // L1; >= 0, on the scale of the sum of all gradients: see FtrlLambda1
  float lambda2 = 0.0f;  // L2; >= 0, on the same scale
};

// One coordinate: its weight and the two sums that the weight follows from. All 0 before the first gradient.
struct FtrlRow {
  float w = 0.0f;
  float z = 0.0f;  // sum of the gradients, less sigma·w at each
  float n = 0.0f;  // sum of the squared gradients
};

// Takes one gradient in, in f32 and in exactly this order, as the server's rule does:
//   sigma = (sqrt(n + g²) − sqrt(n)) / alpha;  z += g − sigma·w;  n += g²
//   w = 0 if |z| <= lambda1, else −(z − sign(z)·lambda1) / ((beta + sqrt(n)) / alpha + lambda2)
void FtrlApply(const FtrlOptions& options, float gradient, FtrlRow* row);

// FTRL's lambda1 for a weight `l1` in the objective "mean log-loss + l1·(sum of |w|)". FTRL weighs its
// lambda1 against the sum of the gradients of all rounds, here N examples in each of E epochs, whereas the
// objective has a mean over N: hence l1·N·E. N counts the whole training set, not a worker's share.
float FtrlLambda1(double l1, size_t examples, int epochs);

struct ReferenceOptions {
  FtrlOptions ftrl;
  std::optional<float> sgd_lr =
      {};  // given: plain SGD, w −= lr·(gradient summed over the batch), instead of FTRL
  int epochs = 5;
  size_t batch_size = 16;  // examples whose gradients, summed, make one update; > 0
  uint64_t seed = 1;       // of the order of the examples: schedule.h
};

// Trains from all-zero weights and returns the final ones, data.column_count of them. The last batch of an
// epoch may be short. Costs about 10 ns a non-zero and epoch, and 12 bytes a column.
std::vector<float> TrainReference(const Dataset& data, const ReferenceOptions& options);

}  // namespace paceline::examples
