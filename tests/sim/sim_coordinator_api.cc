// The coordinator as clients reach it.
#include <memory>
#include <utility>

#include "tests/sim/sim_coordinator.h"

namespace paceline::sim {

using coordinator::CoordinatorCore;

namespace {

// How much later than the coordinator's a client's deadline is: then it hears why.
constexpr absl::Duration kGrace = absl::Milliseconds(500);

}  // namespace

template <class Request, class Reply, class Method>
void SimCoordinatorApi::Ask(Method method, const Request& request, absl::Duration timeout,
                            Callback<Reply> done) {
  world_.calls.Call<Reply>(
      client_, coordinator_.host(), timeout,
      [this, method, request, until = world_.Now() + timeout](Calls::Answer<Reply> answer) {
        [[maybe_unused]] const absl::Time deadline = coordinator_.clock().Now() + (until - world_.Now());
        coordinator_.Visit([&](CoordinatorCore& core) {
          if constexpr (std::is_invocable_v<Method, CoordinatorCore&, const Request&, absl::Time,
                                            const coordinator::Done<Reply>&>) {
            (core.*method)(request, deadline, answer);
          } else {
            answer((core.*method)(request));
          }
        });
      },
      std::move(done));
}

void SimCoordinatorApi::OpenSession(const v1::OpenSessionRequest& request, absl::Duration timeout,
                                    Callback<v1::OpenSessionReply> done) {
  Ask<v1::OpenSessionRequest, v1::OpenSessionReply>(
      &CoordinatorCore::OpenSession, request, timeout,
      [&coordinator = coordinator_, nonce = request.nonce(),
       done = std::move(done)](absl::StatusOr<v1::OpenSessionReply> reply) mutable {
        if (reply.ok()) coordinator.OnHandedOut(reply->session(), nonce);
        done(std::move(reply));
      });
}
void SimCoordinatorApi::JoinJob(const v1::JoinJobRequest& request, absl::Duration timeout,
                                Callback<v1::JoinJobReply> done) {
  Ask(&CoordinatorCore::JoinJob, request, timeout, std::move(done));
}
void SimCoordinatorApi::KeepAlive(const v1::KeepAliveRequest& request, absl::Duration timeout,
                                  Callback<v1::KeepAliveReply> done) {
  Ask(&CoordinatorCore::KeepAlive, request, timeout, std::move(done));
}
void SimCoordinatorApi::FinishWorker(const v1::FinishWorkerRequest& request, absl::Duration timeout,
                                     Callback<v1::FinishWorkerReply> done) {
  Ask(&CoordinatorCore::FinishWorker, request, timeout, std::move(done));
}
void SimCoordinatorApi::CloseSession(const v1::CloseSessionRequest& request, absl::Duration timeout,
                                     Callback<v1::CloseSessionReply> done) {
  Ask(&CoordinatorCore::CloseSession, request, timeout, std::move(done));
}
void SimCoordinatorApi::OpenTable(const v1::OpenTableRequest& request, absl::Duration timeout,
                                  Callback<v1::OpenTableReply> done) {
  Ask(&CoordinatorCore::OpenTable, request, timeout, std::move(done));
}

void SimCoordinatorApi::DropTable(const v1::DropTableRequest& request, absl::Duration timeout,
                                  Callback<v1::DropTableReply> done) {
  Ask(&CoordinatorCore::DropTable, request, timeout, std::move(done));
}
void SimCoordinatorApi::ChangeRule(const v1::ChangeRuleRequest& request, absl::Duration timeout,
                                   Callback<v1::ChangeRuleReply> done) {
  Ask(&CoordinatorCore::ChangeRule, request, timeout, std::move(done));
}
void SimCoordinatorApi::OpenWork(const v1::OpenWorkRequest& request, absl::Duration timeout,
                                 Callback<v1::OpenWorkReply> done) {
  Ask(&CoordinatorCore::OpenWork, request, timeout, std::move(done));
}
void SimCoordinatorApi::ReportWork(const v1::ReportWorkRequest& request, absl::Duration timeout,
                                   Callback<v1::ReportWorkReply> done) {
  Ask(&CoordinatorCore::ReportWork, request, timeout, std::move(done));
}
void SimCoordinatorApi::DeleteJob(const v1::DeleteJobRequest& request, absl::Duration timeout,
                                  Callback<v1::DeleteJobReply> done) {
  Ask(&CoordinatorCore::DeleteJob, request, timeout, std::move(done));
}

// -- snapshots --

// The coordinator's answer is judged where it is made: it may be lost on its way.
void SimCoordinatorApi::CreateSnapshot(const v1::CreateSnapshotRequest& request, absl::Duration timeout,
                                       Callback<v1::CreateSnapshotReply> done) {
  world_.calls.Call<v1::CreateSnapshotReply>(
      client_, coordinator_.host(), timeout + kGrace,
      [this, request, until = world_.Now() + timeout](Calls::Answer<v1::CreateSnapshotReply> answer) {
        const auto told = [this, answer](absl::StatusOr<v1::CreateSnapshotReply> reply) {
          if (reply.ok()) coordinator_.OnSnapshotTold(reply->snapshot().name());
          answer(std::move(reply));
        };
        const absl::Time deadline = coordinator_.clock().Now() + (until - world_.Now());
        coordinator_.Visit([&](CoordinatorCore& core) { core.CreateSnapshot(request, deadline, told); });
      },
      std::move(done));
}
void SimCoordinatorApi::RestoreSnapshot(const v1::RestoreSnapshotRequest& request, absl::Duration timeout,
                                        Callback<v1::RestoreSnapshotReply> done) {
  Ask<v1::RestoreSnapshotRequest, v1::RestoreSnapshotReply>(
      &CoordinatorCore::RestoreSnapshot, request, timeout,
      [&invariants = world_.invariants,
       done = std::move(done)](absl::StatusOr<v1::RestoreSnapshotReply> reply) mutable {
        if (reply.ok()) invariants.anybody_was_told = true;
        done(std::move(reply));
      });
}
void SimCoordinatorApi::DeleteSnapshot(const v1::DeleteSnapshotRequest& request, absl::Duration timeout,
                                       Callback<v1::DeleteSnapshotReply> done) {
  Ask(&CoordinatorCore::DeleteSnapshot, request, timeout, std::move(done));
}

// -- the map --

// A stream of maps, which ends with the coordinator's process or with its client's interest.
struct SimCoordinatorApi::WatchState {
  Host& client;
  uint64_t start = 0;  // of the coordinator
  bool let_go = false;
  bool ended = false;
  absl::Time last = absl::InfinitePast();  // when the last map arrives: they keep their order
  absl::AnyInvocable<void(v1::Map)> on_map;
  absl::AnyInvocable<void(absl::Status)> on_end;
};

class SimCoordinatorApi::WatchHandle final : public Watch {
 public:
  explicit WatchHandle(std::shared_ptr<WatchState> state) : state_(std::move(state)) {}
  ~WatchHandle() override { state_->let_go = true; }

