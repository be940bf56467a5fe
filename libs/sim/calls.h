#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/sim/history_hash.h"
#include "libs/sim/host.h"
#include "libs/sim/marks.h"
#include "libs/sim/partitions.h"
#include "libs/sim/scheduler.h"

namespace paceline::sim {

// Faults of calls, each with its probability.
struct CallFaults {
  double lost = 0;        // the request never arrives
  double reply_lost = 0;  // the request is served, but the reply is lost
  double doubled = 0;     // it arrives twice, the second time up to `late_by` later
  double late = 0;        // it arrives up to `late_by` late
  absl::Duration late_by = absl::Seconds(4);
};

// Calls between processes: a request, and at most one answer. `faults` makes them late, lost or doubled, so
// only idempotent requests may be called this way.
class Calls {
 public:
  template <class Reply>
  using Answer = std::function<void(absl::StatusOr<Reply>)>;
  // Serves the request, and answers at once or later, at most once.
  template <class Reply>
  using Serve = std::function<void(Answer<Reply>)>;

  Calls(Scheduler& scheduler, world::Random& random, HistoryHash& history, Marks& marks)
      : scheduler_(scheduler), random_(random), history_(history), marks_(marks) {}

  // `done` runs once: with the answer, UNAVAILABLE or DEADLINE_EXCEEDED. The hosts must outlive the calls.
  template <class Reply>
  void Call(Host& from, Host& to, absl::Duration timeout, Serve<Reply> serve,
            absl::AnyInvocable<void(absl::StatusOr<Reply>)> done) {
    auto call = std::make_shared<UnderWay<Reply>>(
        UnderWay<Reply>{++calls_, from, to, std::move(serve), std::move(done)});
    ends_[call->id] = {&to, [this, call](absl::Status why) { End<Reply>(call, std::move(why)); }};
    EndAfter(timeout, call->id, absl::DeadlineExceededError("no answer from " + to.name));
    const bool lost = Fault("fault: call lost", faults.lost);
    const bool doubled = Fault("fault: call doubled", faults.doubled);
    if (lost) EndAfter(Notice(), call->id, absl::UnavailableError("the connection broke"));
    if (!lost) Deliver<Reply>(call, Delay(from, to));
    if (doubled) Deliver<Reply>(call, Delay(from, to) + faults.late_by * world::UnitInterval(random_));
  }

  // `to` has died: callers that wait for its answer get UNAVAILABLE soon.
  void Cut(const Host& to) {
    for (const auto& [id, end] : ends_) {
      if (end.first == &to) EndAfter(latency.usual, id, absl::UnavailableError("the connection broke"));
    }
  }

  CallFaults faults;
  Partitions* partitions = nullptr;  // null: every host reaches every other
  Latency latency;

 private:
  template <class Reply>
  struct UnderWay {
    uint64_t id;
    Host& from;
    Host& to;
    Serve<Reply> serve;
    absl::AnyInvocable<void(absl::StatusOr<Reply>)> done;  // empty: answered
  };
  template <class Reply>
  using Shared = std::shared_ptr<UnderWay<Reply>>;

  void EndAfter(absl::Duration delay, uint64_t id, absl::Status why) {
    scheduler_.After(delay, [this, id, why = std::move(why)] {
      if (const auto it = ends_.find(id); it != ends_.end()) it->second.second(why);
    });
  }

  bool Fault(absl::string_view mark, double share) {
    const bool struck = world::Chance(random_, share);
    if (struck) marks_.Hit(mark);
    return struck;
  }

  absl::Duration Delay(const Host& from, const Host& to) {
    const absl::Duration usual = latency.Draw(random_, from, to, scheduler_.Now());
    const double how_late = world::UnitInterval(random_);
    return Fault("fault: call late", faults.late) ? usual + faults.late_by * how_late : usual;
  }

  // True: the message is lost on the way, and the caller waits for its deadline.
  bool Closed(const Host& from, const Host& to) {
    return partitions != nullptr && partitions->Closed(from.name, to.name, scheduler_.Now());
  }

  // The time until a caller notices that its connection is broken.
  absl::Duration Notice() { return latency.slowest * world::UnitInterval(random_); }

  template <class Reply>
  void Deliver(Shared<Reply> call, absl::Duration delay) {
    scheduler_.After(delay, [this, call] { Arrive<Reply>(call); });
  }

  template <class Reply>
  void Arrive(Shared<Reply> call) {
    if (call->to.Paused(scheduler_.Now())) {
      scheduler_.At(call->to.paused_until, [this, call] { Arrive<Reply>(call); });
      return;
    }
    if (Closed(call->from, call->to)) return;
    const auto answer = [this, call](absl::StatusOr<Reply> reply) {
      if (Closed(call->to, call->from)) return;
      if (Fault("fault: reply lost", faults.reply_lost)) {
        return EndAfter(Notice(), call->id, absl::UnavailableError("the connection broke"));
      }
      scheduler_.After(
          latency.Draw(random_, call->to, call->from, scheduler_.Now()),
          [this, call, reply = std::move(reply)]() mutable { End<Reply>(call, std::move(reply)); });
    };
    history_.Add(scheduler_.steps());
    if (!call->to.up) return answer(absl::UnavailableError(call->to.name + " cannot be reached"));
    call->serve(answer);
  }

  template <class Reply>
  void End(Shared<Reply> call, absl::StatusOr<Reply> reply) {
    if (!call->done) return;
    if (call->from.Paused(scheduler_.Now())) {
      scheduler_.At(call->from.paused_until,
                    [this, call, reply = std::move(reply)]() mutable { End<Reply>(call, std::move(reply)); });
      return;
    }
    history_.Add(static_cast<uint64_t>(reply.status().code()));
    ends_.erase(call->id);
    auto done = std::exchange(call->done, nullptr);
    done(std::move(reply));
  }

  Scheduler& scheduler_;
  world::Random& random_;
  HistoryHash& history_;
  Marks& marks_;
  uint64_t calls_ = 0;
  std::map<uint64_t, std::pair<const Host*, std::function<void(absl::Status)>>> ends_;  // not answered yet
};

}  // namespace paceline::sim
