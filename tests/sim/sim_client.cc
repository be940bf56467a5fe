#include "tests/sim/sim_client.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/clock/consistency.h"
#include "libs/wire/schema_codec.h"
#include "sdk/cpp/src/cache/cache_read.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kMeanKeys = 8;
constexpr absl::Duration kStartTimeout = absl::Seconds(5);
constexpr absl::Duration kShortTimeout = absl::Milliseconds(1500);
// No cache; room for some of the rows; for all.
struct CacheSize {
  uint64_t bytes = 0;
  uint64_t trial_rows = sdk::CacheTrial::kRows;
};
// In a trial of few rows a table often comes to rest, and is tried again.
constexpr CacheSize kCaches[] = {{.bytes = 0}, {3 * 1024}, {64 * 1024}, {64 * 1024, 12}};

}  // namespace

// A read under way, judged when it ends.
struct SimClient::Reading {
  uint64_t start = 0;
  absl::Time began;
  TrueRead read;
  absl::Duration timeout;
  TablePtr table;
  std::function<void()> done;
  std::vector<float> values;
};

void SimClient::OnRead(const Reading& reading, absl::Status status) {
  if (reading.start != starts_ || !up()) return;
  if (status.ok()) {
    Took("a read", reading.began);
    if (reading.read.exact && core().clock() > reading.read.min_clock) {
      world_.marks.Hit("an exact read is answered after its tick was made");
    }
    world_.invariants.OnRead(reading.read, reading.table->schema.dim, reading.values);
    reading.done();
  } else if (reading.timeout < kTimeout && absl::IsDeadlineExceeded(status)) {
    world_.marks.Hit("a read ends at its deadline");
    reading.done();
  } else if (absl::IsInvalidArgument(status) && world_.truth.IsDropped(reading.table->id)) {
    world_.marks.Hit("a read of a dropped table is refused");
    OpenScratchAgain(reading.table->id);
    reading.done();
  } else if (core().failure().ok()) {
    world_.verdict.Violated("Progress", absl::StrCat("a read of ", name(), " ends with ", status.ToString()));
  }
}

void SimClient::SimGate::Enter(absl::FunctionRef<void()> inside) {
  if (core == nullptr) return;
  inside();
  sdk::Deferred deferred = core->Leave();
  std::move(deferred).RunAll();
  owner.AfterVisit();
}

SimClient::SimClient(World& world, SimCoordinator& coordinator, std::string name, std::string job)
    : world_(world),
      coordinator_(coordinator),
      host_{.name = std::move(name)},
      job_(std::move(job)),
      dialer_(world.network, host_),
      api_(std::make_unique<SimCoordinatorApi>(world, coordinator, host_)),
      gate_(std::make_shared<SimGate>(*this)) {}

SimClient::~SimClient() = default;

// -- the process --

void SimClient::Start(uint32_t workers, Consistency consistency, Consistency folded,
                      std::optional<Consistency> counts) {
  ++starts_;
  started_ = world_.Now();
  failing_ = false;
  session_ = SessionId();
  lists_.clear();
  consistency_ = consistency;
  consistency_of_folded_ = folded;
  consistency_of_counts_ = std::move(counts);
  armed_ = absl::InfiniteFuture();
  random_ = world::SplitMix64(world_.random.Next());
  doing_ = "opening its session";
  // Each start has a gate of its own: what an earlier one left under way finds it closed.
  gate_ = std::make_shared<SimGate>(*this);
  sdk::Session::Options options{.coordinator = "coordinator:1",
                                .job = job_,
                                .client_name = host_.name,
                                .workers = workers,
                                .rank = std::nullopt,
                                .timeout = kStartTimeout,
                                .start_timeout = kStartTimeout,
                                .slice_bytes = world_.prioritised ? kSmallSlice : sdk::kFrameBytes,
                                .shares_from = world_.lends ? 1 : wire::kWorthSharing};
  const CacheSize& cache = kCaches[world_.Below(std::size(kCaches))];
  gate_->core = std::make_unique<sdk::ClientCore>(options, *api_, dialer_, world_.clock, random_, gate_,
                                                  cache.bytes, cache.trial_rows);
  if (world_.prioritised) gate_->core->RecordTo(&numbers_);
  gate_->core->cache().Watch(this);
  WatchFilters();
  const auto gate = gate_;
  Enter([&] {
    core().Open([this, gate](absl::Status status) {
      if (gate == gate_ && up()) OnOpened(std::move(status));
    });
  });
}

