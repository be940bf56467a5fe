#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "libs/wire/schema_codec.h"
#include "libs/world/clock.h"
#include "libs/world/random.h"
#include "sdk/cpp/src/cache/cache_read.h"
#include "sdk/cpp/src/session/client_core.h"
#include "sdk/cpp/src/testing/fake_cluster.h"
#include "sdk/cpp/src/testing/fake_coordinator.h"
#include "sdk/cpp/src/testing/fake_streams.h"

namespace paceline::sdk::testing {

class ManualClock final : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch() + absl::Hours(1000);
};

// One client core with the world in a test's hands: time stands still, frames and replies move when told.
class CoreHarness {
 public:
  struct Setup {
    int ring_bits = 2;
    uint32_t shards = 2;
    uint32_t workers = 1;
    Clock start_clock = 0;
    uint64_t seed = 1;
    uint64_t cache_bytes_max = 1 << 20;
    BackoffPolicy backoff = kDefaultBackoff;
  };

  explicit CoreHarness(Setup setup)
      : cluster(setup.ring_bits, setup.shards), coordinator(cluster), random(setup.seed) {
    coordinator.start_clock = setup.start_clock;
    Session::Options options{.coordinator = "coordinator:1",
                             .job = "job",
                             .client_name = "test",
                             .workers = setup.workers,
                             .rank = std::nullopt,
                             .backoff = setup.backoff};
    gate = std::make_shared<DirectGate>();
    core = std::make_unique<ClientCore>(options, coordinator, dialer, clock, random, gate,
                                        setup.cache_bytes_max);
    gate->core = core.get();
  }
  CoreHarness() : CoreHarness(Setup{}) {}
  ~CoreHarness() {
    Enter([&] { core->Stop(absl::CancelledError("the test is over")); });
    gate->core = nullptr;
    for (const auto& stream : dialer.streams) stream->Break();
    core.reset();
  }

  void Enter(absl::FunctionRef<void()> inside) { gate->Enter(inside); }

  // -- the world --

  // Moves everything until nothing moves, time excepted.
  void Run() {
    while (Step()) {
    }
  }
  // One round: coordinator, then each stream both ways. `frames` limits frames taken from each stream.
  bool Step(int frames = 1 << 20) {
    bool moved = coordinator.RunAll();
    for (size_t i = 0; i < dialer.streams.size(); ++i) moved |= StepStream(*dialer.streams[i], frames);
    return moved;
  }
  bool StepStream(FakeStream& stream, int frames = 1 << 20) {
    if (stream.closing()) {
      stream.Break(absl::CancelledError("closed"));
      return true;
    }
    if (!stream.open() || unreachable.contains(stream.address)) return false;
    if (stream.kind == world::StreamKind::kSubscribe) return false;  // tests answer it themselves
    std::unique_ptr<FakeCluster::Stream>& far = far_[&stream];
    if (far == nullptr) far = cluster.Accept(stream.address, stream.kind == world::StreamKind::kPush);
    bool moved = false;
    for (int i = 0; i < frames; ++i) {
      auto frame = stream.Take();
      if (!frame.has_value()) break;
      far->OnFrame(*frame);
      moved = true;
    }
    while (auto reply = far->NextReply()) {
      stream.Give(*reply);
      moved = true;
    }
    return moved;
  }
  // Lets time pass, from deadline to deadline, running what moves.
  void Advance(absl::Duration by) {
    const absl::Time until = clock.now + by;
    while (true) {
      Run();
      const absl::Time next = core->NextDeadline();
      if (next > until) break;
      clock.now = std::max(clock.now, next);
      Enter([&] { core->OnTime(); });
    }
    clock.now = until;
    Run();
  }

  // -- the client --

  absl::Status Open() {
    std::optional<absl::Status> opened;
    Enter([&] { core->Open([&](absl::Status status) { opened = status; }); });
    Run();
    return opened.value_or(absl::UnknownError("Open has not ended"));
  }

  absl::StatusOr<std::shared_ptr<const TableInfo>> OpenTable(const std::string& name, table::Schema schema,
                                                             Consistency consistency = Ssp{},
                                                             const PushFilter& push_filter = {}) {
    absl::StatusOr<std::shared_ptr<const TableInfo>> table = absl::UnknownError("OpenTable has not ended");
    const v1::TableSchema proto = wire::ToProto(schema);
    Enter([&] {
      core->OpenTable(
          name, &proto, consistency, [&](auto result) { table = std::move(result); }, push_filter);
    });
    Run();
    return table;
  }

  // A push or pull under way, and how it ended.
  struct Outcome {
    std::optional<absl::Status> status;
    std::vector<float> rows;
    bool ended() const { return status.has_value(); }
  };

