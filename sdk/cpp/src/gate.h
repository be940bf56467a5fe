#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "libs/world/port.h"

namespace paceline::sdk {

// The one door into the core. The core is a single-threaded state machine; whatever comes from outside —
// frames, replies, the time, calls of users — enters through here, one at a time.
//
// A gate outlives its core: what comes too late finds it closed.
class Gate {
 public:
  virtual ~Gate() = default;

  // Runs `inside` with the core to itself, and then, with the door open to others again, what the core left
  // to be done (see Deferred). Does nothing once the core is gone. Not to be called from within `inside`.
  virtual void Enter(absl::FunctionRef<void()> inside) = 0;
};

// What the core leaves to be done after it was left: kicking carriers, which may come straight back in for a
// frame, and calling users back, who may call anything.
class Deferred {
 public:
  using Task = absl::AnyInvocable<void()>;

  void Kick(std::shared_ptr<world::StreamPort> port) { kicks_.push_back(std::move(port)); }
  void Run(Task task) { tasks_.push_back(std::move(task)); }

  bool empty() const { return kicks_.empty() && tasks_.empty(); }

  // Kicks first: what is under way earlier comes back earlier.
  void RunAll() && {
    for (const auto& port : kicks_) port->Kick();
    for (Task& task : tasks_) task();
  }

 private:
  std::vector<std::shared_ptr<world::StreamPort>> kicks_;
  std::vector<Task> tasks_;
};

}  // namespace paceline::sdk
