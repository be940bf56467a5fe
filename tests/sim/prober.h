#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sdk/cpp/src/session/client_core.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// A client that pulls a row of each segment again and again, whether or not the pulls before have ended, and
// tells how long each took.
class Prober final : private StreamWatcher {
 public:
  Prober(World& world, SimCoordinator& coordinator);
  ~Prober() override;

  void Begin();
  void Stop() { gate_->core = nullptr; }
  bool ready() const { return table_ != nullptr; }
  uint64_t EpochOf(uint32_t segment) const;
  // True: it has a pull stream to this host.
  bool LinkedWith(const std::string& host);

  // A pull has ended well.
  std::function<void(uint32_t segment, absl::Duration took)> on_pulled;
  std::function<void(const v1::Refusal&)> on_refused;

 private:
  struct ProberGate final : sdk::Gate {
    explicit ProberGate(Prober& prober) : owner(prober) {}
    void Enter(absl::FunctionRef<void()> inside) override;
    Prober& owner;
    std::unique_ptr<sdk::ClientCore> core;
  };
  class Sink;

  void Arm();
  void OnTime();
  void OpenTable();
  void Pull();
  void OnArriving(const StreamInfo& stream, Side to, const absl::Cord& frame) override;

  World& world_;
  Host host_{.name = "prober"};
  HostDialer dialer_;
  SimCoordinatorApi api_;
  world::SplitMix64 random_{7};
  std::shared_ptr<ProberGate> gate_;
  std::shared_ptr<const sdk::TableInfo> table_;
  std::vector<uint64_t> keys_;  // one of each segment
  absl::Time armed_ = absl::InfiniteFuture();
};

}  // namespace paceline::sim
