// Reductions of a table.
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/table/reduction.h"
#include "paceline/table.h"
#include "sdk/cpp/src/table_state.h"

namespace paceline {
namespace {

static_assert(static_cast<int>(Reduction::kSum) == static_cast<int>(table::ReduceOp::kSum));
static_assert(static_cast<int>(Reduction::kNonZeros) == static_cast<int>(table::ReduceOp::kNonZeros));
static_assert(kTopKMax == table::ReduceQuery::kTopMax);

// INVALID_ARGUMENT or OUT_OF_RANGE: there is no such range.
absl::StatusOr<table::ReduceQuery> QueryOf(const sdk::TableInfo& table, table::ReduceOp op, uint32_t k,
                                           const ReduceOptions& options) {
  table::ReduceQuery query{.op = op, .first = options.first, .column = options.column, .k = k};
  if (options.count.has_value()) {
    if (*options.count == 0) {
      return absl::InvalidArgumentError(absl::StrCat(table.Name(), ": count: 0; expected at least one key"));
    }
    if (*options.count - 1 > UINT64_MAX - options.first) {
      return absl::OutOfRangeError(absl::StrCat(table.Name(), ": range: ", *options.count, " keys from ",
                                                options.first, " on go beyond 2^64 - 1"));
    }
    query.last = options.first + (*options.count - 1);
  }
  absl::Status valid = table::CheckQuery(table.schema, query);
  if (valid.ok()) return query;
  return absl::Status(valid.code(), absl::StrCat(table.Name(), ": ", valid.message()));
}

// `answer` makes the result of all rows' partial result.
template <class T, class Answer>
Future<T> StartReduction(sdk::TableState& state, table::ReduceOp op, uint32_t k, const ReduceOptions& options,
                         Answer answer) {
  using Result = absl::StatusOr<T>;
  const absl::StatusOr<table::ReduceQuery> query = QueryOf(*state.info, op, k, options);
  if (!query.ok()) return Future<T>::Ready(query.status());
  auto future = std::make_shared<internal::FutureState<Result>>();
  const bool entered = state.client->With([&](sdk::ClientCore& core) {
    core.Reduce({.table = state.info,
                 .query = *query,
                 .min_clock = options.min_clock,
                 .priority = options.priority,
                 .timeout = options.timeout.value_or(state.client->options().timeout),
                 .ended = [future, answer](absl::StatusOr<table::Partial> whole) {
                   future->Set(whole.ok() ? answer(*whole) : Result(whole.status()));
                 }});
  });
  if (!entered) return Future<T>::Ready(sdk::ClientState::GoneError());
  return Future<T>(std::move(future));
}

absl::Status MayWait(absl::string_view what) {
  if (!internal::WaitingIsForbidden()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      what, ": blocks, and was called from a callback, whose thread it would wait for; use its Async form"));
}

}  // namespace

Future<Reduced> Table::ReduceAsync(Reduction reduction, const ReduceOptions& options) {
  const auto op = static_cast<table::ReduceOp>(reduction);
  if (op < table::ReduceOp::kSum || op > table::ReduceOp::kNonZeros) {
    return Future<Reduced>::Ready(absl::InvalidArgumentError(
        absl::StrCat(state_->info->Name(), ": reduction: ", static_cast<int>(reduction), " is not known")));
  }
  const auto answer = [op,
                       name = state_->info->Name()](const table::Partial& whole) -> absl::StatusOr<Reduced> {
    const bool extreme = op == table::ReduceOp::kMax || op == table::ReduceOp::kMin;
    if (extreme && whole.values == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": no rows in the range; none has a maximum or minimum"));
    }
    return Reduced{.value = whole.Value(op), .rows = whole.rows, .values = whole.values};
  };
  return StartReduction<Reduced>(*state_, op, /*k=*/0, options, answer);
}

absl::StatusOr<Reduced> Table::Reduce(Reduction reduction, const ReduceOptions& options) {
  if (absl::Status may = MayWait("reduce"); !may.ok()) return may;
  const sdk::BlockingCall blocking(*state_->client);
  return ReduceAsync(reduction, options).Get();
}

Future<std::vector<TopValue>> Table::TopKAsync(uint32_t k, TopBy by, const ReduceOptions& options) {
  const table::ReduceOp op = by == TopBy::kMagnitude ? table::ReduceOp::kTopAbs : table::ReduceOp::kTop;
  const auto answer = [op](const table::Partial& whole) -> absl::StatusOr<std::vector<TopValue>> {
    std::vector<TopValue> top;
    for (const table::TopEntry& entry : whole.Ordered(op)) {
      top.push_back({.key = entry.key, .column = entry.column, .value = entry.value});
    }
    return top;
  };
  return StartReduction<std::vector<TopValue>>(*state_, op, k, options, answer);
}

absl::StatusOr<std::vector<TopValue>> Table::TopK(uint32_t k, TopBy by, const ReduceOptions& options) {
  if (absl::Status may = MayWait("top_k"); !may.ok()) return may;
  const sdk::BlockingCall blocking(*state_->client);
  return TopKAsync(k, by, options).Get();
}

}  // namespace paceline
