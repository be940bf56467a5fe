#include "tests/sim/prober.h"

#include <algorithm>
#include <utility>

#include "libs/wire/frame.h"
#include "libs/wire/schema_codec.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);
constexpr absl::Duration kPullEvery = absl::Milliseconds(2);

}  // namespace

class Prober::Sink final : public sdk::PullSink {
 public:
  Sink(Prober& prober, uint32_t segment) : prober_(prober), segment_(segment), asked_(prober.world_.Now()) {}
  void Rows(absl::Span<const sdk::Stretch>, const absl::Cord&) override {}
  void Done(absl::Status status) override {
    if (status.ok()) return prober_.on_pulled(segment_, prober_.world_.Now() - asked_);
    if (prober_.gate_->core != nullptr) prober_.world_.verdict.Violated("Progress", status.ToString());
  }

 private:
  Prober& prober_;
  const uint32_t segment_;
  const absl::Time asked_;
};

void Prober::ProberGate::Enter(absl::FunctionRef<void()> inside) {
  if (core == nullptr) return;
  inside();
  sdk::Deferred deferred = core->Leave();
  std::move(deferred).RunAll();
  owner.Arm();
}

Prober::Prober(World& world, SimCoordinator& coordinator)
    : world_(world),
      dialer_(world.network, host_),
      api_(world, coordinator, host_),
      gate_(std::make_shared<ProberGate>(*this)) {
  world_.network.watcher = this;
}

Prober::~Prober() {
  world_.network.watcher = nullptr;
}

void Prober::Begin() {
  sdk::Session::Options options{.coordinator = "coordinator:1",
                                .job = "job",
                                .client_name = host_.name,
                                .workers = 0,
                                .rank = std::nullopt,
                                .timeout = kTimeout,
                                .start_timeout = kTimeout};
  gate_->core = std::make_unique<sdk::ClientCore>(options, api_, dialer_, world_.clock, random_, gate_,
                                                  /*cache_bytes_max=*/0);
  gate_->Enter([&] {
    gate_->core->Open([this](const absl::Status& status) {
      if (!status.ok()) return world_.verdict.Violated("Progress", status.ToString());
      OpenTable();
    });
  });
}

void Prober::OpenTable() {
  const v1::TableSchema schema = wire::ToProto(table::Schema{.dim = kColumns});
  gate_->Enter([&] {
    gate_->core->OpenTable("counts", &schema, Asp{}, [this](auto table) {
      if (!table.ok()) return world_.verdict.Violated("Progress", table.status().ToString());
      keys_.resize((*table)->placement.SegmentCount());
      std::vector<bool> found(keys_.size());
      for (uint64_t key = 1; std::ranges::count(found, false) > 0; ++key) {
        const uint32_t segment = (*table)->placement.Of(key).v;
        keys_[segment] = key;
        found[segment] = true;
      }
      table_ = *table;
      Pull();
    });
  });
}

void Prober::Pull() {
  if (gate_->core == nullptr) return;
  for (uint32_t s = 0; s < keys_.size(); ++s) {
    gate_->Enter([&] {
      sdk::ClientCore& core = *gate_->core;
      auto batch = sdk::GroupKeys(*core.routes(), table_->placement, table_->schema.dim, {&keys_[s], 1}, {},
                                  sdk::AllocateFresh);
      core.Pull({.table = table_,
                 .batch = std::move(batch),
                 .timeout = kTimeout,
                 .sink = std::make_shared<Sink>(*this, s)},
                std::nullopt);
    });
  }
  world_.scheduler.After(kPullEvery, [this] { Pull(); });
}

uint64_t Prober::EpochOf(uint32_t segment) const {
  return gate_->core == nullptr ? 0 : gate_->core->routes()->map.EpochOf(SegmentId(segment)).v;
}

bool Prober::LinkedWith(const std::string& host) {
  return std::ranges::any_of(world_.network.connections(), [&](const auto& connection) {
    const StreamInfo& info = connection->info();
    return connection->established() && info.kind == world::StreamKind::kPull && info.client == host_.name &&
           info.server == host;
  });
}

void Prober::OnArriving(const StreamInfo& stream, Side to, const absl::Cord& frame) {
  if (stream.kind != world::StreamKind::kPull || stream.client != host_.name || to != Side::kClient) return;
  const auto reply = wire::Decode<v1::PullReply>(frame);
  if (!reply.ok()) return;
  for (const v1::Refusal& refusal : reply->head.refusals()) on_refused(refusal);
}

void Prober::Arm() {
  if (gate_->core == nullptr) return;
  const absl::Time next = std::max(gate_->core->NextDeadline(), world_.Now());
  if (next >= armed_) return;
  armed_ = next;
  world_.scheduler.At(next, [this] { OnTime(); });
}

void Prober::OnTime() {
  if (gate_->core == nullptr || world_.Now() < armed_) return;
  armed_ = absl::InfiniteFuture();
  gate_->Enter([&] { gate_->core->OnTime(); });
}

}  // namespace paceline::sim