void SimClient::OnOpened(absl::Status status) {
  session_ = core().session();
  if (!status.ok()) return Fail(status);
  const table::Schema counts{.dim = kColumns};
  const table::Schema assigns{.rule = table::Assign{}};
  const table::Schema folded{.dim = kColumns, .aggregated = true};
  const table::Schema rates{.dim = kColumns, .rule = table::Sgd{.lr = 1}};
  const table::Schema means{.dim = kMeanColumns, .aggregated = true, .mean = true};
  if (consistency_of_counts_.has_value()) world_.truth.OnBounded(session_);
  const auto others = [=, this] {
    OpenTable("assigns", assigns, consistency_, &assigns_, [=, this] {
      OpenTable("folded", folded, consistency_of_folded_, &folded_, [=, this] {
        OpenTable("rates", rates, consistency_, &rates_, [=, this] {
          OpenTable("means", means, consistency_of_folded_, &means_, [=, this] {
            OpenTable("scratch", counts, consistency_, &scratch_, [this] { OpenWide(); });
          });
        });
      });
    });
  };
  OpenTable("counts", counts, consistency_of_counts_.value_or(consistency_), &counts_, others, push_filter_);
}

void SimClient::OpenTable(const std::string& name, const table::Schema& schema, Consistency consistency,
                          TablePtr* into, std::function<void()> then, const PushFilter& push_filter) {
  const v1::TableSchema proto = wire::ToProto(schema);
  doing_ = "opening its tables";
  const auto gate = gate_;
  Enter([&] {
    const auto opened = [this, gate, into, then](absl::StatusOr<TablePtr> table) {
      if (gate != gate_ || !up()) return;
      if (!table.ok()) return Fail(table.status());
      *into = *table;
      then();
    };
    core().OpenTable(name, &proto, consistency, opened, push_filter, LinkFiltersNow());
  });
}

void SimClient::AfterVisit() {
  NotePieces();
  if (!up()) return;
  if (!core().failure().ok()) return Fail(core().failure());
  Arm();
}

void SimClient::NotePieces() {
  std::erase_if(bounded_, [&](const std::shared_ptr<Reading>& reading) {
    reading->read.NotePieces(reading->values, world_.truth.now());
    return reading->read.bounded_at.has_value() || reading->start != starts_;
  });
}

void SimClient::Arm() {
  const absl::Time next = std::max(core().NextDeadline(), world_.Now());
  if (next >= armed_) return;
  armed_ = next;
  world_.scheduler.At(next, [this, start = starts_] { OnTime(start); });
}

void SimClient::OnTime(uint64_t start) {
  if (start != starts_ || !up()) return;
  if (host_.Paused(world_.Now())) {
    world_.scheduler.At(host_.paused_until, [this, start] { OnTime(start); });
    return;
  }
  if (world_.Now() < armed_) return;
  armed_ = absl::InfiniteFuture();
  Enter([&] { core().OnTime(); });
}

// The core is over, or of no use. It must not be destroyed from within one of its callbacks.
void SimClient::Fail(const absl::Status& why) {
  if (std::exchange(failing_, true)) return;
  if (session_ == SessionId()) session_ = core().session();
  world_.invariants.OnFailed(session_, why);
  on_failed(why);
  world_.Trace(absl::StrCat(Describe(), " fails: ", why.ToString()));
  world_.marks.Hit(absl::StrCat("a client fails: ", absl::StatusCodeToString(why.code())));
  doing_ = absl::StrCat("ending: ", why.ToString());
  world_.scheduler.After(absl::ZeroDuration(), [this, start = starts_] {
    if (start == starts_ && up()) End();
  });
}

