#include "tests/sim/sim_client.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/clock/consistency.h"
#include "libs/wire/schema_codec.h"

namespace paceline::sim {
namespace {

constexpr uint64_t kKeys = 40;
constexpr absl::Duration kTimeout = absl::Seconds(30);
constexpr absl::Duration kStartTimeout = absl::Seconds(5);
constexpr absl::Duration kShortTimeout = absl::Milliseconds(1500);

}  // namespace

class SimClient::Dialer final : public world::Dialer {
 public:
  Dialer(World& world, Host& host) : world_(world), host_(host) {}
  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind kind,
                                          std::shared_ptr<world::StreamHandler> handler) override {
    return world_.network.Dial(host_, address, kind, std::move(handler));
  }

 private:
  World& world_;
  Host& host_;
};

// A pull under way, judged when it ends.
class SimClient::Sink final : public sdk::PullSink {
 public:
  Sink(SimClient& client, TrueRead read, absl::Duration timeout, TablePtr table,
       std::shared_ptr<const sdk::Batch> batch, std::function<void()> done)
      : client_(client),
        start_(client.starts_),
        read_(std::move(read)),
        timeout_(timeout),
        table_(std::move(table)),
        batch_(std::move(batch)),
        done_(std::move(done)) {
    values_.resize(size_t{batch_->rows} * batch_->dim, -1);
  }
  void Rows(const sdk::Batch::Piece& piece, const absl::Cord& values) override {
    sdk::Scatter(*batch_, piece, values, values_.data());
  }
  void Done(absl::Status status) override {
    if (start_ != client_.starts_ || !client_.up()) return;
    if (status.ok()) {
      client_.world_.invariants.OnRead(read_, table_->schema.dim, values_);
      done_();
    } else if (timeout_ < kTimeout && absl::IsDeadlineExceeded(status)) {
      client_.world_.marks.Hit("a read ends at its deadline");
      done_();
    } else if (client_.core().failure().ok()) {
      client_.world_.verdict.Violated(
          "Progress", absl::StrCat("a read of ", client_.name(), " ends with ", status.ToString()));
    }
  }

 private:
  SimClient& client_;
  const uint64_t start_;
  const TrueRead read_;
  const absl::Duration timeout_;
  const TablePtr table_;
  const std::shared_ptr<const sdk::Batch> batch_;
  const std::function<void()> done_;
  std::vector<float> values_;
};

void SimClient::SimGate::Enter(absl::FunctionRef<void()> inside) {
  if (core == nullptr) return;
  inside();
  sdk::Deferred deferred = core->Leave();
  std::move(deferred).RunAll();
  owner.AfterVisit();
}

SimClient::SimClient(World& world, SimCoordinator& coordinator, std::string name)
    : world_(world),
      coordinator_(coordinator),
      host_{.name = std::move(name)},
      dialer_(std::make_unique<Dialer>(world, host_)),
      api_(std::make_unique<SimCoordinatorApi>(world, coordinator, host_)),
      gate_(std::make_shared<SimGate>(*this)) {}

SimClient::~SimClient() = default;

// -- the process --

void SimClient::Start(uint32_t workers, Consistency consistency) {
  ++starts_;
  failing_ = false;
  session_ = SessionId();
  consistency_ = consistency;
  armed_ = absl::InfiniteFuture();
  random_ = world::SplitMix64(world_.random.Next());
  doing_ = "opening its session";
  // Each start has a gate of its own: what an earlier one left under way finds it closed.
  gate_ = std::make_shared<SimGate>(*this);
  sdk::Session::Options options{.coordinator = "coordinator:1",
                                .job = "job",
                                .client_name = host_.name,
                                .token = "",
                                .workers = workers,
                                .rank = std::nullopt,
                                .timeout = kStartTimeout,
                                .start_timeout = kStartTimeout};
  gate_->core = std::make_unique<sdk::ClientCore>(options, *api_, *dialer_, world_.clock, random_, gate_);
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
  OpenTable("counts", kColumns, /*assign=*/false, &counts_, [this] {
    world_.truth.counts = counts_->id;
    OpenTable("assigns", 1, /*assign=*/true, &assigns_, [this] {
      world_.truth.assigns = assigns_->id;
      OnReady();
    });
  });
}