 private:
  const std::shared_ptr<WatchState> state_;
};

std::unique_ptr<sdk::CoordinatorApi::Watch> SimCoordinatorApi::WatchMap(
    uint64_t known, absl::AnyInvocable<void(v1::Map)> on_map, absl::AnyInvocable<void(absl::Status)> on_end) {
  auto state = std::make_shared<WatchState>(WatchState{.client = client_,
                                                       .start = 0,
                                                       .let_go = false,
                                                       .ended = false,
                                                       .last = absl::InfinitePast(),
                                                       .on_map = std::move(on_map),
                                                       .on_end = std::move(on_end)});
  const auto draw = [&world = world_, &from = coordinator_.host(), &to = client_] {
    return world.calls.latency.Draw(world.random, from, to, world.Now());
  };
  world_.scheduler.After(draw(), [&world = world_, &coordinator = coordinator_, state, known, draw] {
    state->start = coordinator.starts();
    coordinator.Visit([&](CoordinatorCore& core) {
      const auto told = [&world, state, draw](std::shared_ptr<const v1::Map> map) {
        state->last = std::max(state->last, world.Now() + draw());
        world.scheduler.At(std::max(state->last, state->client.paused_until), [state, map] {
          if (!state->let_go && !state->ended) state->on_map(*map);
        });
      };
      (void)core.WatchMap(known, told);
    });
    CheckWatch(world, coordinator, state);
  });
  return std::make_unique<WatchHandle>(std::move(state));
}

void SimCoordinatorApi::CheckWatch(World& world, SimCoordinator& coordinator,
                                   const std::shared_ptr<WatchState>& state) {
  if (state->let_go) return;
  const bool alive = coordinator.core() != nullptr && coordinator.starts() == state->start;
  if (alive) {
    world.scheduler.After(absl::Milliseconds(20),
                          [&world, &coordinator, state] { CheckWatch(world, coordinator, state); });
  } else if (state->client.Paused(world.Now())) {
    world.scheduler.At(state->client.paused_until,
                       [&world, &coordinator, state] { CheckWatch(world, coordinator, state); });
  } else {
    state->ended = true;
    state->on_end(absl::UnavailableError("the coordinator is gone"));
  }
}

}  // namespace paceline::sim
