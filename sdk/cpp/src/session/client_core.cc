#include "sdk/cpp/src/session/client_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/clock/consistency.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {

ClientCore::ClientCore(Session::Options options, CoordinatorApi& coordinator, world::Dialer& dialer,
                       const world::Clock& clock, world::Random& random, std::shared_ptr<Gate> gate,
                       uint64_t cache_bytes_max, uint64_t cache_trial_rows)
    : context_(clock, random, dialer, std::move(gate), cache_bytes_max, cache_trial_rows,
               options.slice_bytes),
      bounds_(context_),
      filters_(context_),
      pusher_(context_),
      puller_(context_, pusher_),
      subscriber_(context_),
      session_(context_, coordinator, std::move(options),
               [this](std::shared_ptr<const Routes> routes) { InstallRoutes(std::move(routes)); }) {
  context_.puller = &puller_;
  context_.bounds = &bounds_;
  context_.filters = &filters_;
  context_.send_held_back = [this] { SendHeldBack(); };
  bounds_.on_readable = [this] { puller_.OnReadable(); };
  context_.fail = [this](absl::Status why) {
    if (!context_.failure.ok()) return;
    context_.history.Failed(why);
    context_.failure = std::move(why);
  };
  context_.exact_read_ended = [this] { OnExactReadEnded(); };
  context_.want_map = [this](MapVersion version) { session_.WantMap(version); };
}

ClientCore::~ClientCore() {
  // Outside references to the core find the gate closed; its own tasks go with the timers.
  context_.timers.Clear();
}

void ClientCore::RecordTo(history::Sink* sink) {
  context_.history.RecordTo(sink);
  context_.cache.Watch(&context_.history);
}

void ClientCore::Open(Done done) {
  session_.Open(std::move(done));
}

void ClientCore::InstallRoutes(std::shared_ptr<const Routes> routes) {
  context_.routes = std::move(routes);
  pusher_.OnMap();
  puller_.OnMap();
  subscriber_.OnMap();
}

absl::Status ClientCore::CheckWritable(absl::string_view what) const {
  if (!context_.failure.ok()) return context_.failure;
  if (context_.finished || finishing_ || sealed_) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, ": this worker has finished; connect again for more work"));
  }
  return absl::OkStatus();
}

absl::Status ClientCore::CheckMayFinish() const {
  if (!context_.failure.ok()) return context_.failure;
  if (!context_.worker) {
    return absl::FailedPreconditionError("finish: this client has no clock to leave; call Flush");
  }
  if (context_.finished || finishing_) {
    return absl::FailedPreconditionError("finish: this worker has finished, or is about to");
  }
  return absl::OkStatus();
}

absl::Status ClientCore::CheckMayPush(const TableInfo& table) const {
  if (absl::Status writable = CheckWritable("push"); !writable.ok()) return writable;
  if (table.line() == Line::kArrival || context_.worker) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("push to ", table.Name(),
                   ": it is aggregated once per clock, and this client has no clock; connect with "
                   "ClientOptions::workers of 1 or more"));
}

void ClientCore::Push(PushCall call) {
  if (absl::Status may = CheckMayPush(*call.table); !may.ok()) {
    return context_.deferred.Tell(std::move(call.done), std::move(may));
  }
  call.batch = filters_.Take(call.table, std::move(call.batch));
  const std::shared_ptr<const TableInfo> table = call.table;
  const std::shared_ptr<const Batch> batch = call.batch;
  std::shared_ptr<const WeighedPush> weighed = std::move(call.weighed);
  const bool late = Pusher::IsLate(call);
  pusher_.Push(std::move(call));
  late ? context_.cache.OnLatePush(*table) : TellCache(*table, *batch);
  CountPushed(*table, *batch, std::move(weighed));
}

void ClientCore::SendHeldBack() {
  if (!CheckWritable("push").ok()) return;
  for (const PushFilters::HeldBack& held : filters_.TakeAll()) {
    pusher_.Push({.table = held.table, .batch = held.batch, .done = [](const absl::Status&) {}});
    TellCache(*held.table, *held.batch);
  }
}

