#include "paceline/table.h"

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "libs/table/admission.h"
#include "sdk/cpp/src/batch.h"
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

// Takes the rows of one pull to their places, in memory of the caller's or its own. When the pull has ended
// with an error nothing is written any more: the memory may be gone.
class Receiver : public sdk::PullSink {
 public:
  using Ended = absl::AnyInvocable<void(absl::Status)>;
  // `out` has room for all rows of the batch.
  Receiver(std::shared_ptr<const Batch> batch, float* out, Ended ended)
      : batch_(std::move(batch)), out_(out), rows_left_(batch_->rows), ended_(std::move(ended)) {}

  void Rows(const Batch::Piece& piece, const absl::Cord& values) override {
    Ended ended;
    {
      absl::MutexLock lock(&mutex_);
      if (!ended_) return;
      Scatter(*batch_, piece, values, out_);
      rows_left_ -= piece.rows;
      if (!done_ || rows_left_ > 0) return;
      ended = std::exchange(ended_, nullptr);
    }
    ended(absl::OkStatus());
  }

  void Done(absl::Status status) override {
    Ended ended;
    {
      absl::MutexLock lock(&mutex_);
      done_ = true;
      if (!ended_ || (status.ok() && rows_left_ > 0)) return;
      ended = std::exchange(ended_, nullptr);
    }
    ended(std::move(status));
  }

 private:
  const std::shared_ptr<const Batch> batch_;
  float* const out_;
  absl::Mutex mutex_;
  uint64_t rows_left_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  Ended ended_ ABSL_GUARDED_BY(mutex_);  // null: was called
};

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

Future<void> StartPush(sdk::TableState& state, std::shared_ptr<const Batch> batch,
                       const PushOptions& options) {
  if (batch == nullptr) return Future<void>::Ready(sdk::ClientState::GoneError());
  const absl::Duration timeout = options.timeout.value_or(state.client->options().timeout);
  if (absl::Status room = state.client->AwaitRoom(batch->Bytes(), timeout); !room.ok()) {
    return Future<void>::Ready(std::move(room));
  }
  auto future = std::make_shared<internal::FutureState<absl::Status>>();
  const bool entered = state.client->With([&](sdk::ClientCore& core) {
    core.Push({.table = state.info,
               .batch = std::move(batch),
               .priority = options.priority,
               .timeout = timeout,
               .done = [future](absl::Status status) { future->Set(std::move(status)); }});
  });
  if (!entered) future->Set(sdk::ClientState::GoneError());
  return Future<void>(std::move(future));
}

void StartPull(sdk::TableState& state, std::shared_ptr<const Batch> batch, float* out,
               const PullOptions& options, Receiver::Ended ended) {
  if (batch == nullptr) return ended(sdk::ClientState::GoneError());
  auto receiver = std::make_shared<Receiver>(batch, out, std::move(ended));
  const bool entered = state.client->With([&](sdk::ClientCore& core) {
    core.Pull({.table = state.info,
               .batch = std::move(batch),
               .priority = options.priority,
               .timeout = options.timeout.value_or(state.client->options().timeout),
               .sink = receiver},
              options.min_clock);
  });
  if (!entered) receiver->Done(sdk::ClientState::GoneError());
}

Future<std::vector<float>> StartPullOwned(sdk::TableState& state, std::shared_ptr<const Batch> batch,
                                          uint64_t rows, const PullOptions& options) {
  auto future = std::make_shared<internal::FutureState<absl::StatusOr<std::vector<float>>>>();
  auto values = std::make_shared<std::vector<float>>(rows * state.info->schema.dim);
  StartPull(state, std::move(batch), values->data(), options, [future, values](absl::Status status) {
    if (status.ok()) {
      future->Set(std::move(*values));
    } else {
      future->Set(std::move(status));
    }
  });
  return Future<std::vector<float>>(std::move(future));
}

