#pragma once

namespace paceline::sdk {

// From now on a wait on this thread for a client's own future fails instead of blocking for ever.
void ThisThreadRunsCallbacks();

// The same within a scope.
class RunsCallbacksHere {
 public:
  RunsCallbacksHere();
  ~RunsCallbacksHere();
  RunsCallbacksHere(const RunsCallbacksHere&) = delete;

 private:
  const bool before_;
};

}  // namespace paceline::sdk
