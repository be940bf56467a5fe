#include "examples/sparse_lr/convergence.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "examples/sparse_lr/logistic.h"

namespace paceline::examples {
namespace {

constexpr int kSteps = 10;
constexpr int kTries = 8;              // of one step, each a quarter of the one before
constexpr double kGrow = 1.5;          // of the next step after one that did well
constexpr double kWorthSaying = 0.05;  // of a loss

// An upper bound of the mean log-loss's second derivative in each weight.
std::vector<float> Curvature(const Dataset& train, double l2) {
  std::vector<float> curvature(train.column_count, static_cast<float>(l2));
  const auto share = static_cast<float>(0.25 / static_cast<double>(train.rows()));
  for (size_t k = 0; k < train.nonzeros(); ++k) {
    curvature[train.columns[k]] += share * train.values[k] * train.values[k];
  }
  return curvature;
}

std::vector<float> MeanGradient(const Dataset& train, absl::Span<const float> weights) {
  std::vector<float> gradient(train.column_count, 0.0f);
  const double share = 1.0 / static_cast<double>(train.rows());
  for (size_t row = 0; row < train.rows(); ++row) {
    double margin = 0;
    for (uint64_t k = train.row_begin[row]; k < train.row_begin[row + 1]; ++k) {
      margin += static_cast<double>(weights[train.columns[k]]) * train.values[k];
    }
    const auto error = static_cast<float>(share * (1 / (1 + std::exp(-margin)) - train.labels[row]));
    for (uint64_t k = train.row_begin[row]; k < train.row_begin[row + 1]; ++k) {
      gradient[train.columns[k]] += error * train.values[k];
    }
  }
  return gradient;
}

float Shrunk(float weight, float by) {
  return std::copysign(std::max(std::abs(weight) - by, 0.0f), weight);
}

}  // namespace

double Objective(const Dataset& train, absl::Span<const float> weights, const Penalties& penalties) {
  double squares = 0;
  for (const float weight : weights) squares += double{weight} * weight;
  return Objective(train, weights, penalties.l1) + penalties.l2 / 2 * squares;
}

std::vector<float> Polished(const Dataset& train, absl::Span<const float> weights,
                            const Penalties& penalties) {
  std::vector<float> model(weights.begin(), weights.end());
  model.resize(train.column_count);
  double best = Objective(train, model, penalties);
  if (train.rows() == 0) return model;
  const std::vector<float> curvature = Curvature(train, penalties.l2);
  double step = 1;
  std::vector<float> next(model.size());
  for (int i = 0; i < kSteps; ++i) {
    const std::vector<float> gradient = MeanGradient(train, model);
    for (int tried = 0; tried < kTries; ++tried, step /= 4) {
      for (size_t c = 0; c < model.size(); ++c) {
        if (curvature[c] == 0) continue;
        const auto of_column = static_cast<float>(step / curvature[c]);
        const float slope = gradient[c] + static_cast<float>(penalties.l2) * model[c];
        next[c] = Shrunk(model[c] - of_column * slope, of_column * static_cast<float>(penalties.l1));
      }
      const double reached = Objective(train, next, penalties);
      if (!(reached < best)) continue;
      best = reached;
      std::swap(model, next);
      step *= kGrow;
      break;
    }
  }
  return model;
}

std::string NotConverged(const Losses& losses, const Losses& polished) {
  const bool worse_than_nothing = !(losses.objective < std::numbers::ln2);
  const bool much_better = polished.objective < (1 - kWorthSaying) * losses.objective &&
                           polished.held_out < (1 - kWorthSaying) * losses.held_out;
  if (!worse_than_nothing && !much_better) return "";
  const std::string than =
      worse_than_nothing
          ? absl::StrFormat("weights of 0 have %.4f", std::numbers::ln2)
          : absl::StrFormat("%d steps of gradient descent from there reach %.4f", kSteps, polished.objective);
  return absl::StrFormat(
      "the training has not converged: it ended with an objective of %.4f; %s. More --epochs, or other steps "
      "(--alpha, --lr, --batch), may help",
      losses.objective, than);
}

}  // namespace paceline::examples
