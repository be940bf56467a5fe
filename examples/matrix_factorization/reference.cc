#include "examples/matrix_factorization/reference.h"

#include "examples/lib/schedule.h"
#include "examples/lib/steady_now.h"

namespace paceline::examples {

FactorModel StartModel(const FactorOptions& options, const Ratings& ratings) {
  return {.users = StartRows(UsersSeed(options.seed), ratings.users, options.dim()),
          .items = StartRows(ItemsSeed(options.seed), ratings.items, options.dim()),
          .dim = options.dim()};
}

absl::StatusOr<FactorReference> TrainReference(const FactorOptions& options, const Ratings& ratings,
                                               const SplitRatings& split) {
  FactorReference reference{.model = StartModel(options, ratings), .curve = {}};
  DivergenceWatch watch(split.variance);
  const absl::Time began = SteadyNow();
  std::vector<Rating> in_order;
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    in_order.clear();
    for (const uint32_t i : EpochOrder(split.train.size(), options.seed, epoch))
      in_order.push_back(split.train[i]);
    const double loss = TrainOn(in_order, split.mean, StepsOf(options, epoch), reference.model.rows());
    if (absl::Status s = watch.Add(in_order.size(), loss); !s.ok()) return s;
    reference.curve.push_back({.examples = in_order.size() * static_cast<uint64_t>(epoch + 1),
                               .seconds = absl::ToDoubleSeconds(SteadyNow() - began),
                               .loss = loss / static_cast<double>(in_order.size())});
  }
  return reference;
}

}  // namespace paceline::examples