void ClientCore::CountPushed(const TableInfo& table, const Batch& batch,
                             std::shared_ptr<const WeighedPush> weighed) {
  if (!IsBounded(table.consistency)) return;
  if (weighed == nullptr) weighed = std::make_shared<const WeighedPush>(Weigh(table, batch));
  bounds_.Pushed(table, *weighed, [this](SegmentId s) { return pusher_.Last(s, Line::kArrival); });
}

std::vector<PartNumber> ClientCore::NumbersOf(const Batch& batch, Line line) const {
  // Pieces of one segment lie side by side, and their numbers follow each other.
  std::vector<PartNumber> numbers(batch.pieces.size());
  for (size_t i = numbers.size(); i-- > 0;) {
    const bool last = i + 1 == numbers.size() || batch.pieces[i + 1].segment != batch.pieces[i].segment;
    numbers[i] = last ? pusher_.Last(batch.pieces[i].segment, line) : numbers[i + 1] - 1;
  }
  return numbers;
}

// The cache has the push before any read can begin.
void ClientCore::TellCache(const TableInfo& table, const Batch& batch) {
  if (!context_.cache.enabled() || table.line() != Line::kArrival) return;
  const std::vector<PartNumber> numbers = NumbersOf(batch, Line::kArrival);
  for (size_t i = 0; i < numbers.size(); ++i) {
    context_.cache.OnPush(table, batch, batch.pieces[i], numbers[i]);
  }
}

void ClientCore::PushPull(PushCall push, PullCall read, std::optional<Clock> min_clock, bool next_clock) {
  absl::Status may = CheckMayPush(*push.table);
  if (may.ok() && next_clock && !context_.worker) {
    may = absl::FailedPreconditionError("push_pull: next_clock: this client has no clock");
  }
  if (!may.ok()) {
    context_.deferred.Run([sink = std::move(read.sink), may] { sink->Done(may); });
    return;
  }
  const Clock reader = context_.worker_clock + (next_clock ? 1 : 0);
  ApplyRules(read, RulesOf(*read.table, min_clock, reader));
  const std::shared_ptr<const TableInfo> table = push.table;
  const std::shared_ptr<const Batch> batch = push.batch;
  std::shared_ptr<const WeighedPush> weighed = std::move(push.weighed);
  const std::shared_ptr<PullOp> op = puller_.PullWithPush(std::move(read), reader);
  push.read = op;
  const std::shared_ptr<const TableInfo> read_table = op->call.table;
  push.done = [this, gate = context_.gate, op](absl::Status status) {
    if (status.ok()) return;
    gate->Enter([&] { puller_.OnPushFailed(*op, status); });
  };
  pusher_.Push(std::move(push));
  op->call.read = context_.history.ReadBegun(*read_table, reader, min_clock);
  if (table->line() == Line::kArrival) {
    const std::vector<PartNumber> numbers = NumbersOf(*batch, Line::kArrival);
    for (size_t i = 0; i < numbers.size(); ++i) op->parts[i].own = numbers[i];
  }
  TellCache(*table, *batch);
  CountPushed(*table, *batch, std::move(weighed));
}

void ClientCore::Pull(PullCall call, std::optional<Clock> min_clock) {
  if (!context_.failure.ok()) {
    context_.deferred.Run([sink = std::move(call.sink), why = context_.failure] { sink->Done(why); });
    return;
  }
  const Clock reader = call.reader.value_or(context_.worker_clock);
  ApplyRules(call, RulesOf(*call.table, min_clock, reader));
  if (!min_clock.has_value()) call.min_clock = std::max(call.min_clock, CatchUp(*call.table, reader));
  if (!call.changes) call.read = context_.history.ReadBegun(*call.table, reader, min_clock);
  puller_.Pull(std::move(call));
}