  std::shared_ptr<Outcome> Push(const std::shared_ptr<const TableInfo>& table,
                                absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                uint32_t priority = 0, absl::Duration timeout = absl::Seconds(60)) {
    return PushBatch(
        table, GroupKeys(*core->routes(), table->placement, table->schema.dim, keys, values, AllocateFresh),
        priority, timeout);
  }
  std::shared_ptr<Outcome> PushBatch(const std::shared_ptr<const TableInfo>& table,
                                     std::shared_ptr<const Batch> batch, uint32_t priority = 0,
                                     absl::Duration timeout = absl::Seconds(60)) {
    auto outcome = std::make_shared<Outcome>();
    Enter([&] {
      core->Push({.table = table,
                  .batch = std::move(batch),
                  .priority = priority,
                  .timeout = timeout,
                  .done = [outcome](absl::Status status) { outcome->status = std::move(status); }});
    });
    return outcome;
  }
  std::shared_ptr<Outcome> PushRange(const std::shared_ptr<const TableInfo>& table, uint64_t first,
                                     absl::Span<const float> values) {
    return PushBatch(table,
                     GroupRange(*core->routes(), table->placement, table->schema.dim, first,
                                values.size() / table->schema.dim, values, AllocateFresh),
                     0, absl::Seconds(60));
  }
  std::shared_ptr<Outcome> Pull(const std::shared_ptr<const TableInfo>& table,
                                absl::Span<const uint64_t> keys,
                                std::optional<Clock> min_clock = std::nullopt, uint32_t priority = 0,
                                absl::Duration timeout = absl::Seconds(60)) {
    return Pull(table,
                GroupKeys(*core->routes(), table->placement, table->schema.dim, keys, {}, AllocateFresh),
                min_clock, priority, timeout);
  }
  std::shared_ptr<Outcome> PullRange(const std::shared_ptr<const TableInfo>& table, uint64_t first,
                                     uint64_t count) {
    return Pull(
        table,
        GroupRange(*core->routes(), table->placement, table->schema.dim, first, count, {}, AllocateFresh),
        std::nullopt, 0, absl::Seconds(60));
  }
  std::shared_ptr<Outcome> PushPull(const std::shared_ptr<const TableInfo>& table,
                                    absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                    bool next_clock = false, absl::Duration timeout = absl::Seconds(60)) {
    const std::shared_ptr<const Batch> batch =
        GroupKeys(*core->routes(), table->placement, table->schema.dim, keys, values, AllocateFresh);
    const std::shared_ptr<Sink> sink = SinkFor(batch);
    Enter([&] {
      core->PushPull({.table = table, .batch = batch},
                     {.table = table, .batch = batch, .timeout = timeout, .sink = sink}, std::nullopt,
                     next_clock);
    });
    return sink->outcome;
  }
  // Through the cache.
  std::shared_ptr<Outcome> Read(const std::shared_ptr<const TableInfo>& table,
                                absl::Span<const uint64_t> keys) {
    auto outcome = std::make_shared<Outcome>();
    outcome->rows.resize(keys.size() * table->schema.dim, -1.0f);
    const auto enter = [this](absl::FunctionRef<void(ClientCore&)> inside) {
      Enter([&] { inside(*core); });
      return true;
    };
    ReadThroughCache(
        enter, AllocateFresh, absl::CancelledError("gone"),
        {.table = table, .keys = keys, .out = outcome->rows.data(), .ended = [outcome](absl::Status status) {
           outcome->status = std::move(status);
         }});
    return outcome;
  }
  absl::Status Tick() {
    absl::Status status;
    Enter([&] { status = core->Tick(); });
    return status;
  }
  std::shared_ptr<Outcome> Flush(absl::Duration timeout = absl::Seconds(60)) {
    auto outcome = std::make_shared<Outcome>();
    Enter([&] { core->Flush(timeout, [outcome](absl::Status status) { outcome->status = status; }); });
    return outcome;
  }
  std::shared_ptr<Outcome> Finish(absl::Duration timeout = absl::Seconds(60)) {
    auto outcome = std::make_shared<Outcome>();
    Enter([&] { core->Finish(timeout, [outcome](absl::Status status) { outcome->status = status; }); });
    return outcome;
  }

  // The newest push or pull stream to a shard.
  FakeStream& PushStream(uint32_t shard) {
    return *dialer.Newest(FakeCluster::AddressOf(shard), world::StreamKind::kPush);
  }
  FakeStream& PullStream(uint32_t shard) {
    return *dialer.Newest(FakeCluster::AddressOf(shard), world::StreamKind::kPull);
  }

  FakeCluster cluster;
  FakeCoordinator coordinator;
  FakeDialer dialer;
  ManualClock clock;
  world::SplitMix64 random;
  std::set<std::string> unreachable;  // addresses of which nothing is heard
  std::unique_ptr<ClientCore> core;

 private:
  struct DirectGate final : Gate {
    void Enter(absl::FunctionRef<void()> inside) override {
      if (core == nullptr) return;
      inside();
      core->Leave().RunAll();
    }
    ClientCore* core = nullptr;
  };
  struct Sink final : PullSink {
    void Rows(absl::Span<const Stretch> pieces, const absl::Cord& values) override {
      Scatter(*batch, pieces, values, outcome->rows.data());
    }
    void Done(absl::Status status) override { outcome->status = std::move(status); }
    std::shared_ptr<const Batch> batch;
    std::shared_ptr<Outcome> outcome;
  };

  static std::shared_ptr<Sink> SinkFor(const std::shared_ptr<const Batch>& batch) {
    auto sink = std::make_shared<Sink>();
    sink->batch = batch;
    sink->outcome = std::make_shared<Outcome>();
    sink->outcome->rows.resize(size_t{batch->rows} * batch->dim, -1.0f);
    return sink;
  }
  std::shared_ptr<Outcome> Pull(const std::shared_ptr<const TableInfo>& table,
                                std::shared_ptr<const Batch> batch, std::optional<Clock> min_clock,
                                uint32_t priority, absl::Duration timeout) {
    const std::shared_ptr<Sink> sink = SinkFor(batch);
    Enter([&] {
      core->Pull({.table = table, .batch = batch, .priority = priority, .timeout = timeout, .sink = sink},
                 min_clock);
    });
    return sink->outcome;
  }

  std::shared_ptr<DirectGate> gate;
  std::map<const FakeStream*, std::unique_ptr<FakeCluster::Stream>> far_;
};

}  // namespace paceline::sdk::testing