void SimClient::End() {
  gate_->core = nullptr;
  for (const auto& connection : world_.network.connections()) {
    if (connection->info().client == host_.name)
      connection->Break(absl::UnavailableError("connection reset"));
  }
  OnEnded();
}

void SimClient::Kill() {
  if (up()) End();
}

void SimClient::Exit() {
  doing_ = "closing its session";
  const auto gate = gate_;
  Enter([&] {
    core().Close("it is done", absl::Seconds(2), [this, gate, began = world_.Now()](absl::Status) {
      if (gate != gate_ || !up()) return;
      Took("to close", began);
      doing_ = "done";
      world_.scheduler.After(absl::ZeroDuration(), [this, start = starts_] {
        if (start == starts_ && up()) End();
      });
    });
  });
}

void SimClient::Pause(absl::Duration duration) {
  host_.paused_until = std::max(host_.paused_until, world_.Now() + duration);
}

void SimClient::Later(absl::Duration delay, std::function<void()> task) {
  world_.scheduler.After(delay, [this, start = starts_, task = std::move(task)]() mutable {
    if (start != starts_ || !up()) return;
    if (host_.Paused(world_.Now())) return Later(host_.paused_until - world_.Now(), std::move(task));
    if (!failing_) task();
  });
}

std::string SimClient::Describe() const {
  std::string text = absl::StrCat(name(), " (session ", session_.v, "): ", doing_);
  if (up())
    absl::StrAppend(&text, ", at clock ", gate_->core->clock(), ", waits for ", gate_->core->WaitsFor());
  return text;
}

// -- its actions --

TrueRead SimClient::ReadOf(const TablePtr& table, const std::vector<uint64_t>& keys,
                           std::optional<Clock> min_clock, Clock reader) const {
  const sdk::Promise promise = sdk::PromiseOf(table->consistency);
  // A worker sees its own updates of an aggregated table no earlier than the others do.
  TrueRead read{.reader = session_,
                .own_writes = (promise.own_fetched || min_clock.has_value()) && !table->schema.aggregated,
                .min_clock = min_clock.value_or(0),
                .table = table->id,
                .keys = keys,
                .made = world_.truth.now()};
  if (!min_clock.has_value() && promise.staleness.has_value() && gate_->core->worker()) {
    const Clock bound = *gate_->core->changes().StalenessOf(*table, promise, reader);
    if (promise.adaptive) {
      world_.invariants.Bound(session_, table->id, reader, bound, *promise.staleness,
                              gate_->core->changes().Known(table->id));
    }
    read.min_clock = clock::MinClockFor(bound, reader);
    read.exact = promise.exact && !finishing_;
  }
  return read;
}

void SimClient::PushPull(const TablePtr& table, const std::vector<uint64_t>& keys,
                         const std::vector<float>& values) {
  Enter([&] {
    const auto batch = Grouped(table, keys, values, /*reads_back=*/true);
    world_.truth.OnRowsWanted(session_, *table, *batch);
    const uint64_t push = world_.truth.OnPush(session_, core().clock(), *table, *batch, /*valid=*/true);
    // A refusal ends the read, if that has not ended yet.
    world_.truth.OnRefused(session_, push);
    // The last clock may never end, so no push waits for it.
    const bool next_clock = core().worker() && world_.Chance(0.3);
    const Clock reader = core().clock() + (next_clock ? 1 : 0);
    auto reading =
        std::make_shared<Reading>(Reading{.start = starts_,
                                          .began = world_.Now(),
                                          .read = ReadOf(table, keys, std::nullopt, reader),
                                          .timeout = next_clock ? kShortTimeout : kTimeout,
                                          .table = table,
                                          .done = [this] { world_.marks.Hit("a push brings its rows back"); },
                                          .values = std::vector<float>(keys.size() * table->schema.dim, -1)});
    reading->read.own_writes = !table->schema.aggregated;  // whatever the model
    if (sdk::IsBounded(table->consistency)) bounded_.push_back(reading);
    auto sink = sdk::MakeReceiver(batch, reading->values.data(), [this, reading](absl::Status status) {
      NoteHandedOut(*reading);
      OnRead(*reading, status);
    });
    core().PushPull({.table = table, .batch = batch},
                    {.table = table, .batch = batch, .timeout = reading->timeout, .sink = std::move(sink)},
                    std::nullopt, next_clock);
  });
}

