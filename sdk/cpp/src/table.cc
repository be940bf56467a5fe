#include "paceline/table.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "libs/table/admission.h"
#include "libs/world/real_clock.h"
#include "sdk/cpp/src/cache/cache_read.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/range_check.h"
#include "sdk/cpp/src/session/promise.h"
#include "sdk/cpp/src/table_state.h"

namespace paceline {
namespace {

using sdk::Batch;

absl::Status Named(const sdk::TableState& state, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(state.info->Name(), ": ", status.message())};
}

absl::Status CheckSize(uint64_t rows) {
  if (rows <= sdk::kBatchRowsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("keys: ", rows, " in one call; at most ", sdk::kBatchRowsMax,
                                                 " are taken; split the call"));
}

// Groups the rows of a call; null if the client is gone.
template <class Group>
std::shared_ptr<const Batch> GroupWith(const sdk::TableState& state, Group group) {
  const auto routes = state.client->routes();
  if (routes == nullptr) return nullptr;
  return group(*routes, [&](size_t bytes) { return state.client->Allocate(bytes); });
}

std::shared_ptr<const Batch> ByKeys(const sdk::TableState& state, absl::Span<const uint64_t> keys,
                                    absl::Span<const float> values) {
  return GroupWith(state, [&](const sdk::Routes& routes, sdk::Allocate allocate) {
    return GroupKeys(routes, state.info->placement, state.info->schema.dim, keys, values, allocate);
  });
}

std::shared_ptr<const Batch> ByRange(const sdk::TableState& state, uint64_t first, uint64_t count,
                                     absl::Span<const float> values) {
  return GroupWith(state, [&](const sdk::Routes& routes, sdk::Allocate allocate) {
    return GroupRange(routes, state.info->placement, state.info->schema.dim, first, count, values, allocate);
  });
}

// As its value bound counts it; null if there is no such bound.
std::shared_ptr<const sdk::WeighedPush> WeighedFor(const sdk::TableState& state, const Batch& batch) {
  if (!sdk::IsBounded(state.info->consistency)) return nullptr;
  return std::make_shared<const sdk::WeighedPush>(sdk::Weigh(*state.info, batch));
}

using StateOfPush = std::shared_ptr<internal::FutureState<absl::Status>>;

sdk::PushCall CallFor(const sdk::TableState& state, std::shared_ptr<const Batch> batch, uint32_t priority,
                      absl::Duration timeout, const StateOfPush& future) {
  return {.table = state.info,
          .batch = std::move(batch),
          .priority = priority,
          .timeout = timeout,
          .done = [future](absl::Status status) { future->Set(std::move(status)); }};
}

// Reserves room for the push now and makes it when `options.after` has ended.
Future<void> PushAfter(const std::shared_ptr<sdk::TableState>& state, std::shared_ptr<const Batch> batch,
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
        held, [&](sdk::ClientCore& core) { core.Push(CallFor(*state, batch, priority, timeout, future)); });
    entered ? future->Place() : void(future->Set(sdk::ClientState::GoneError()));
  });
  return Future<void>(std::move(future));
}

