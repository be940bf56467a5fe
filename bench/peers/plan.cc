#include "bench/peers/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/world/random.h"

namespace paceline::bench::peers {
namespace {

constexpr uint32_t kDenseDim = 64;
constexpr size_t kKeysDrawn = 200'000;

Stage MakeStage(const Data& data, const std::vector<size_t>& batches,
                const std::vector<size_t>& outstanding) {
  Stage stage{.data = data, .works = {}};
  for (const size_t batch : batches) {
    Work work = MakeWork(data, batch, 1);
    for (const size_t window : outstanding) {
      if (batch == 1 && !data.dense && window > 1) continue;
      work.outstanding = window;
      stage.works.push_back(work);
    }
  }
  return stage;
}

Stage MakeDense(uint64_t megabytes, const std::vector<size_t>& outstanding) {
  const Data data = Dense(megabytes);
  return MakeStage(data, {data.rows}, outstanding);
}

}  // namespace

Data Dense(uint64_t megabytes) {
  return {.name = absl::StrCat("dense ", megabytes, " MB"),
          .rows = (megabytes << 20) / (kDenseDim * sizeof(float)),
          .dim = kDenseDim,
          .dense = true};
}

Data Rows(uint64_t rows, uint32_t dim) {
  return {.name = absl::StrCat("rows of ", dim, dim == 1 ? " value" : " values"), .rows = rows, .dim = dim};
}

Work MakeWork(const Data& data, size_t batch, size_t outstanding, uint64_t draw) {
  Work work{.batch = batch, .outstanding = outstanding, .keys = {}, .in_file = {}};
  if (data.dense) return work;
  const size_t batches = std::max<size_t>(20, std::min<size_t>(4096, kKeysDrawn / batch));
  work.keys = DrawBatches(data.rows, batch, batches, draw);
  return work;
}

Plan MakePlan(const Setting& setting) {
  if (setting.smallest) {
    return {.stages = {MakeDense(1, {1}), MakeStage(Rows(2'000, 1), {1}, {1}),
                       MakeStage(Rows(2'000, 16), {1'000}, {1, 8})},
            .rounds = 1,
            .turn = absl::Milliseconds(5)};
  }
  if (setting.quick) {
    return {.stages = {MakeDense(4, {1}), MakeStage(Rows(200'000, 1), {1}, {1}),
                       MakeStage(Rows(200'000, 16), {1'000, 10'000}, {1, 8})},
            .rounds = 5,
            .turn = absl::Milliseconds(30)};
  }
  Plan plan{
      .stages = {MakeDense(4, {1, 8}), MakeDense(64, {1})}, .rounds = 5, .turn = absl::Milliseconds(200)};
  constexpr uint64_t kRows = 1'000'000;
  plan.stages.push_back(MakeStage(Rows(kRows, 1), {1, 1'000, 10'000}, {1, 8}));
  plan.stages.back().with_additions = true;
  for (const uint32_t dim : {16u, 64u})
    plan.stages.push_back(MakeStage(Rows(kRows, dim), {1'000, 10'000}, {1, 8}));
  return plan;
}

std::vector<uint64_t> DrawBatches(uint64_t rows, size_t batch, size_t batches, uint64_t draw) {
  world::SplitMix64 random(rows * 31 + batch + (draw << 40));
  std::vector<uint64_t> all;
  all.reserve(batch * batches);
  std::vector<uint64_t> keys;
  for (size_t b = 0; b < batches; ++b) {
    keys.clear();
    while (keys.size() < batch) {  // once more for those that were drawn twice
      for (size_t missing = batch - keys.size(); missing > 0; --missing)
        keys.push_back(world::Uniform(random, rows));
      std::ranges::sort(keys);
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    }
    all.insert(all.end(), keys.begin(), keys.end());
  }
  return all;
}

void CountPushes(const Work& work, uint64_t pushes, std::vector<uint32_t>& of_rows) {
  if (work.keys.empty()) {
    for (uint32_t& count : of_rows) count += static_cast<uint32_t>(pushes);
    return;
  }
  const uint64_t batches = work.batches();
  for (uint64_t b = 0; b < batches; ++b) {
    const auto times = static_cast<uint32_t>(pushes / batches + (b < pushes % batches ? 1 : 0));
    for (size_t i = 0; i < work.batch; ++i) of_rows[work.keys_of(b)[i]] += times;
  }
}

}  // namespace paceline::bench::peers
