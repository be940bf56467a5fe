#include "bench/consistency/made_data.h"

#include <cmath>
#include <cstddef>
#include <map>
#include <numbers>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/lib/random.h"

namespace paceline::bench {
namespace {

using examples::Random;

constexpr double kOwnWords = 0.9;  // share of a topic's tokens that are words of its own

// Of the normal distribution (Box and Muller).
double Normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.Unit()));
  return radius * std::cos(2 * std::numbers::pi * random.Unit());
}

std::vector<double> Normals(size_t count, double deviation, Random& random) {
  std::vector<double> normals(count);
  for (double& normal : normals) normal = deviation * Normal(random);
  return normals;
}

// Words of a topic by a law of their rank, as in texts: few are frequent.
uint32_t DrawWord(const DocumentsShape& shape, uint64_t topic, Random& random) {
  if (random.Unit() >= kOwnWords) return static_cast<uint32_t>(random.Below(shape.words));
  const uint32_t own = shape.words / shape.topics;
  const auto rank = static_cast<uint32_t>(own * random.Unit() * random.Unit());
  return static_cast<uint32_t>(topic) * own + rank;
}

}  // namespace

std::string MadeRatings(const RatingsShape& shape, uint64_t seed) {
  constexpr double kMean = 3.5, kBias = 0.4;
  const double factor =
      std::pow(static_cast<double>(shape.rank), -0.25);  // so that products have deviation 1
  Random random(seed);
  const std::vector<double> user_bias = Normals(shape.users, kBias, random);
  const std::vector<double> item_bias = Normals(shape.items, kBias, random);
  const std::vector<double> users = Normals(size_t{shape.users} * shape.rank, factor, random);
  const std::vector<double> items = Normals(size_t{shape.items} * shape.rank, factor, random);
  std::string text;
  for (uint32_t i = 0; i < shape.ratings; ++i) {
    const uint64_t user = random.Below(shape.users), item = random.Below(shape.items);
    double rating = kMean + user_bias[user] + item_bias[item] + shape.noise * Normal(random);
    for (uint32_t k = 0; k < shape.rank; ++k) {
      rating += users[user * shape.rank + k] * items[item * shape.rank + k];
    }
    absl::StrAppendFormat(&text, "%d %d %.3f\n", user, item, rating);
  }
  return text;
}

std::string MadeDocuments(const DocumentsShape& shape, uint64_t seed) {
  Random random(seed);
  std::string text;
  for (uint32_t d = 0; d < shape.documents; ++d) {
    const uint64_t topics[] = {random.Below(shape.topics), random.Below(shape.topics)};
    std::map<uint32_t, uint32_t> counts;
    for (uint32_t t = 0; t < shape.tokens; ++t) ++counts[DrawWord(shape, topics[random.Below(2)], random)];
    absl::StrAppend(&text, counts.size());
    for (const auto& [word, count] : counts) absl::StrAppend(&text, " ", word, ":", count);
    text += "\n";
  }
  return text;
}

}  // namespace paceline::bench