void SimClient::OpenTable(const std::string& name, uint32_t dim, bool assign, TablePtr* into,
                          std::function<void()> then) {
  table::Schema schema;
  schema.dim = dim;
  if (assign) schema.rule = table::Assign{};
  const v1::TableSchema proto = wire::ToProto(schema);
  doing_ = "opening its tables";
  const auto gate = gate_;
  Enter([&] {
    core().OpenTable(name, &proto, consistency_, [this, gate, into, then](absl::StatusOr<TablePtr> table) {
      if (gate != gate_ || !up()) return;
      if (!table.ok()) return Fail(table.status());
      *into = *table;
      then();
    });
  });
}

void SimClient::AfterVisit() {
  if (!up()) return;
  if (!core().failure().ok()) return Fail(core().failure());
  Arm();
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
    core().Close("it is done", absl::Seconds(2), [this, gate](absl::Status) {
      if (gate != gate_ || !up()) return;
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

// -- what it does --

void SimClient::Push(const TablePtr& table, const std::vector<uint64_t>& keys,
                     const std::vector<float>& values, bool valid) {
  const auto gate = gate_;
  Enter([&] {
    const auto batch = sdk::GroupKeys(*core().routes(), table->placement, table->schema.dim, keys, values,
                                      sdk::AllocateFresh);
    world_.truth.OnPush(session_, core().clock(), *table, *batch, valid);
    core().Push({.table = table, .batch = batch, .done = [this, gate, valid](absl::Status status) {
                   if (gate != gate_ || !up() || !core().failure().ok()) return;
                   const bool expected = valid ? status.ok() : absl::IsInvalidArgument(status);
                   if (expected) return;
                   world_.verdict.Violated(
                       "Progress", absl::StrCat("a push of ", name(), " ends with ", status.ToString()));
                 }});
  });
}

void SimClient::Pull(const TablePtr& table, std::vector<uint64_t> keys, std::optional<Clock> min_clock,
                     std::function<void()> done) {
  const auto* ssp = std::get_if<Ssp>(&table->consistency);
  TrueRead read{.reader = session_,
                .own_writes = ssp != nullptr || min_clock.has_value(),
                .min_clock = min_clock.value_or(0),
                .table = table->id,
                .keys = keys,
                .made = world_.truth.now()};
  if (!min_clock.has_value() && ssp != nullptr && core().worker()) {
    read.min_clock = clock::MinClockFor(clock::Ssp{.staleness = ssp->staleness}, core().clock());
  }
  const auto batch =
      sdk::GroupKeys(*core().routes(), table->placement, table->schema.dim, keys, {}, sdk::AllocateFresh);
  // A min clock that is asked for by name may never come; what the model asks for does.
  const absl::Duration timeout = min_clock.has_value() ? kShortTimeout : kTimeout;
  auto sink = std::make_shared<Sink>(*this, std::move(read), timeout, table, batch, std::move(done));
  doing_ = absl::StrCat("reading ", table->Name());
  Enter([&] {
    core().Pull({.table = table, .batch = batch, .timeout = timeout, .sink = std::move(sink)}, min_clock);
  });
}

void SimClient::PushCounts(bool valid) {
  const uint32_t column = world_.truth.Find(session_)->column;
  std::vector<uint64_t> keys;
  std::vector<float> values;
  for (uint64_t n = 1 + world_.Below(8); n > 0; --n) {
    const uint64_t key = world_.Below(kKeys);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    keys.push_back(key);
    values.resize(keys.size() * kColumns);
    values[(keys.size() - 1) * kColumns + column] =
        valid ? static_cast<float>(1 + world_.Below(9)) : std::numeric_limits<float>::quiet_NaN();
  }
  Push(counts_, keys, values, valid);
}

void SimClient::PullCounts(std::optional<Clock> min_clock, std::function<void()> done) {
  std::vector<uint64_t> keys;
  for (uint64_t n = 1 + world_.Below(8); n > 0; --n) keys.push_back(world_.Below(kKeys));
  Pull(counts_, std::move(keys), min_clock, std::move(done));
}

}  // namespace paceline::sim
