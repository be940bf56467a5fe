#include "sdk/cpp/src/table_push.h"

#include <optional>
#include <utility>

#include "libs/base/mutex.h"
#include "libs/world/real_clock.h"
#include "sdk/cpp/src/cache/cache_read.h"
#include "sdk/cpp/src/push/loan.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {
namespace {

// Groups the rows of a call; null if the client is gone.
template <class Group>
std::shared_ptr<const Batch> GroupWith(const TableState& state, Group group) {
  const auto routes = state.client->routes();
  if (routes == nullptr) return nullptr;
  return group(routes, [&](size_t bytes) { return state.client->Allocate(bytes); });
}

std::shared_ptr<const Batch> ByRange(const TableState& state, uint64_t first, uint64_t count,
                                     absl::Span<const float> values) {
  return GroupWith(state, [&](const std::shared_ptr<const Routes>& routes, Allocate allocate) {
    return GroupRange(*routes, state.info->placement, state.info->schema.dim, first, count, values, allocate);
  });
}

// As its value bound counts it; null if there is no such bound.
std::shared_ptr<const WeighedPush> WeighedFor(const TableState& state, const Batch& batch) {
  if (!IsBounded(state.info->consistency)) return nullptr;
  return std::make_shared<const WeighedPush>(Weigh(*state.info, batch));
}

using StateOfPush = std::shared_ptr<internal::FutureState<absl::Status>>;

PushCall CallFor(const TableState& state, std::shared_ptr<const Batch> batch, uint32_t priority,
                 absl::Duration timeout, const StateOfPush& future) {
  return {.table = state.info,
          .batch = std::move(batch),
          .priority = priority,
          .timeout = timeout,
          .done = [future](absl::Status status) { future->Set(std::move(status)); }};
}

// Reserves room for the push now and makes it when `options.after` has ended.
Future<void> PushAfter(const std::shared_ptr<TableState>& state, std::shared_ptr<const Batch> batch,
                       const PushOptions& options, absl::Duration timeout) {
  const absl::StatusOr<uint64_t> held = state->client->Hold(batch->Bytes(), timeout);
  if (!held.ok()) return Future<void>::Ready(held.status());
  auto future = std::make_shared<internal::FutureState<absl::Status>>();
  options.after.OnReady([state, batch = std::move(batch), priority = options.priority, timeout, future,
                         held = *held](const absl::Status& before) {
    if (!before.ok()) {
      state->client->Drop(held, before);
      future->Set(before);
      return;
    }
    const bool entered = state->client->Start(
        held, [&](ClientCore& core) { core.Push(CallFor(*state, batch, priority, timeout, future)); });
    entered ? future->Place() : void(future->Set(ClientState::GoneError()));
  });
  return Future<void>(std::move(future));
}

// Values of a range that are copied before the first of them are sent. A larger push goes in several batches:
// the next is copied while one is under way, which takes a third of the time for 64 MB. Fewer bytes are a
// frame, which is not sent before it is whole.
constexpr uint64_t kAtOnceBytes = uint64_t{1} << 20;

// The outcome of a push that goes in several batches.
class Together {
 public:
  explicit Together(StateOfPush whole) : whole_(std::move(whole)) {}

  // Another batch is made. Each batch ends with one call of End, and so does making them.
  void Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    ++under_way_;
  }
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      status_.Update(status);
      if (--under_way_ > 0) return;
    }
    whole_->Set(status_);
  }

 private:
  const StateOfPush whole_;
  Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 1;  // the making
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// REQUIRES: the range exists. Reserves room for all of it first: once some of it is sent, the push cannot be
// undone.
Future<void> StartLargePush(const TableState& state, uint64_t first, uint64_t count,
                            absl::Span<const float> values, const PushOptions& options) {
  const absl::Duration timeout = options.timeout.value_or(state.client->options().timeout);
  const auto routes = state.client->routes();
  if (routes == nullptr) return Future<void>::Ready(ClientState::GoneError());
  const absl::StatusOr<uint64_t> held = state.client->Hold(values.size() * sizeof(float), timeout);
  if (!held.ok()) return Future<void>::Ready(held.status());
  auto whole = std::make_shared<internal::FutureState<absl::Status>>();
  auto together = std::make_shared<Together>(whole);
  GroupRangeInBatches(
      *routes, state.info->placement, state.info->schema.dim, first, count, values,
      [&state](size_t bytes) { return state.client->Allocate(bytes); }, kAtOnceBytes,
      [&](std::shared_ptr<const Batch> batch) {
        together->Begin();
        const bool entered = state.client->With([&](ClientCore& core) {
          core.Push({.table = state.info,
                     .batch = std::move(batch),
                     .priority = options.priority,
                     .timeout = timeout,
                     .done = [together](const absl::Status& status) { together->End(status); }});
        });
        if (!entered) together->End(ClientState::GoneError());
      });
  state.client->Start(*held, [](ClientCore&) {});
  whole->Place();
  together->End(absl::OkStatus());
  return Future<void>(std::move(whole));
}

// Whether a call that waits for the push sends the values from where they lie. Parts of small blocks would
// cost more than the copy. Those of an aggregated table are committed later; and a filter sends others.
bool MayLend(const TableState& state, absl::Span<const float> values, const PushOptions& options) {
  constexpr size_t kWorthwhile = size_t{64} << 10;
  constexpr size_t kBlock = size_t{32} << 10;
  const TableInfo& table = *state.info;
  return values.size() * sizeof(float) >= kWorthwhile &&
         table.placement.RowsPerBlock() * table.schema.dim * sizeof(float) >= kBlock &&
         !options.after.valid() && table.line() != Line::kAggregated && !table.push_filter.active() &&
         !internal::WaitingIsForbidden();
}

