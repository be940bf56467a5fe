#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/sim/sim_coordinator.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// Who drops tables, changes rates and deletes a job while they train, and asks again until it is done.
class Operator {
 public:
  Operator(World& world, SimCoordinator& coordinator, uint32_t operations, bool deletes);

  void Begin();
  // It begins nothing any more.
  void Stop() { stopped_ = true; }
  bool done() const { return idle_ && (stopped_ || operations_ == 0); }
  std::string Describe() const { return "operator: " + doing_; }
  Host& host() { return host_; }

 private:
  using Ended = std::function<void(const absl::Status&)>;

  void Next();
  // Runs `ask` until it ends with something other than a reason to ask again.
  void Do(std::string what, std::function<void(Ended)> ask);
  void Drop();
  void ChangeRates();
  void Delete();
  // A table of this role that lives; nullptr: there is none.
  const TrueTable* AnyTable(Role role);
  // The name of the job that has this id, if it is the newest of the name.
  std::string NameOf(JobId job) const;

  World& world_;
  Host host_{.name = "operator"};
  SimCoordinatorApi api_;
  uint32_t operations_;
  bool deletes_;
  bool stopped_ = false;
  bool idle_ = true;
  std::string doing_ = "nothing yet";
};

}  // namespace paceline::sim