// With a bound that only just suits this clock, the cache would be useless and the next clock would wait
// again. A worker that is this far ahead waits for several clocks at once, if its table says so.
Clock ClientCore::CatchUp(const TableInfo& table, Clock reader) const {
  const Promise promise = PromiseOf(table.consistency);
  if (!promise.staleness.has_value() || !promise.catch_up.has_value() || !context_.worker) return 0;
  if (reader < puller_.newest_min_clock() + *context_.changes.StalenessOf(table, promise, reader)) return 0;
  return clock::MinClockFor(*context_.changes.CatchUpOf(table, promise, reader), reader);
}

void ClientCore::ApplyRules(PullCall& call, const ReadRules& rules) {
  // What follows a look at the cache keeps the bound of that look, though a larger one may have been told
  // since.
  call.min_clock = std::max(call.min_clock, rules.bound.min_clock);
  call.exact = rules.bound.exact;
  call.own_writes = rules.own_writes;
  call.cached = call.reducing == nullptr && rules.cached &&
                RowCache::WorthIt(call.batch->ranges, call.batch->dim) &&
                context_.cache.Wants(*call.table, call.batch->rows);
  call.rounded = !call.cached || context_.MayKeepRounded(*call.table);
  if (call.cached && PromiseOf(call.table->consistency).told_every > 0) subscriber_.Follow(call.table);
}

ClientCore::ReadRules ClientCore::RulesOf(const TableInfo& table, std::optional<Clock> min_clock,
                                          Clock reader) const {
  const Promise promise = PromiseOf(table.consistency);
  const bool bounded = promise.staleness.has_value() && context_.worker;
  ReadRules rules;
  if (min_clock.has_value()) {
    rules.bound.min_clock = *min_clock;
  } else if (bounded) {
    rules.bound.min_clock = clock::MinClockFor(*context_.changes.StalenessOf(table, promise, reader), reader);
    // Once the last tick is sent, no worker waits for this one's clock.
    rules.bound.exact = promise.exact && !context_.finished && !finishing_ && !sealed_;
  }
  rules.own_writes = promise.own_fetched || min_clock.has_value();
  rules.bound.own_writes = promise.own_cached;
  // A read that names no bound wants the newest values.
  // Under a value bound its age is not known by clocks.
  rules.cached = context_.cache.enabled() && (min_clock.has_value() || bounded) && !promise.value_bound;
  const bool keyed = table.schema.kind == table::Kind::kSparse && !table.schema.aggregated;
  rules.refresh = rules.cached && promise.refresh && keyed;
  // A row that is brought up to date serves until it is too old again, on average for half of that time.
  if (rules.refresh)
    rules.refresh_worth = static_cast<uint32_t>(std::min<Clock>(promise.staleness.value_or(0), 64) / 2 + 1);
  return rules;
}

void ClientCore::CountCached(const TableInfo& table, const ClockCounts& hits, Clock reader,
                             std::optional<Clock> bound) {
  context_.history.HandedOut(table, reader, bound);
  for (const auto& [min_clock, rows] : hits.counts()) {
    context_.stats.rows_from_cache += rows;
    context_.stats.bytes_from_cache += rows * table.schema.dim * sizeof(float);
    if (!context_.worker) continue;
    context_.stats.staleness_rows[clock::ObservedStaleness(reader, min_clock)] += rows;
  }
}

absl::Status ClientCore::Tick() {
  if (absl::Status writable = CheckWritable("tick"); !writable.ok()) return writable;
  if (!context_.worker) {
    return absl::FailedPreconditionError(
        "tick: this client has no clock; connect with ClientOptions::workers of 1 or more");
  }
  ++context_.worker_clock;
  context_.history.Record(history::Ticked{.clock = context_.worker_clock});
  context_.changes.OnTick(context_.worker, context_.worker_clock);
  pusher_.OnTick();
  return absl::OkStatus();
}

void ClientCore::Flush(absl::Duration timeout, Done done) {
  if (!context_.failure.ok()) return context_.deferred.Tell(std::move(done), context_.failure);
  SendHeldBack();
  pusher_.Flush(timeout, std::move(done));
}