// REQUIRES: the range exists, and the thread may wait.
absl::Status PushLent(const std::shared_ptr<TableState>& state, uint64_t first, uint64_t count,
                      absl::Span<const float> values, const PushOptions& options) {
  const BlockingCall blocking(*state->client);
  const auto routes = state->client->routes();
  if (routes == nullptr) return ClientState::GoneError();
  Loan loan(values);
  std::shared_ptr<Batch> batch =
      LendRange(*routes, state->info->placement, state->info->schema.dim, first, count, loan.Take(),
                [&state](size_t bytes) { return state->client->Allocate(bytes); });
  absl::Status pushed = AwaitPush(*state, StartPush(state, batch, options));
  state->client->TakeBack(std::move(batch), loan);
  return pushed;
}

}  // namespace

std::shared_ptr<const Batch> ByKeys(const TableState& state, absl::Span<const uint64_t> keys,
                                    absl::Span<const float> values) {
  return GroupWith(state, [&](const std::shared_ptr<const Routes>& routes, Allocate allocate) {
    return GroupKeys(*routes, state.info->placement, state.info->schema.dim, keys, values, allocate);
  });
}

std::shared_ptr<const Batch> ByList(const TableState& state, const ListedKeys& keys,
                                    absl::Span<const float> values, bool reads_back) {
  return GroupWith(state, [&](const std::shared_ptr<const Routes>& routes, Allocate allocate) {
    return PushListed(*routes, *keys.Grouped(routes), values, reads_back, allocate);
  });
}

Future<void> StartPush(const std::shared_ptr<TableState>& state, std::shared_ptr<const Batch> batch,
                       const PushOptions& options) {
  if (batch == nullptr) return Future<void>::Ready(ClientState::GoneError());
  const absl::Duration timeout = options.timeout.value_or(state->client->options().timeout);
  const auto weighed = WeighedFor(*state, *batch);
  if (options.after.valid() && weighed != nullptr) {
    return Future<void>::Ready(state->Named(
        absl::FailedPreconditionError("push: `after` does not go with Vap, whose bound may make the "
                                      "push wait; wait for the other operation, then push")));
  }
  if (options.after.valid()) return PushAfter(state, std::move(batch), options, timeout);
  const ClientState::Needed needed{.bytes = batch->Bytes(), .table = state->info, .weighed = weighed};
  auto future = std::make_shared<internal::FutureState<absl::Status>>();
  const absl::Status entered = state->client->WithRoom(needed, timeout, [&](ClientCore& core) {
    PushCall call = CallFor(*state, std::move(batch), options.priority, timeout, future);
    call.weighed = weighed;
    core.Push(std::move(call));
  });
  if (!entered.ok()) return Future<void>::Ready(entered);
  future->Place();
  return Future<void>(std::move(future));
}

Future<std::vector<float>> StartPushPull(TableState& state, std::shared_ptr<const Batch> batch,
                                         const PushPullOptions& options) {
  using Result = absl::StatusOr<std::vector<float>>;
  if (batch == nullptr) return Future<std::vector<float>>::Ready(ClientState::GoneError());
  const absl::Duration timeout = options.timeout.value_or(state.client->options().timeout);
  auto future = std::make_shared<internal::FutureState<Result>>();
  auto values = std::make_shared<std::vector<float>>(size_t{batch->rows} * batch->dim);
  const auto receiver = MakeReceiver(batch, values->data(), [future, values](absl::Status status) {
    future->Set(status.ok() ? Result(std::move(*values)) : Result(std::move(status)));
  });
  const ClientState::Needed needed{
      .bytes = batch->Bytes(), .table = state.info, .weighed = WeighedFor(state, *batch)};
  const absl::Status entered = state.client->WithRoom(needed, timeout, [&](ClientCore& core) {
    core.PushPull(
        {.table = state.info, .batch = batch, .priority = options.priority, .weighed = needed.weighed},
        {.table = state.info,
         .batch = batch,
         .priority = options.priority,
         .timeout = timeout,
         .sink = receiver},
        options.min_clock, options.next_clock);
  });
  entered.ok() ? future->Place() : receiver->Done(entered);
  return Future<std::vector<float>>(std::move(future));
}

Future<void> StartPushRange(const std::shared_ptr<TableState>& state, uint64_t first, uint64_t count,
                            absl::Span<const float> values, const PushOptions& options) {
  // A value bound judges a push as a whole.
  const bool bounded = IsBounded(state->info->consistency);
  if (values.size() * sizeof(float) > kAtOnceBytes && !options.after.valid() && !bounded) {
    return StartLargePush(*state, first, count, values, options);
  }
  return StartPush(state, ByRange(*state, first, count, values), options);
}

absl::Status AwaitPush(TableState& state, Future<void> pushed) {
  // Committed only after the caller's own next tick: this call cannot wait for that.
  if (state.info->line() == Line::kAggregated && !pushed.ready()) return absl::OkStatus();
  const absl::Time began = world::MonotonicNow();
  absl::Status status = std::move(pushed).Get();
  state.client->With(
      [&](ClientCore& core) { core.waits().commit += absl::ToDoubleSeconds(world::MonotonicNow() - began); });
  return status;
}

absl::Status PushRange(const std::shared_ptr<TableState>& state, uint64_t first, uint64_t count,
                       absl::Span<const float> values, const PushOptions& options) {
  if (MayLend(*state, values, options)) return PushLent(state, first, count, values, options);
  // The background thread sends the first batches of a large range while this one copies the next.
  std::optional<BlockingCall> blocking;
  if (values.size() * sizeof(float) <= kAtOnceBytes) blocking.emplace(*state->client);
  return AwaitPush(*state, StartPushRange(state, first, count, values, options));
}

}  // namespace paceline::sdk