absl::Status AwaitPull(sdk::TableState& state, std::shared_ptr<const Batch> batch, float* out,
                       const PullOptions& options) {
  if (internal::WaitingIsForbidden()) {
    return absl::FailedPreconditionError(
        "pull: blocks, and was called from a callback, whose thread it would wait for; use PullAsync");
  }
  auto future = std::make_shared<internal::FutureState<absl::Status>>();
  StartPull(state, std::move(batch), out, options,
            [future](absl::Status status) { future->Set(std::move(status)); });
  return Future<void>(std::move(future)).Get();
}

absl::Status AwaitPush(sdk::TableState& state, Future<void> pushed) {
  const absl::Time began = absl::Now();
  absl::Status status = std::move(pushed).Get();
  state.client->With(
      [&](sdk::ClientCore& core) { core.waits().commit += absl::ToDoubleSeconds(absl::Now() - began); });
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
  return Named(state, absl::InvalidArgumentError("range: the table is sparse; push and pull by keys"));
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
  if (absl::Status valid = table::CheckRangeUpdate(state.info->schema, first, count, values); !valid.ok()) {
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
  return StartPush(*state_, ByKeys(*state_, keys, values), options);
}

absl::Status Table::Push(absl::Span<const uint64_t> keys, absl::Span<const float> values,
                         const PushOptions& options) {
  return AwaitPush(*state_, PushAsync(keys, values, options));
}

Future<std::vector<float>> Table::PullAsync(absl::Span<const uint64_t> keys, const PullOptions& options) {
  if (absl::Status valid = CheckPull(*state_, keys); !valid.ok()) {
    return Future<std::vector<float>>::Ready(std::move(valid));
  }
  return StartPullOwned(*state_, ByKeys(*state_, keys, {}), keys.size(), options);
}

absl::StatusOr<std::vector<float>> Table::Pull(absl::Span<const uint64_t> keys, const PullOptions& options) {
  std::vector<float> values(keys.size() * dim());
  if (absl::Status pulled = Pull(keys, absl::MakeSpan(values), options); !pulled.ok()) return pulled;
  return values;
}

absl::Status Table::Pull(absl::Span<const uint64_t> keys, absl::Span<float> out, const PullOptions& options) {
  if (absl::Status valid = CheckPull(*state_, keys); !valid.ok()) return valid;
  if (out.size() != keys.size() * dim()) return WrongRoom(*state_, out.size(), keys.size() * dim());
  return AwaitPull(*state_, ByKeys(*state_, keys, {}), out.data(), options);
}

Future<void> Table::PushRangeAsync(uint64_t first, absl::Span<const float> values,
                                   const PushOptions& options) {
  const absl::StatusOr<uint64_t> count = CheckPushRange(*state_, first, values);
  if (!count.ok()) return Future<void>::Ready(count.status());
  return StartPush(*state_, ByRange(*state_, first, *count, values), options);
}

absl::Status Table::PushRange(uint64_t first, absl::Span<const float> values, const PushOptions& options) {
  return AwaitPush(*state_, PushRangeAsync(first, values, options));
}

Future<std::vector<float>> Table::PullRangeAsync(uint64_t first, uint64_t count, const PullOptions& options) {
  if (absl::Status valid = CheckPullRange(*state_, first, count); !valid.ok()) {
    return Future<std::vector<float>>::Ready(std::move(valid));
  }
  return StartPullOwned(*state_, ByRange(*state_, first, count, {}), count, options);
}

absl::StatusOr<std::vector<float>> Table::PullRange(uint64_t first, uint64_t count,
                                                    const PullOptions& options) {
  if (absl::Status valid = CheckPullRange(*state_, first, count); !valid.ok()) return valid;
  std::vector<float> values(count * dim());
  if (absl::Status pulled = AwaitPull(*state_, ByRange(*state_, first, count, {}), values.data(), options);
      !pulled.ok()) {
    return pulled;
  }
  return values;
}

absl::Status Table::PullRange(uint64_t first, absl::Span<float> out, const PullOptions& options) {
  if (out.size() % dim() != 0) return WrongRoom(*state_, out.size(), (out.size() / dim() + 1) * dim());
  const uint64_t count = out.size() / dim();
  if (absl::Status valid = CheckPullRange(*state_, first, count); !valid.ok()) return valid;
  return AwaitPull(*state_, ByRange(*state_, first, count, {}), out.data(), options);
}

}  // namespace paceline