void SimClient::Pull(const TablePtr& table, std::vector<uint64_t> keys, std::optional<Clock> min_clock,
                     std::function<void()> done) {
  TrueRead read = ReadOf(table, keys, min_clock, core().clock());
  // A min clock that is asked for by name may never come; what the model asks for does.
  auto reading =
      std::make_shared<Reading>(Reading{.start = starts_,
                                        .began = world_.Now(),
                                        .read = std::move(read),
                                        .timeout = min_clock.has_value() ? kShortTimeout : kTimeout,
                                        .table = table,
                                        .done = std::move(done),
                                        .values = std::vector<float>(keys.size() * table->schema.dim, -1)});
  doing_ = absl::StrCat("reading ", table->Name());
  if (sdk::IsBounded(table->consistency)) bounded_.push_back(reading);
  sdk::ReadCall call{.table = table,
                     .keys = keys,
                     .listed = ListOf(table, keys),
                     .out = reading->values.data(),
                     .min_clock = min_clock,
                     .timeout = reading->timeout};
  call.ended = [this, reading](absl::Status status) {
    NoteHandedOut(*reading);
    // Before it returns, if all of it was cached: what was handed out is told first.
    Later(absl::ZeroDuration(), [this, reading, status] { OnRead(*reading, status); });
  };
  hits_.clear();
  // Once now, and once more if it asks first what has changed.
  const auto enter = [this, reading, looks = 0](absl::FunctionRef<void(sdk::ClientCore&)> inside) mutable {
    if (!up() || starts_ != reading->start) return false;
    Enter([&] {
      hits_.clear();
      if (looks == 0) reading->read.changes_known = core().changes().Known(reading->table->id);
      inside(core());
      for (const sdk::CachedRow& row : hits_) {
        reading->read.cached.emplace(row.key, row);
        world_.invariants.OnCached(reading->read, row);
      }
      if (!hits_.empty() && ++looks > 1) world_.marks.Hit("a row has not changed since");
    });
    return true;
  };
  sdk::ReadThroughCache(enter, sdk::AllocateFresh, absl::CancelledError("gone"), std::move(call));
  if (reading->read.cached.empty()) return;
  const bool all = reading->read.cached.size() == std::set<uint64_t>(keys.begin(), keys.end()).size();
  world_.marks.Hit(all ? "a read is all cached" : "a read is partly cached");
}

bool SimClient::Fits(const TablePtr& table, const std::vector<uint64_t>& keys,
                     const std::vector<float>& values) {
  if (!sdk::IsBounded(table->consistency)) return true;
  bool fits = true;
  Enter([&] {
    const auto batch = sdk::GroupKeys(*core().routes(), table->placement, table->schema.dim, keys, values,
                                      sdk::AllocateFresh);
    const auto weighed = std::make_shared<const sdk::WeighedPush>(sdk::Weigh(*table, *batch));
    fits = core().bounds().Fits(*table, *weighed);
    if (fits) return;
    world_.marks.Hit("a push does not fit its value bound");
    core().bounds().EndAwait(core().bounds().Await(table, weighed));  // asks
  });
  return fits;
}

void SimClient::NoteHandedOut(Reading& reading) {
  if (sdk::IsBounded(reading.table->consistency)) reading.read.bounded_at = world_.truth.now();
}

uint64_t SimClient::KeysOf(const TablePtr& table) {
  constexpr uint64_t kFew = 3;
  return sdk::IsBounded(table->consistency) ? kFew : kKeys;
}

