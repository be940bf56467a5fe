// The client's work queues, and its clock while it is out of work.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/cpp/src/cache/cache_read.h"
#include "sdk/cpp/src/session/client_core.h"

namespace paceline::sdk {
namespace {

// Shorter than the wait that is reported to users: this one is not theirs.
constexpr absl::Duration kFollowTimeout = absl::Seconds(2);
// The only worker, or one whose slowest fellow is very fast, would do nothing but tick.
constexpr absl::Duration kFollowPause = absl::Milliseconds(2);
constexpr uint32_t kPassesInOrderLevel = 2;
// Without a table there is nothing to read the clocks from.
constexpr absl::Duration kFollowBlindly = absl::Milliseconds(100);

}  // namespace

void ClientCore::OpenWork(std::string name, const v1::WorkSpec& spec, absl::Duration ahead,
                          absl::AnyInvocable<void(absl::StatusOr<uint32_t>)> done) {
  auto opened = [this, name, spec, ahead, done = std::move(done)](absl::StatusOr<uint32_t> queue) mutable {
    if (queue.ok() && work_.contains(*queue)) {
      work_.at(*queue)->SetAhead(ahead);
    } else if (queue.ok()) {
      WorkClient::Work work{.name = name, .queue = *queue, .spec = spec, .ahead = ahead};
      work_[*queue] = std::make_unique<WorkClient>(context_, session_, pusher_, std::move(work));
    }
    context_.deferred.Tell(std::move(done), std::move(queue));
  };
  if (!context_.failure.ok()) return opened(context_.failure);
  // A coordinator of level 1 would hand out the items in any order.
  if (spec.passes_in_order() && context_.routes->map.feature_level() < kPassesInOrderLevel) {
    return opened(absl::UnimplementedError(absl::StrCat(
        "work queue '", name, "': passes_in_order needs a cluster of feature level ", kPassesInOrderLevel,
        ", this one has ", context_.routes->map.feature_level(), "; update its coordinators and shards")));
  }
  session_.OpenWork(name, spec, std::move(opened));
}

void ClientCore::LeaveWork(absl::Duration timeout, Done done) {
  struct Left {
    size_t waiting = 1;
    absl::Status first;
    Done done;
  };
  auto left = std::make_shared<Left>();
  left->done = std::move(done);
  left->waiting += work_.size();
  const auto one = [left, gate = context_.gate](absl::Status status) {
    bool last = false;
    gate->Enter([&] {
      if (left->first.ok()) left->first = std::move(status);
      last = --left->waiting == 0;
    });
    if (last) left->done(left->first);
  };
  for (auto& [queue, work] : work_) work->Leave(timeout, one);
  context_.deferred.Run([one] { one(absl::OkStatus()); });
}

bool ClientCore::OutOfWork() const {
  bool waiting = false;
  for (const auto& [queue, work] : work_) {
    if (work->busy()) return false;
    waiting |= work->waiting();
  }
  return waiting && context_.worker && CheckWritable("tick").ok();
}

void ClientCore::FollowClocks() {
  if (following_ || !OutOfWork()) return;
  following_ = true;
  const std::shared_ptr<const TableInfo> table = context_.any_table;
  if (table == nullptr) {
    context_.timers.At(context_.Now() + kFollowBlindly, [this] { OnFollowed(absl::OkStatus()); });
    return;
  }
  const std::vector<uint64_t> key = {0};
  const std::shared_ptr<const Batch> batch =
      GroupKeys(*context_.routes, table->placement, table->schema.dim, key, {}, AllocateFresh);
  auto row = std::make_shared<std::vector<float>>(table->schema.dim);
  auto sink = MakeReceiver(batch, row->data(), [this, gate = context_.gate, row](absl::Status status) {
    gate->Enter([&] { OnFollowed(status); });
  });
  Pull({.table = table, .batch = batch, .timeout = kFollowTimeout, .sink = std::move(sink)},
       context_.worker_clock);
}

void ClientCore::OnFollowed(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) context_.any_table = nullptr;  // it was dropped
  if (status.ok() && OutOfWork()) (void)Tick();
  context_.timers.At(context_.Now() + kFollowPause, [this] { following_ = false; });
}

}  // namespace paceline::sdk