void ClientCore::Finish(absl::Duration timeout, Done done) {
  if (absl::Status may = CheckMayFinish(); !may.ok()) {
    return context_.deferred.Tell(std::move(done), std::move(may));
  }
  SendHeldBack();
  finishing_ = true;  // the numbers that are sealed now must be the last
  context_.history.Record(history::Finishing{.leaves = true});
  const absl::Time deadline = context_.Now() + timeout;
  if (Planted(Bug::kFinishedEarly)) return OnFlushed(absl::OkStatus(), deadline, std::move(done));
  pusher_.Flush(timeout,
                [this, gate = context_.gate, deadline, done = std::move(done)](absl::Status status) mutable {
                  gate->Enter([&] { OnFlushed(std::move(status), deadline, std::move(done)); });
                });
}

// An error of an earlier push is reported, but does not prevent finishing.
void ClientCore::OnFlushed(absl::Status status, absl::Time deadline, Done done) {
  const bool all_committed = (awaitable_bytes() == 0 || Planted(Bug::kFinishedEarly)) &&
                             context_.failure.ok() && !absl::IsDeadlineExceeded(status);
  last_tick_.emplace(LastTick{.status = status, .deadline = deadline, .done = std::move(done), .timer = {}});
  if (!all_committed) return EndFinish(std::move(status));
  if (context_.exact_reads.empty()) return TellLastTick();
  // The last tick would let the others go on, and the exact reads would see their later updates.
  last_tick_->timer = context_.timers.At(deadline, [this] {
    EndFinish(absl::DeadlineExceededError(
        "finish: reads of this clock, which must not see what comes after it, are not answered"));
  });
}

void ClientCore::OnExactReadEnded() {
  if (!context_.failure.ok()) return;
  pusher_.TellTicks();
  if (last_tick_.has_value() && !sealed_ && context_.exact_reads.empty()) TellLastTick();
}

void ClientCore::TellLastTick() {
  sealed_ = true;
  context_.timers.Cancel(last_tick_->timer);
  session_.Finish(pusher_.AllSeals(), last_tick_->deadline,
                  [this, gate = context_.gate, done = std::move(last_tick_->done),
                   status = last_tick_->status](absl::Status finished) mutable {
                    gate->Enter([&] {
                      finishing_ = false;
                      last_tick_.reset();
                      if (!finished.ok() || !context_.failure.ok()) return;
                      pusher_.OnFinished();
                      if (absl::Status late = pusher_.TakeUnreported(); status.ok()) status = std::move(late);
                    });
                    done(finished.ok() ? std::move(status) : std::move(finished));
                  });
}

// Without the last tick: the worker may go on, and finish later.
void ClientCore::EndFinish(absl::Status status) {
  finishing_ = false;
  context_.history.Record(history::Finishing{.leaves = false});
  context_.timers.Cancel(last_tick_->timer);
  context_.deferred.Tell(std::move(last_tick_->done), std::move(status));
  last_tick_.reset();
}

void ClientCore::Close(std::string reason, absl::Duration timeout, Done done) {
  SendHeldBack();
  session_.Close(std::move(reason), timeout, std::move(done));
}

void ClientCore::Stop(absl::Status why) {
  context_.fail(std::move(why));
}

Deferred ClientCore::Leave() {
  if (!context_.failure.ok() && !failed_) {
    failed_ = true;
    filters_.Fail();
    pusher_.Fail(context_.failure);
    puller_.Fail(context_.failure);
    subscriber_.Fail();
    if (last_tick_.has_value() && !sealed_) EndFinish(context_.failure);
    for (auto& [queue, work] : work_) work->Fail(context_.failure);
    session_.Stop();
  }
  FollowClocks();
  subscriber_.Leave();
  return std::exchange(context_.deferred, Deferred());
}

Stats ClientCore::stats() const {
  Stats stats = context_.stats;
  stats.bytes_unacknowledged = pusher_.unacknowledged_bytes();
  stats.push_filter.rows_held = filters_.held_rows();
  stats.push_filter.bytes_held = filters_.held_bytes();
  stats.time = context_.times->split();
  return stats;
}

}  // namespace paceline::sdk
