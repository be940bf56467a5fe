#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/changes/fan_out.h"
#include "services/coordinator/metadata/changes/waiters.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"

namespace paceline::coordinator {

// The life of sessions:
//
//   OPENING → OPEN → JOINING → WORKER → FINISHING → FINISHED
//       └───────┴───────┴─────────┴─────────┴──────────┴────→ CLOSING → CLOSED
//
// The states ending in -ING are intents: committed first, then carried to every segment by a fan-out, then
// followed by the next state. The next leader finds the intent in the store and takes it up.
//
// This class handles opening, signs of life, closing and eviction; workers.h the states between.
class Sessions {
 public:
  // Called after a session has changed its state, within the same visit.
  using OnMoved = std::function<void(const SessionRecord& session)>;

  Sessions(Context& context, Membership& membership, FanOuts& fan_outs, Waiters& waiters)
      : context_(context), membership_(membership), fan_outs_(fan_outs), waiters_(waiters) {}

  // Takes up every intent found in the store. Call once, before anything else.
  void Start(OnMoved on_moved);

  // -- requests --
  // An error is the answer: then `done` is not called. So it is with all parts of the coordinator.
  absl::StatusOr<Ticket> Open(const v1::OpenSessionRequest& request, absl::Time deadline,
                              const Done<v1::OpenSessionReply>& done);
  absl::StatusOr<v1::KeepAliveReply> KeepAlive(const v1::KeepAliveRequest& request);
  absl::StatusOr<Ticket> Close(const v1::CloseSessionRequest& request, absl::Time deadline,
                               const Done<v1::CloseSessionReply>& done);

  // -- events --
  // The fan-out of a session that is OPENING, FINISHING or CLOSING has reached every segment.
  void OnNamedEverywhere(const SessionRecord& session);
  void OnLate(const SessionRecord& session);
  void OnMap();
  void OnTime();
  void ListenAfresh();

  // -- for workers.h --
  // Commits the sessions' next states, with `changes`, and starts the fan-outs that these states need.
  absl::Status Move(std::vector<SessionRecord> next, Changes changes = {});
  // The same for one session whose only change is `state`.
  absl::Status Move(const SessionRecord& session, SessionRecord::State state);
  // Commits CLOSING for the sessions; answers their waiting requests with `answer`, except requests to close.
  absl::Status BeginClosing(std::vector<SessionRecord> sessions, const absl::Status& answer);
  // A session that has not begun to close; otherwise kFailedPrecondition says how it ended.
  // kPermissionDenied: `token` is not its secret.
  absl::StatusOr<const SessionRecord*> FindLive(uint64_t session, const std::string& token) const;
  // Keeps the request until Answer, its deadline, or the session's end.
  absl::StatusOr<Ticket> Await(uint64_t session, Awaited awaited, absl::Time deadline, Waiters::Answer answer,
                               Ticket ticket = 0);
  void Answer(uint64_t session, Awaited awaited, const absl::Status& status) {
    waiters_.AnswerFor(Subject::Session(session), awaited, status);
  }
  // Sets how to describe what a joining session waits for; called by workers.h.
  void DescribeJoinsBy(std::function<std::string(const SessionRecord&)> describe) {
    describe_join_ = std::move(describe);
  }

  absl::Duration Silence(uint64_t session) const;
  uint64_t Clock(uint64_t session) const;
  // The statistics that a session last reported; empty: none since the coordinator started.
  struct Told {
    std::optional<double> loss;
    uint64_t rows_from_cache = 0;
    uint64_t rows_pulled = 0;
  };
  Told ToldBy(uint64_t session) const;
  // Where the session's time goes, as it told last; nullptr: it has not.
  const v1::WorkerTime* TimeOf(uint64_t session) const;
  // Evicts every session of every job, because acknowledged data is gone, as `lost` describes. Later calls
  // about such a session are answered DATA_LOSS.
  absl::Status EvictAll(const std::string& lost);
  // The shards or segments that the session's intent still waits for, for messages.
  std::string Waits(const SessionRecord& session) const;

 private:
  // Soft state of a session: a restart of the coordinator forgets it.
  struct Soft {
    absl::Time heard;
    uint64_t clock = 0;
    Told told;
    std::optional<v1::WorkerTime> time;
    bool created_job = false;  // no job of that name existed before
  };
  // Why a session was closed; kept for a while after its record is gone.
  struct Ending {
    std::string reason;
    bool evicted = false;
    bool join_refused = false;
    bool data_lost = false;
  };
  static Ending EndingOf(const SessionRecord& session);

  absl::Status CheckOpen(const v1::OpenSessionRequest& request) const;
  // Tells the rates and bounds that have changed since version `told` of the catalogue.
  void TellChanges(uint32_t job, uint64_t told, v1::KeepAliveReply& reply) const;
  absl::StatusOr<Ticket> OpenNow(const v1::OpenSessionRequest& request, absl::Time deadline,
                                 const Done<v1::OpenSessionReply>& done, Ticket ticket);
  absl::StatusOr<uint64_t> CreateSession(const v1::OpenSessionRequest& request);
  // The session that a call with this nonce opened. nullptr: none; or it has ended, so that a repeated call
  // opens another one.
  const SessionRecord* FindNonce(uint64_t nonce) const;
  absl::Status CheckRoom() const;
  v1::OpenSessionReply OpenReply(uint64_t session, const v1::OpenSessionRequest& request) const;
  // Without an action: its state is no intent.
  v1::Change ChangeFor(const SessionRecord& session) const;
  void StartFanOut(const SessionRecord& session);
  absl::Status FinishClosing(SessionRecord session);
  static bool HasEnded(const SessionRecord& session);
  absl::Status EndedStatus(uint64_t session, const Ending& ending) const;
  absl::Status ExpiredStatus(uint64_t id, Awaited awaited) const;
  // A request that waited for the session was given up before it was answered.
  void OnLeft(uint64_t session, bool abandoned);
  void GiveUpOpening(uint64_t session);

  Context& context_;
  Membership& membership_;
  FanOuts& fan_outs_;
  Waiters& waiters_;
  OnMoved on_moved_;
  std::function<std::string(const SessionRecord&)> describe_join_;
  std::map<uint64_t, Soft> soft_;
  std::map<uint64_t, Ending> endings_;
  uint64_t emptied_ = 0;  // EmptiedSum() of the last map seen
};

}  // namespace paceline::coordinator
