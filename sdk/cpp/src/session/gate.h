#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "libs/world/port.h"

namespace paceline::sdk {

// The only entry into the core. The core is a single-threaded state machine; frames, replies, timers and user
// calls enter it through here, one at a time.
//
// A gate outlives its core: late callers find it closed.
class Gate {
 public:
  virtual ~Gate() = default;

  // Runs `inside` with exclusive access to the core, and then, with the gate open to others again, the work
  // that the core left to be done (see Deferred). Does nothing once the core is gone. Must not be called from
  // within `inside`.
  virtual void Enter(absl::FunctionRef<void()> inside) = 0;
};

// Work that the core leaves until the visit has ended: kicking carriers, which may come straight back in for
// a frame, and user callbacks, which may call anything.
class Deferred {
 public:
  using Task = absl::AnyInvocable<void()>;

  void Kick(std::shared_ptr<world::StreamPort> port) { kicks_.push_back(std::move(port)); }
  void Run(Task task) { tasks_.push_back(std::move(task)); }
  // Calls `done` with `result`.
  template <class Result>
  void Tell(absl::AnyInvocable<void(Result)> done, std::type_identity_t<Result> result) {
    Run([done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); });
  }

  bool empty() const { return kicks_.empty() && tasks_.empty(); }

  // Kicks first: frames that leave earlier are answered earlier.
  void RunAll() && {
    for (const auto& port : kicks_) port->Kick();
    for (Task& task : tasks_) task();
  }

 private:
  std::vector<std::shared_ptr<world::StreamPort>> kicks_;
  std::vector<Task> tasks_;
};

}  // namespace paceline::sdk
