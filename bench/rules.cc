#include "bench/rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libs/table/store.h"
#include "libs/world/random.h"

namespace paceline::bench {
namespace {

constexpr size_t kBatch = 1000;

struct Pair {
  const char* name;
  Rule built_in;
  Expression written;
};

std::vector<Pair> Pairs() {
  return {
      {"sgd", Sgd{}, {.params = {{"lr", 0.01f}}, .code = "w = w - lr*g"}},
      {"adagrad",
       Adagrad{},
       {.slots = {"n"},
        .params = {{"lr", 0.1f}, {"eps", 1e-8f}},
        .code = "n = n + g*g; w = w - lr*g / (sqrt(n) + eps)"}},
      {"ftrl_proximal",
       FtrlProximal{.l1 = 0.01f},
       {.slots = {"n", "z"},
        .params = {{"alpha", 0.1f}, {"beta", 1}, {"l1", 0.01f}, {"l2", 0}},
        .code = "m = n + g*g; sigma = (sqrt(m) - sqrt(n)) / alpha; z = (z + g) - sigma*w; n = m;"
                "w = select(abs(z) <= l1, 0,"
                "           -(z - select(z < 0, -l1, l1)) / ((beta + sqrt(n)) / alpha + l2))"}},
      {"adam",
       Adam{},
       {.slots = {"m", "v", "s", "r"},
        .params = {{"lr", 0.001f}, {"b1", 0.9f}, {"b2", 0.999f}, {"eps", 1e-8f}},
        .code = "m = b1*m + (1 - b1)*g; v = b2*v + (1 - b2)*(g*g); s = b1*s + (1 - b1); r = b2*r + (1 - b2);"
                "w = w - lr*(m/s) / (sqrt(v/r) + eps)"}},
  };
}

// A table and batches to update it with.
class Table {
 public:
  Table(const Rule& rule, uint32_t dim, uint64_t rows)
      : store_(TableId(1), {.dim = dim, .rule = rule}, /*ring_bits=*/0), dim_(dim), rows_(rows) {
    std::vector<uint64_t> keys(kBatch);
    gradients_.assign(kBatch * dim, 0.25f);
    for (uint64_t first = 0; first < rows; first += kBatch) {
      for (size_t i = 0; i < kBatch; ++i) keys[i] = (first + i) % rows;
      Update(keys);
    }
  }

  // CPU nanoseconds for each row of `batches` batches.
  double Run(size_t batches) {
    world::SplitMix64 random(batches);
    std::vector<std::vector<uint64_t>> all(batches, std::vector<uint64_t>(kBatch));
    size_t updated = 0;
    for (std::vector<uint64_t>& keys : all) {
      for (uint64_t& key : keys) key = world::Uniform(random, rows_);
      std::ranges::sort(keys);
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      updated += keys.size();
    }
    const Cost cost = Measure(OwnCpuSeconds, [&] {
      for (const std::vector<uint64_t>& keys : all) Update(keys);
    });
    return 1e9 * cost.cpu_seconds / static_cast<double>(updated);
  }

 private:
  void Update(const std::vector<uint64_t>& keys) {
    const table::ValueView gradients(gradients_.data(), keys.size() * dim_);
    store_.Update(keys, gradients, Lsn(++version_));
  }

  table::TableStore store_;
  uint32_t dim_;
  uint64_t rows_;
  uint64_t version_ = 0;
  std::vector<float> gradients_;
};

}  // namespace

absl::StatusOr<std::vector<Result>> Rules(const Setting& setting) {
  std::vector<Result> results;
  for (const uint32_t dim : {1u, 16u, 256u}) {
    const uint64_t rows = setting.smallest ? kBatch : std::max<uint64_t>(20'000, 100'000 / dim);
    const size_t batches = setting.smallest ? 20 : std::max<size_t>(20, 400 / dim);
    const int rounds = setting.Rounds(7);
    for (const Pair& pair : Pairs()) {
      Table built_in(pair.built_in, dim, rows);
      Table written(pair.written, dim, rows);
      std::vector<double> limits, values;
      for (int round = 0; round < rounds; ++round) {  // in turn, so that a disturbance meets both
        limits.push_back(built_in.Run(batches));
        values.push_back(written.Run(batches));
      }
      results.push_back({.workload = "rules",
                         .params = {{"rule", pair.name}, {"dim", dim}, {"rows", rows}},
                         .metric = "ns a row",
                         .value = Median(values),
                         .limit_name = "built in",
                         .limit = Median(limits),
                         .lower_is_better = true});
    }
  }
  return results;
}

}  // namespace paceline::bench
