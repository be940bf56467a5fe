#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "libs/world/clock.h"
#include "services/coordinator/metadata/changes/shard_caller.h"
#include "services/coordinator/metadata/facts/facts.h"
#include "services/coordinator/metadata/facts/options.h"
#include "services/coordinator/metadata/facts/outbox.h"
#include "services/coordinator/metadata/facts/probe.h"

namespace paceline::coordinator {

// Shared by all parts of the coordinator: the facts, the time, and the ways out. Every way in (a request,
// OnTime, an answer from a shard) runs inside a Visit.
struct Context {
  Facts& facts;
  const world::Clock& clock;
  ShardCaller& caller;
  Probe& probe;
  const Options options;
  Outbox outbox;
  absl::Time now;                                              // of the visit under way
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);  // expires with the coordinator

  absl::Status Commit(Changes changes) {
    const absl::Status status = facts.Commit(std::move(changes));
    if (!status.ok()) probe.StoreFailed(status);
    return status;
  }
};

// One entry into the coordinator: sets the time at its beginning, and flushes the outbox at its end.
class Visit {
 public:
  explicit Visit(Context& context) : context_(context) { context_.now = context_.clock.Now(); }
  ~Visit() { context_.outbox.Flush(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Context& context_;
};

// Wraps `handle` as a callback for others: it runs as a visit, and not at all once the coordinator is gone.
template <class Argument>
std::function<void(Argument)> AsVisit(Context& context, std::function<void(Argument)> handle) {
  return
      [&context, alive = std::weak_ptr<bool>(context.alive), handle = std::move(handle)](Argument argument) {
        if (alive.expired()) return;
        const Visit visit(context);
        handle(std::move(argument));
      };
}

}  // namespace paceline::coordinator