Future<void> StartPush(const std::shared_ptr<sdk::TableState>& state, std::shared_ptr<const Batch> batch,
                       const PushOptions& options) {
  if (batch == nullptr) return Future<void>::Ready(sdk::ClientState::GoneError());
  const absl::Duration timeout = options.timeout.value_or(state->client->options().timeout);
  const auto weighed = WeighedFor(*state, *batch);
  if (options.after.valid() && weighed != nullptr) {
    return Future<void>::Ready(Named(
        *state, absl::FailedPreconditionError("push: `after` does not go with Vap, whose bound may make the "
                                              "push wait; wait for the other operation, then push")));
  }
  if (options.after.valid()) return PushAfter(state, std::move(batch), options, timeout);
  const sdk::ClientState::Needed needed{.bytes = batch->Bytes(), .table = state->info, .weighed = weighed};
  auto future = std::make_shared<internal::FutureState<absl::Status>>();
  const absl::Status entered = state->client->WithRoom(needed, timeout, [&](sdk::ClientCore& core) {
    sdk::PushCall call = CallFor(*state, std::move(batch), options.priority, timeout, future);
    call.weighed = weighed;
    core.Push(std::move(call));
  });
  if (!entered.ok()) return Future<void>::Ready(entered);
  future->Place();
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
Future<void> StartLargePush(const sdk::TableState& state, uint64_t first, uint64_t count,
                            absl::Span<const float> values, const PushOptions& options) {
  const absl::Duration timeout = options.timeout.value_or(state.client->options().timeout);
  const auto routes = state.client->routes();
  if (routes == nullptr) return Future<void>::Ready(sdk::ClientState::GoneError());
  const absl::StatusOr<uint64_t> held = state.client->Hold(values.size() * sizeof(float), timeout);
  if (!held.ok()) return Future<void>::Ready(held.status());
  auto whole = std::make_shared<internal::FutureState<absl::Status>>();
  auto together = std::make_shared<Together>(whole);
  GroupRangeInBatches(
      *routes, state.info->placement, state.info->schema.dim, first, count, values,
      [&state](size_t bytes) { return state.client->Allocate(bytes); }, kAtOnceBytes,
      [&](std::shared_ptr<const Batch> batch) {
        together->Begin();
        const bool entered = state.client->With([&](sdk::ClientCore& core) {
          core.Push({.table = state.info,
                     .batch = std::move(batch),
                     .priority = options.priority,
                     .timeout = timeout,
                     .done = [together](const absl::Status& status) { together->End(status); }});
        });
        if (!entered) together->End(sdk::ClientState::GoneError());
      });
  state.client->Start(*held, [](sdk::ClientCore&) {});
  whole->Place();
  together->End(absl::OkStatus());
  return Future<void>(std::move(whole));
}

sdk::ReadCall ReadOf(const sdk::TableState& state, float* out, const PullOptions& options) {
  sdk::ReadCall call;
  call.table = state.info;
  call.out = out;
  call.min_clock = options.min_clock;
  call.priority = options.priority;
  call.timeout = options.timeout.value_or(state.client->options().timeout);
  return call;
}

sdk::ReadCall ReadOfKeys(const sdk::TableState& state, absl::Span<const uint64_t> keys, float* out,
                         const PullOptions& options) {
  sdk::ReadCall call = ReadOf(state, out, options);
  call.keys = keys;
  return call;
}

sdk::ReadCall ReadOfRange(const sdk::TableState& state, uint64_t first, uint64_t count, float* out,
                          const PullOptions& options) {
  sdk::ReadCall call = ReadOf(state, out, options);
  call.range = true;
  call.first = first;
  call.count = count;
  return call;
}

void StartPull(sdk::TableState& state, sdk::ReadCall call, absl::AnyInvocable<void(absl::Status)> ended) {
  call.ended = std::move(ended);
  sdk::ReadThroughCache(
      [client = state.client](absl::FunctionRef<void(sdk::ClientCore&)> inside) {
        return client->With(inside);
      },
      [client = state.client](size_t bytes) { return client->Allocate(bytes); },
      sdk::ClientState::GoneError(), std::move(call));
}

// `values` is what `call` writes to.
Future<std::vector<float>> StartPullOwned(sdk::TableState& state, std::shared_ptr<std::vector<float>> values,
                                          sdk::ReadCall call) {
  auto future = std::make_shared<internal::FutureState<absl::StatusOr<std::vector<float>>>>();
  StartPull(state, std::move(call), [future, values](absl::Status status) {
    if (status.ok()) {
      future->Set(std::move(*values));
    } else {
      future->Set(std::move(status));
    }
  });
  return Future<std::vector<float>>(std::move(future));
}

// Before the call is made, because the read's clock and own pushes are those of its start.
absl::Status AwaitBefore(const PullOptions& options) {
  return options.after.valid() ? options.after.Get() : absl::OkStatus();
}

absl::Status AwaitPull(sdk::TableState& state, sdk::ReadCall call) {
  if (internal::WaitingIsForbidden()) {
    return absl::FailedPreconditionError(
        "pull: blocks, and was called from a callback, whose thread it would wait for; use PullAsync");
  }
  const sdk::BlockingCall blocking(*state.client);
  auto future = std::make_shared<internal::FutureState<absl::Status>>();
  StartPull(state, std::move(call), [future](absl::Status status) { future->Set(std::move(status)); });
  return Future<void>(std::move(future)).Get();
}

Future<std::vector<float>> StartPushPull(sdk::TableState& state, std::shared_ptr<const Batch> batch,
                                         const PushPullOptions& options) {
  using Result = absl::StatusOr<std::vector<float>>;
  if (batch == nullptr) return Future<std::vector<float>>::Ready(sdk::ClientState::GoneError());
  const absl::Duration timeout = options.timeout.value_or(state.client->options().timeout);
  auto future = std::make_shared<internal::FutureState<Result>>();
  auto values = std::make_shared<std::vector<float>>(size_t{batch->rows} * batch->dim);
  const auto receiver = sdk::MakeReceiver(batch, values->data(), [future, values](absl::Status status) {
    future->Set(status.ok() ? Result(std::move(*values)) : Result(std::move(status)));
  });
  const sdk::ClientState::Needed needed{
      .bytes = batch->Bytes(), .table = state.info, .weighed = WeighedFor(state, *batch)};
  const absl::Status entered = state.client->WithRoom(needed, timeout, [&](sdk::ClientCore& core) {
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

absl::Status AwaitPush(sdk::TableState& state, Future<void> pushed) {
  // Committed only after the caller's own next tick: this call cannot wait for that.
  if (state.info->line() == Line::kAggregated && !pushed.ready()) return absl::OkStatus();
  const absl::Time began = world::MonotonicNow();
  absl::Status status = std::move(pushed).Get();
  state.client->With([&](sdk::ClientCore& core) {
    core.waits().commit += absl::ToDoubleSeconds(world::MonotonicNow() - began);
  });
  return status;
}

absl::Status CheckPush(const sdk::TableState& state, absl::Span<const uint64_t> keys,
                       absl::Span<const float> values) {
  if (absl::Status fits = CheckSize(keys.size()); !fits.ok()) return Named(state, fits);
  return Named(state, table::CheckUpdate(state.info->schema, keys, values));
}

absl::Status CheckPull(const sdk::TableState& state, absl::Span<const uint64_t> keys) {
  if (absl::Status fits = CheckSize(keys.size()); !fits.ok()) return Named(state, fits);
  return Named(state, table::CheckKeys(state.info->schema, keys));
}

absl::Status CheckRanged(const sdk::TableState& state) {
  if (state.info->placement.ranged()) return absl::OkStatus();
  return Named(state, absl::InvalidArgumentError(
                          "range: the table is sparse; expected a ranged one: push and pull by keys"));
}

absl::StatusOr<uint64_t> CheckPushRange(const sdk::TableState& state, uint64_t first,
                                        absl::Span<const float> values) {
  if (absl::Status ranged = CheckRanged(state); !ranged.ok()) return ranged;
  const uint32_t dim = state.info->schema.dim;
  if (values.size() % dim != 0) {
    return Named(
        state, absl::InvalidArgumentError(absl::StrCat(
                   "values: ", values.size(), " floats; expected a multiple of ", dim, ", the table's dim")));
  }
  const uint64_t count = values.size() / dim;
  if (absl::Status fits = CheckSize(count); !fits.ok()) return Named(state, fits);
  if (absl::Status valid = sdk::CheckLargeRange(state.info->schema, first, count, values); !valid.ok()) {
    return Named(state, valid);
  }
  return count;
}

absl::Status CheckPullRange(const sdk::TableState& state, uint64_t first, uint64_t count) {
  if (absl::Status ranged = CheckRanged(state); !ranged.ok()) return ranged;
  if (absl::Status fits = CheckSize(count); !fits.ok()) return Named(state, fits);
  return Named(state, table::CheckRange(state.info->schema, first, count));
}

absl::Status WrongRoom(const sdk::TableState& state, size_t has, uint64_t needs) {
  return Named(state, absl::InvalidArgumentError(absl::StrCat("out: room for ", has, " floats; expected ",
                                                              needs, ": dim of each row")));
}

}  // namespace

Table::Table(std::shared_ptr<sdk::TableState> state) : state_(std::move(state)) {}

const std::string& Table::name() const {
  return state_->info->name;
}
uint32_t Table::dim() const {
  return state_->info->schema.dim;
}
bool Table::ranged() const {
  return state_->info->placement.ranged();
}
uint64_t Table::rows() const {
  return state_->info->schema.rows;
}

Future<void> Table::PushAsync(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                              const PushOptions& options) {
  if (absl::Status valid = CheckPush(*state_, keys, values); !valid.ok())
    return Future<void>::Ready(std::move(valid));
  return StartPush(state_, ByKeys(*state_, keys, values), options);
}

absl::Status Table::Push(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                         const PushOptions& options) {
  const sdk::BlockingCall blocking(*state_->client);
  return AwaitPush(*state_, PushAsync(keys, values, options));
}

Future<std::vector<float>> Table::PushPullAsync(absl::Span<const uint64_t> keys,
                                                absl::Span<const float> values,
                                                const PushPullOptions& options) {
  if (absl::Status valid = CheckPush(*state_, keys, values); !valid.ok()) {
    return Future<std::vector<float>>::Ready(std::move(valid));
  }
  return StartPushPull(*state_, ByKeys(*state_, keys, values), options);
}

absl::StatusOr<std::vector<float>> Table::PushPull(absl::Span<const uint64_t> keys,
                                                   absl::Span<const float> values,
                                                   const PushPullOptions& options) {
  if (internal::WaitingIsForbidden()) {
    return absl::FailedPreconditionError(
        "push_pull: blocks, and was called from a callback, whose thread it would wait for; use "
        "PushPullAsync");
  }
  const sdk::BlockingCall blocking(*state_->client);
  return PushPullAsync(keys, values, options).Get();
}

Future<std::vector<float>> Table::PullAsync(absl::Span<const uint64_t> keys, const PullOptions& options) {
  if (absl::Status valid = CheckPull(*state_, keys); !valid.ok()) {
    return Future<std::vector<float>>::Ready(std::move(valid));
  }
  if (options.after.valid()) {
    PullOptions then = options;
    then.after = {};
    return options.after.AndThen([table = *this, own = std::vector<uint64_t>(keys.begin(), keys.end()),
                                  then = std::move(then)] { return Table(table).PullAsync(own, then); });
  }
  auto values = std::make_shared<std::vector<float>>(keys.size() * dim());
  return StartPullOwned(*state_, values, ReadOfKeys(*state_, keys, values->data(), options));
}

absl::StatusOr<std::vector<float>> Table::Pull(absl::Span<const uint64_t> keys, const PullOptions& options) {
  std::vector<float> values(keys.size() * dim());
  if (absl::Status pulled = Pull(keys, absl::MakeSpan(values), options); !pulled.ok()) return pulled;
  return values;
}

absl::Status Table::Pull(absl::Span<const uint64_t> keys, absl::Span<float> out, const PullOptions& options) {
  if (absl::Status valid = CheckPull(*state_, keys); !valid.ok()) return valid;
  if (out.size() != keys.size() * dim()) return WrongRoom(*state_, out.size(), keys.size() * dim());
  if (absl::Status before = AwaitBefore(options); !before.ok()) return before;
  return AwaitPull(*state_, ReadOfKeys(*state_, keys, out.data(), options));
}

Future<void> Table::PushRangeAsync(uint64_t first, absl::Span<const float> values,
                                   const PushOptions& options) {
  const absl::StatusOr<uint64_t> count = CheckPushRange(*state_, first, values);
  if (!count.ok()) return Future<void>::Ready(count.status());
  // A value bound judges a push as a whole.
  const bool bounded = sdk::IsBounded(state_->info->consistency);
  if (values.size() * sizeof(float) > kAtOnceBytes && !options.after.valid() && !bounded) {
    return StartLargePush(*state_, first, *count, values, options);
  }
  return StartPush(state_, ByRange(*state_, first, *count, values), options);
}

absl::Status Table::PushRange(uint64_t first, absl::Span<const float> values, const PushOptions& options) {
  // The background thread sends the first batches of a large range while this one copies the next.
  std::optional<sdk::BlockingCall> blocking;
  if (values.size() * sizeof(float) <= kAtOnceBytes) blocking.emplace(*state_->client);
  return AwaitPush(*state_, PushRangeAsync(first, values, options));
}

Future<std::vector<float>> Table::PullRangeAsync(uint64_t first, uint64_t count, const PullOptions& options) {
  if (absl::Status valid = CheckPullRange(*state_, first, count); !valid.ok()) {
    return Future<std::vector<float>>::Ready(std::move(valid));
  }
  if (options.after.valid()) {
    PullOptions then = options;
    then.after = {};
    return options.after.AndThen([table = *this, first, count, then = std::move(then)] {
      return Table(table).PullRangeAsync(first, count, then);
    });
  }
  auto values = std::make_shared<std::vector<float>>(count * dim());
  return StartPullOwned(*state_, values, ReadOfRange(*state_, first, count, values->data(), options));
}

absl::StatusOr<std::vector<float>> Table::PullRange(uint64_t first, uint64_t count,
                                                    const PullOptions& options) {
  if (absl::Status valid = CheckPullRange(*state_, first, count); !valid.ok()) return valid;
  std::vector<float> values(count * dim());
  if (absl::Status pulled = PullRange(first, absl::MakeSpan(values), options); !pulled.ok()) return pulled;
  return values;
}

absl::Status Table::PullRange(uint64_t first, absl::Span<float> out, const PullOptions& options) {
  if (out.size() % dim() != 0) return WrongRoom(*state_, out.size(), (out.size() / dim() + 1) * dim());
  const uint64_t count = out.size() / dim();
  if (absl::Status valid = CheckPullRange(*state_, first, count); !valid.ok()) return valid;
  if (absl::Status before = AwaitBefore(options); !before.ok()) return before;
  return AwaitPull(*state_, ReadOfRange(*state_, first, count, out.data(), options));
}

}  // namespace paceline
