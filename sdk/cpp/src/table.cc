#include "paceline/table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/table/admission.h"
#include "sdk/cpp/src/cache/cache_read.h"
#include "sdk/cpp/src/push/listed_keys.h"
#include "sdk/cpp/src/range_check.h"
#include "sdk/cpp/src/session/promise.h"
#include "sdk/cpp/src/table_push.h"

namespace paceline {
namespace {

absl::Status CheckSize(uint64_t rows) {
  if (rows <= sdk::kBatchRowsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("keys: ", rows, " in one call; at most ", sdk::kBatchRowsMax,
                                                 " are taken; split the call"));
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

sdk::ReadCall ReadOfKeys(const sdk::TableState& state, const KeyList& keys, float* out,
                         const PullOptions& options) {
  sdk::ReadCall call = ReadOf(state, out, options);
  call.keys = keys.listed()->keys();
  call.listed = keys.listed();
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

// Into memory of the caller.
Future<void> StartPullInto(sdk::TableState& state, sdk::ReadCall call) {
  auto future = std::make_shared<internal::FutureState<absl::Status>>();
  StartPull(state, std::move(call), [future](absl::Status status) { future->Set(std::move(status)); });
  return Future<void>(std::move(future));
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
  return StartPullInto(state, std::move(call)).Get();
}

absl::Status CheckList(const sdk::TableState& state, const KeyList& list) {
  if (list.listed() != nullptr && list.listed()->Of(state.info->placement, state.info->schema.dim)) {
    return absl::OkStatus();
  }
  return state.Named(absl::InvalidArgumentError(
      "keys: the list is of another table; make one with this table's MakeKeyList"));
}

absl::Status CheckKeys(const sdk::TableState& state, absl::Span<const uint64_t> keys) {
  if (absl::Status fits = CheckSize(keys.size()); !fits.ok()) return state.Named(fits);
  return state.Named(table::CheckKeys(state.info->schema, keys));
}
absl::Status CheckKeys(const sdk::TableState& state, const KeyList& keys) {
  return CheckList(state, keys);
}

absl::Status CheckPush(const sdk::TableState& state, absl::Span<const uint64_t> keys,
                       absl::Span<const float> values) {
  if (absl::Status fits = CheckSize(keys.size()); !fits.ok()) return state.Named(fits);
  return state.Named(table::CheckUpdate(state.info->schema, keys, values));
}
absl::Status CheckPush(const sdk::TableState& state, const KeyList& keys, absl::Span<const float> values) {
  if (absl::Status ours = CheckList(state, keys); !ours.ok()) return ours;
  return state.Named(table::CheckValues(state.info->schema, keys.size(), values));
}

absl::Status CheckRanged(const sdk::TableState& state) {
  if (state.info->placement.ranged()) return absl::OkStatus();
  return state.Named(
      absl::InvalidArgumentError("range: the table is sparse; expected a ranged one: push and pull by keys"));
}

absl::StatusOr<uint64_t> CheckPushRange(const sdk::TableState& state, uint64_t first,
                                        absl::Span<const float> values) {
  if (absl::Status ranged = CheckRanged(state); !ranged.ok()) return ranged;
  const uint32_t dim = state.info->schema.dim;
  if (values.size() % dim != 0) {
    return state.Named(absl::InvalidArgumentError(absl::StrCat(
        "values: ", values.size(), " floats; expected a multiple of ", dim, ", the table's dim")));
  }
  const uint64_t count = values.size() / dim;
  if (absl::Status fits = CheckSize(count); !fits.ok()) return state.Named(fits);
  if (absl::Status valid = sdk::CheckLargeRange(state.info->schema, first, count, values); !valid.ok()) {
    return state.Named(valid);
  }
  return count;
}

absl::Status CheckPullRange(const sdk::TableState& state, uint64_t first, uint64_t count) {
  if (absl::Status ranged = CheckRanged(state); !ranged.ok()) return ranged;
  if (absl::Status fits = CheckSize(count); !fits.ok()) return state.Named(fits);
  return state.Named(table::CheckRange(state.info->schema, first, count));
}

absl::Status WrongRoom(const sdk::TableState& state, size_t has, uint64_t needs) {
  return state.Named(absl::InvalidArgumentError(
      absl::StrCat("out: room for ", has, " floats; expected ", needs, ": dim of each row")));
}

// `keys`: a span, or a list.
template <class Keys>
absl::Status CheckPull(const sdk::TableState& state, const Keys& keys, absl::Span<const float> out) {
  if (absl::Status valid = CheckKeys(state, keys); !valid.ok()) return valid;
  const uint64_t needed = keys.size() * state.info->schema.dim;
  return out.size() == needed ? absl::OkStatus() : WrongRoom(state, out.size(), needed);
}

// The rows that find room in `out`.
absl::StatusOr<uint64_t> CheckPullRange(const sdk::TableState& state, uint64_t first,
                                        absl::Span<const float> out) {
  const uint32_t dim = state.info->schema.dim;
  if (out.size() % dim != 0) return WrongRoom(state, out.size(), (out.size() / dim + 1) * dim);
  const uint64_t count = out.size() / dim;
  if (absl::Status valid = CheckPullRange(state, first, count); !valid.ok()) return valid;
  return count;
}

// The keys of a pull that starts later.
std::vector<uint64_t> ToKeep(absl::Span<const uint64_t> keys) {
  return {keys.begin(), keys.end()};
}
KeyList ToKeep(const KeyList& keys) {
  return keys;
}

// `keys`, here and below: a span, or a list.
template <class Keys>
Future<std::vector<float>> StartPullOfKeys(const std::shared_ptr<sdk::TableState>& state, const Keys& keys,
                                           const PullOptions& options) {
  if (absl::Status valid = CheckKeys(*state, keys); !valid.ok()) {
    return Future<std::vector<float>>::Ready(std::move(valid));
  }
  if (options.after.valid()) {
    PullOptions then = options;
    then.after = {};
    return options.after.AndThen(
        [state, own = ToKeep(keys), then = std::move(then)] { return Table(state).PullAsync(own, then); });
  }
  auto values = std::make_shared<std::vector<float>>(keys.size() * state->info->schema.dim);
  return StartPullOwned(*state, values, ReadOfKeys(*state, keys, values->data(), options));
}

template <class Keys>
Future<void> StartPullOfKeys(const std::shared_ptr<sdk::TableState>& state, const Keys& keys,
                             absl::Span<float> out, const PullOptions& options) {
  if (absl::Status valid = CheckPull(*state, keys, out); !valid.ok())
    return Future<void>::Ready(std::move(valid));
  if (options.after.valid()) {
    PullOptions then = options;
    then.after = {};
    return options.after.AndThen([state, own = ToKeep(keys), out, then = std::move(then)] {
      return Table(state).PullAsync(own, out, then);
    });
  }
  return StartPullInto(*state, ReadOfKeys(*state, keys, out.data(), options));
}

template <class Keys>
absl::Status PullOfKeys(sdk::TableState& state, const Keys& keys, absl::Span<float> out,
                        const PullOptions& options) {
  if (absl::Status valid = CheckPull(state, keys, out); !valid.ok()) return valid;
  if (absl::Status before = AwaitBefore(options); !before.ok()) return before;
  return AwaitPull(state, ReadOfKeys(state, keys, out.data(), options));
}

template <class Keys>
absl::StatusOr<std::vector<float>> PullOfKeys(sdk::TableState& state, const Keys& keys,
                                              const PullOptions& options) {
  std::vector<float> values(keys.size() * state.info->schema.dim);
  if (absl::Status pulled = PullOfKeys(state, keys, absl::MakeSpan(values), options); !pulled.ok()) {
    return pulled;
  }
  return values;
}

template <class Start>
absl::StatusOr<std::vector<float>> AwaitPushPull(sdk::TableState& state, const Start& start) {
  if (internal::WaitingIsForbidden()) {
    return absl::FailedPreconditionError(
        "push_pull: blocks, and was called from a callback, whose thread it would wait for; use "
        "PushPullAsync");
  }
  const sdk::BlockingCall blocking(*state.client);
  return start().Get();
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
  return sdk::StartPush(state_, sdk::ByKeys(*state_, keys, values), options);
}

Future<void> Table::PushAsync(const KeyList& keys, absl::Span<const float> values,
                              const PushOptions& options) {
  if (absl::Status valid = CheckPush(*state_, keys, values); !valid.ok())
    return Future<void>::Ready(std::move(valid));
  return sdk::StartPush(state_, sdk::ByList(*state_, *keys.listed(), values, /*reads_back=*/false), options);
}

absl::Status Table::Push(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                         const PushOptions& options) {
  const sdk::BlockingCall blocking(*state_->client);
  return sdk::AwaitPush(*state_, PushAsync(keys, values, options));
}

absl::Status Table::Push(const KeyList& keys, absl::Span<const float> values, const PushOptions& options) {
  const sdk::BlockingCall blocking(*state_->client);
  return sdk::AwaitPush(*state_, PushAsync(keys, values, options));
}

Future<std::vector<float>> Table::PushPullAsync(absl::Span<const uint64_t> keys,
                                                absl::Span<const float> values,
                                                const PushPullOptions& options) {
  if (absl::Status valid = CheckPush(*state_, keys, values); !valid.ok()) {
    return Future<std::vector<float>>::Ready(std::move(valid));
  }
  return sdk::StartPushPull(*state_, sdk::ByKeys(*state_, keys, values), options);
}

Future<std::vector<float>> Table::PushPullAsync(const KeyList& keys, absl::Span<const float> values,
                                                const PushPullOptions& options) {
  if (absl::Status valid = CheckPush(*state_, keys, values); !valid.ok()) {
    return Future<std::vector<float>>::Ready(std::move(valid));
  }
  return sdk::StartPushPull(*state_, sdk::ByList(*state_, *keys.listed(), values, /*reads_back=*/true),
                            options);
}

absl::StatusOr<std::vector<float>> Table::PushPull(absl::Span<const uint64_t> keys,
                                                   absl::Span<const float> values,
                                                   const PushPullOptions& options) {
  return AwaitPushPull(*state_, [&] { return PushPullAsync(keys, values, options); });
}

absl::StatusOr<std::vector<float>> Table::PushPull(const KeyList& keys, absl::Span<const float> values,
                                                   const PushPullOptions& options) {
  return AwaitPushPull(*state_, [&] { return PushPullAsync(keys, values, options); });
}

Future<std::vector<float>> Table::PullAsync(absl::Span<const uint64_t> keys, const PullOptions& options) {
  return StartPullOfKeys(state_, keys, options);
}
Future<std::vector<float>> Table::PullAsync(const KeyList& keys, const PullOptions& options) {
  return StartPullOfKeys(state_, keys, options);
}

Future<void> Table::PullAsync(absl::Span<const uint64_t> keys, absl::Span<float> out,
                              const PullOptions& options) {
  return StartPullOfKeys(state_, keys, out, options);
}
Future<void> Table::PullAsync(const KeyList& keys, absl::Span<float> out, const PullOptions& options) {
  return StartPullOfKeys(state_, keys, out, options);
}

absl::StatusOr<std::vector<float>> Table::Pull(absl::Span<const uint64_t> keys, const PullOptions& options) {
  return PullOfKeys(*state_, keys, options);
}
absl::StatusOr<std::vector<float>> Table::Pull(const KeyList& keys, const PullOptions& options) {
  return PullOfKeys(*state_, keys, options);
}

absl::Status Table::Pull(absl::Span<const uint64_t> keys, absl::Span<float> out, const PullOptions& options) {
  return PullOfKeys(*state_, keys, out, options);
}
absl::Status Table::Pull(const KeyList& keys, absl::Span<float> out, const PullOptions& options) {
  return PullOfKeys(*state_, keys, out, options);
}

absl::StatusOr<KeyList> Table::MakeKeyList(absl::Span<const uint64_t> keys) const {
  if (absl::Status valid = CheckKeys(*state_, keys); !valid.ok()) return valid;
  return KeyList(
      std::make_shared<const sdk::ListedKeys>(state_->info->placement, state_->info->schema.dim, keys),
      KeyList::OfTable());
}

Future<void> Table::PushRangeAsync(uint64_t first, absl::Span<const float> values,
                                   const PushOptions& options) {
  const absl::StatusOr<uint64_t> count = CheckPushRange(*state_, first, values);
  if (!count.ok()) return Future<void>::Ready(count.status());
  return sdk::StartPushRange(state_, first, *count, values, options);
}

absl::Status Table::PushRange(uint64_t first, absl::Span<const float> values, const PushOptions& options) {
  const absl::StatusOr<uint64_t> count = CheckPushRange(*state_, first, values);
  if (!count.ok()) return count.status();
  return sdk::PushRange(state_, first, *count, values, options);
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

Future<void> Table::PullRangeAsync(uint64_t first, absl::Span<float> out, const PullOptions& options) {
  const absl::StatusOr<uint64_t> count = CheckPullRange(*state_, first, out);
  if (!count.ok()) return Future<void>::Ready(count.status());
  if (options.after.valid()) {
    PullOptions then = options;
    then.after = {};
    return options.after.AndThen([table = *this, first, out, then = std::move(then)] {
      return Table(table).PullRangeAsync(first, out, then);
    });
  }
  return StartPullInto(*state_, ReadOfRange(*state_, first, *count, out.data(), options));
}

absl::StatusOr<std::vector<float>> Table::PullRange(uint64_t first, uint64_t count,
                                                    const PullOptions& options) {
  if (absl::Status valid = CheckPullRange(*state_, first, count); !valid.ok()) return valid;
  std::vector<float> values(count * dim());
  if (absl::Status pulled = PullRange(first, absl::MakeSpan(values), options); !pulled.ok()) return pulled;
  return values;
}

absl::Status Table::PullRange(uint64_t first, absl::Span<float> out, const PullOptions& options) {
  const absl::StatusOr<uint64_t> count = CheckPullRange(*state_, first, out);
  if (!count.ok()) return count.status();
  if (absl::Status before = AwaitBefore(options); !before.ok()) return before;
  return AwaitPull(*state_, ReadOfRange(*state_, first, *count, out.data(), options));
}

}  // namespace paceline
