#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/sim/sim_coordinator.h"
#include "tests/sim/world.h"

namespace paceline::sim {

// Drops tables, changes rates and deletes a job while workers train, and asks again until it is done. Of the
// deletion it loses answers, too: it asks again when it is done.
class Operator {
 public:
  Operator(World& world, SimCoordinator& coordinator, uint32_t operations, bool bounds, bool deletes);

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
  // Judges an answer to the deletion; returns what of it has reached the operator.
  absl::Status OnDeleted(const absl::Status& status);
  // A table of this purpose that lives; nullptr: there is none.
  const TrueTable* AnyTable(Purpose purpose);
  // The name of the job that has this id, if it is the newest of the name.
  std::string NameOf(JobId job) const;

  World& world_;
  SimCoordinator& coordinator_;
  Host host_{.name = "operator"};
  SimCoordinatorApi api_;
  uint32_t operations_;
  bool bounds_;  // those that workers follow change with rates
  bool deletes_;
  bool stopped_ = false;
  bool idle_ = true;
  uint64_t deleted_ = 0;  // how often it was told so
  std::string doing_ = "nothing yet";
};

}  // namespace paceline::sim