void SimClient::DrawCounts(bool valid, std::vector<uint64_t>* keys, std::vector<float>* values,
                           uint64_t among) {
  const uint32_t column = world_.truth.Find(session_)->column;
  for (uint64_t n = 1 + world_.Below(8); n > 0; --n) {
    const uint64_t key = world_.Below(among);
    if (std::find(keys->begin(), keys->end(), key) != keys->end()) continue;
    keys->push_back(key);
    values->resize(keys->size() * kColumns);
    (*values)[(keys->size() - 1) * kColumns + column] =
        valid ? static_cast<float>(1 + world_.Below(9)) : std::numeric_limits<float>::quiet_NaN();
  }
}

void SimClient::PushCounts(const TablePtr& table, bool valid) {
  valid |= table->push_filter.active();  // clients check what they are given before a filter sees it
  std::vector<uint64_t> keys;
  std::vector<float> values;
  DrawCounts(valid, &keys, &values, KeysOf(table));
  if (Fits(table, keys, values)) Push(table, keys, values, valid);
}

void SimClient::PushPullCounts(const TablePtr& table) {
  std::vector<uint64_t> keys;
  std::vector<float> values;
  DrawCounts(/*valid=*/true, &keys, &values, KeysOf(table));
  if (Fits(table, keys, values)) PushPull(table, keys, values);
}

void SimClient::PullCounts(const TablePtr& table, std::optional<Clock> min_clock,
                           std::function<void()> done) {
  std::vector<uint64_t> keys;
  for (uint64_t n = 1 + world_.Below(8); n > 0; --n) keys.push_back(world_.Below(KeysOf(table)));
  Pull(table, std::move(keys), min_clock, std::move(done));
}

void SimClient::PushScratch() {
  std::vector<uint64_t> keys;
  std::vector<float> values;
  DrawCounts(/*valid=*/true, &keys, &values, kKeys);
  Push(scratch_, keys, values, /*valid=*/true);
}

void SimClient::PullScratch(std::function<void()> done) {
  std::vector<uint64_t> keys;
  for (uint64_t n = 1 + world_.Below(8); n > 0; --n) keys.push_back(world_.Below(kKeys));
  Pull(scratch_, std::move(keys), std::nullopt, std::move(done));
}

void SimClient::PullRates(std::function<void()> done) {
  std::vector<uint64_t> keys;
  for (uint64_t n = 1 + world_.Below(8); n > 0; --n) keys.push_back(world_.Below(kKeys));
  Pull(rates_, std::move(keys), std::nullopt, std::move(done));
}

void SimClient::PushRates() {
  std::vector<uint64_t> keys;
  std::vector<float> values;
  DrawCounts(/*valid=*/true, &keys, &values, kKeys);
  Push(rates_, keys, values, /*valid=*/true);
}

// Rounding makes another sum of another order.
void SimClient::PushMeans() {
  std::vector<uint64_t> keys;
  for (uint64_t n = 1 + world_.Below(4); n > 0; --n) {
    const uint64_t key = world_.Below(kMeanKeys);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  std::vector<float> values(keys.size() * kMeanColumns);
  for (float& value : values) {
    const double magnitude =
        std::ldexp(1 + world::UnitInterval(world_.random), static_cast<int>(world_.Below(40)) - 20);
    value = static_cast<float>(world_.Chance(0.5) ? magnitude : -magnitude);
  }
  Push(means_, keys, values, /*valid=*/true);
}

void SimClient::PullMeans(std::function<void()> done) {
  std::vector<uint64_t> keys;
  for (uint64_t n = 1 + world_.Below(4); n > 0; --n) keys.push_back(world_.Below(kMeanKeys));
  Pull(means_, std::move(keys), std::nullopt, std::move(done));
}

void SimClient::OpenScratchAgain(TableId dropped) {
  if (!up() || scratch_ == nullptr || scratch_->id != dropped) return;
  world_.marks.Hit("a dropped table is opened again");
  const std::string was_doing = doing_;
  OpenTable("scratch", {.dim = kColumns}, consistency_, &scratch_, [this, was_doing] { doing_ = was_doing; });
}

}  // namespace paceline::sim
