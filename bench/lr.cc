// Logistic regression as a user of the SDK would write it for speed, beside the same arithmetic on an array.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/lr_epoch.h"
#include "bench/session.h"
#include "bench/workloads.h"

namespace paceline::bench {
namespace {

using lr::Batch;
using lr::kAhead;
using lr::kBatch;
using lr::kFeatures;
using lr::kLearningRate;

// A value that is asked for under SSP(s) and used kAhead clocks later is one under SSP(s + kAhead).
constexpr uint64_t kStaleness = 8;

struct Epochs {
  Cost here, there, uncached, listed;
  double loss_here = 0, loss_there = 0;  // of the first epoch
};

// Each is another job's. Only `cached` has a cache; `listed` makes lists of the keys, and has streams name
// them.
struct Sessions {
  const Session& cached;
  const Session& uncached;
  const Session& listed;
};

TableSchema WithKeyLists(TableSchema schema) {
  std::visit([](auto& kind) { kind.link_filters.push.key_lists = kind.link_filters.pull.key_lists = true; },
             schema);
  return schema;
}

absl::StatusOr<Epochs> Train(const Sessions& sessions, const std::vector<Batch>& batches,
                             const TableSchema& schema, int rounds) {
  const std::string name = absl::StrCat("lr-", schema.index());
  ABSL_ASSIGN_OR_RETURN(Table table, sessions.cached.client->OpenOrCreate(name, schema));
  ABSL_ASSIGN_OR_RETURN(Table uncached_table, sessions.uncached.client->OpenOrCreate(name, schema));
  ABSL_ASSIGN_OR_RETURN(Table listed_table, sessions.listed.client->OpenOrCreate(name, WithKeyLists(schema)));
  ABSL_ASSIGN_OR_RETURN(const std::vector<KeyList> lists, lr::ListKeys(batches, listed_table));
  std::vector<float> weights(kFeatures, 0);
  Epochs epochs;
  std::vector<Cost> here, there, without_cache, with_lists;
  for (int round = 0; round <= rounds; ++round) {  // side by side: the machine's mood changes
    double loss_here = 0;
    double loss_there = 0;  // of the last that was measured
    absl::Status error;
    const auto measure = [&](const Session& session, const auto& epoch) {
      return Measure(session.cpu, [&] {
        const absl::StatusOr<double> loss = epoch(*session.client);
        error.Update(loss.status());
        loss_there = loss.value_or(0);
      });
    };
    const Cost cost_here = Measure(OwnCpuSeconds, [&] { loss_here = lr::EpochHere(batches, weights); });
    const auto plain = [&](Table& of) {
      return [&](Client& client) { return lr::EpochThere(batches, client, of); };
    };
    const Cost cost_uncached = measure(sessions.uncached, plain(uncached_table));
    const Cost cost_listed = measure(sessions.listed, [&](Client& client) {
      return lr::EpochThere(batches, lists, client, listed_table);
    });
    const Cost cost_there = measure(sessions.cached, plain(table));
    ABSL_RETURN_IF_ERROR(error);
    if (round == 0) {  // rows are born, memory is touched: not counted
      epochs.loss_here = loss_here;
      epochs.loss_there = loss_there;
      continue;
    }
    here.push_back(cost_here);
    there.push_back(cost_there);
    without_cache.push_back(cost_uncached);
    with_lists.push_back(cost_listed);
  }
  epochs.here = Median(here);
  epochs.there = Median(there);
  epochs.uncached = Median(without_cache);
  epochs.listed = Median(with_lists);
  return epochs;
}

}  // namespace

absl::StatusOr<std::vector<Result>> LogisticRegression(const Setting& setting) {
  const size_t examples = setting.smallest ? 4 * kBatch : 102'400;
  const int rounds = setting.Rounds(9);
  const std::vector<Batch> batches = lr::MakeBatches(examples);
  ABSL_ASSIGN_OR_RETURN(const Session session, Session::Open(setting, "lr", 1));
  ABSL_ASSIGN_OR_RETURN(const Session uncached,
                        Session::Open(setting, "lr-uncached", 1, uint64_t{64} << 20, /*cache_bytes_max=*/0));
  ABSL_ASSIGN_OR_RETURN(const Session listed,
                        Session::Open(setting, "lr-listed", 1, uint64_t{64} << 20, /*cache_bytes_max=*/0));
  const Sessions sessions{.cached = session, .uncached = uncached, .listed = listed};
  std::vector<Result> results;
  paceline::Sparse sparse;
  sparse.rule = Sgd{.lr = kLearningRate};
  sparse.consistency = Ssp{.staleness = kStaleness - kAhead};
  Ranged ranged;
  ranged.rows = kFeatures;
  ranged.rule = sparse.rule;
  ranged.consistency = sparse.consistency;
  for (const std::string& kind : setting.tables) {
    const TableSchema schema = kind == "sparse" ? TableSchema(sparse) : TableSchema(ranged);
    ABSL_ASSIGN_OR_RETURN(const Epochs epochs, Train(sessions, batches, schema, rounds));
    // The two add up the same updates in another order, and one of them some batches late.
    if (std::abs(epochs.loss_there - epochs.loss_here) > 0.05 * epochs.loss_here) {
      return absl::InternalError(absl::StrCat("lr: the mean loss of the first epoch was ", epochs.loss_there,
                                              " with a ", kind, " table and ", epochs.loss_here, " without"));
    }
    const nlohmann::json params{{"examples", examples},
                                {"features", kFeatures},
                                {"batch", kBatch},
                                {"staleness", kStaleness},
                                {"table", kind}};
    const auto add = [&](const char* metric, double value, double limit) {
      results.push_back({.workload = "lr",
                         .params = params,
                         .metric = metric,
                         .value = value,
                         .limit_name = "without a server",
                         .limit = limit,
                         .lower_is_better = true});
    };
    add("epoch s", epochs.there.seconds, epochs.here.seconds);
    add("epoch s, lists of keys", epochs.listed.seconds, epochs.here.seconds);
    add("epoch CPU-s", epochs.there.cpu_seconds, epochs.here.cpu_seconds);
    add("mean loss", epochs.loss_there, epochs.loss_here);
    results.push_back({.workload = "lr",
                       .params = params,
                       .metric = "epoch s with the cache",
                       .value = epochs.there.seconds,
                       .limit_name = "cache off",
                       .limit = epochs.uncached.seconds,
                       .lower_is_better = true,
                       .goal = 1.05});
  }
  ABSL_RETURN_IF_ERROR(session.client->Finish());
  ABSL_RETURN_IF_ERROR(uncached.client->Finish());
  ABSL_RETURN_IF_ERROR(listed.client->Finish());
  return results;
}

}  // namespace paceline::bench
