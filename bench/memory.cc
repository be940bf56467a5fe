// What sparse rows take at a shard, as its budget counts it and as the kernel does.
#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/session.h"
#include "bench/shard_pages.h"
#include "bench/workloads.h"
#include "libs/base/status.h"

namespace paceline::bench {
namespace {

constexpr size_t kBornAtOnce = 10'000;
constexpr double kPayload = kSparseDim * sizeof(float);
constexpr double kLimit = 1.5 * kPayload + 16;  // of a row

// Gives birth to rows from .. to - 1.
absl::Status Grow(const Session& session, Table& table, uint64_t from, uint64_t to) {
  std::vector<uint64_t> keys(kBornAtOnce);
  std::vector<float> values(kBornAtOnce * kSparseDim, 1.0f);
  for (uint64_t first = from; first < to; first += kBornAtOnce) {
    keys.resize(std::min<uint64_t>(kBornAtOnce, to - first));
    values.resize(keys.size() * kSparseDim);
    std::iota(keys.begin(), keys.end(), first);
    (void)table.PushAsync(keys, values);  // Flush reports what goes wrong
  }
  return session.client->Flush();
}

struct Bytes {
  double resident = 0;
  double counted = 0;  // by the budget
};

Bytes Read(const ShardPages& pages) {
  return {.resident = pages.Sum("process_resident_memory_bytes"),
          .counted = pages.Sum("paceline_shard_memory_bytes")};
}

}  // namespace

absl::StatusOr<std::vector<Result>> Memory(const Setting& setting) {
  ABSL_ASSIGN_OR_RETURN(const Session session, Session::Open(setting, "memory", 0));
  ABSL_ASSIGN_OR_RETURN(const ShardPages pages, ShardPages::Of(setting.coordinator));
  paceline::Sparse schema;
  schema.dim = kSparseDim;
  // What a shard needs for its first pushes, of whatever size, is not the rows'.
  ABSL_ASSIGN_OR_RETURN(Table first, session.client->OpenOrCreate("first", schema));
  ABSL_RETURN_IF_ERROR(Grow(session, first, 0, 20 * kBornAtOnce));
  ABSL_ASSIGN_OR_RETURN(Table table, session.client->OpenOrCreate("rows", schema));
  const Bytes before = Read(pages);
  const double million = setting.smallest ? 200'000 : 1e6;
  std::vector<Result> results;
  std::vector<double> resident, counted;
  uint64_t rows = 0;
  const auto add = [&](const nlohmann::json& rows_of, const char* metric, double value,
                       const char* limit_name, double limit, bool lower, std::optional<double> goal) {
    results.push_back({.workload = "memory",
                       .params = {{"rows", rows_of}, {"dim", kSparseDim}},
                       .metric = metric,
                       .value = value,
                       .limit_name = limit_name,
                       .limit = limit,
                       .lower_is_better = lower,
                       .goal = goal});
  };
  for (const double millions : {1.0, 1.5, 2.0, 3.0, 4.0}) {
    const auto wanted = static_cast<uint64_t>(millions * million);
    ABSL_RETURN_IF_ERROR(Grow(session, table, rows, wanted));
    rows = wanted;
    const Bytes now = Read(pages);
    resident.push_back((now.resident - before.resident) / static_cast<double>(rows));
    counted.push_back((now.counted - before.counted) / static_cast<double>(rows));
    add(rows, "resident bytes a row", resident.back(), "1.5 x payload + 16", kLimit, true, std::nullopt);
    add(rows, "counted bytes a row", counted.back(), "resident", resident.back(), false, std::nullopt);
  }
  const auto mean = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  add("mean", "resident bytes a row", mean(resident), "1.5 x payload + 16", kLimit, true, 1.0);
  add("mean", "counted bytes a row", mean(counted), "resident", mean(resident), false, 0.9);
  return results;
}

}  // namespace paceline::bench
