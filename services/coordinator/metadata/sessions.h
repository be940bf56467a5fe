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
#include "services/coordinator/metadata/context.h"
#include "services/coordinator/metadata/fan_out.h"
#include "services/coordinator/metadata/membership.h"
#include "services/coordinator/metadata/waiters.h"

namespace paceline::coordinator {

// The life of sessions:
//
//   OPENING → OPEN → JOINING → WORKER → FINISHING → FINISHED
//       └───────┴───────┴─────────┴─────────┴──────────┴────→ CLOSING → CLOSED
//
// The states ending in -ING are intents: committed first, then carried to every segment by a fan-out, then
// followed by the next state. Whoever leads next finds the intent in the store and takes it up.
//
// This class has opening, signs of life, closing and eviction, and the requests that wait; workers.h has what
// lies between.
class Sessions {
 public:
  // Told after a session has moved on, within the same visit.
  using OnMoved = std::function<void(const SessionRecord& session)>;

  Sessions(Context& context, Membership& membership, FanOuts& fan_outs)
      : context_(context), membership_(membership), fan_outs_(fan_outs) {}

  // Takes up every intent found in the store. Call once, before anything else.
  void Start(OnMoved on_moved);

  // -- requests --
  Ticket Open(const v1::OpenSessionRequest& request, absl::Time deadline, Done<v1::OpenSessionReply> done);
  absl::StatusOr<v1::KeepAliveReply> KeepAlive(const v1::KeepAliveRequest& request);
  Ticket Close(const v1::CloseSessionRequest& request, absl::Time deadline, Done<v1::CloseSessionReply> done);
  void Abandon(Ticket ticket);
  // Answers everything that waits with `why`.
  void AnswerEverything(const absl::Status& why);

  // -- events --
  // The fan-out of a session that is OPENING, FINISHING or CLOSING has reached every segment.
  void OnNamedEverywhere(const SessionRecord& session);
  void OnMap();
  void OnTime();
  void ListenAfresh();

  // -- for workers.h --
  // Commits the sessions' next states, with `changes`, and starts the fan-outs they call for.
  absl::Status Move(std::vector<SessionRecord> next, Changes changes = {});
  // The same for one session that moves to `state` and nothing else.
  absl::Status Move(const SessionRecord& session, SessionRecord::State state);
  // Commits CLOSING for the sessions; their requests but those to close are answered with `answer`.
  absl::Status BeginClosing(std::vector<SessionRecord> sessions, const absl::Status& answer);
  // A session that has not begun to close; otherwise kFailedPrecondition saying what became of it.
  // kPermissionDenied: `token` is not its secret.
  absl::StatusOr<const SessionRecord*> FindLive(uint64_t session, const std::string& token) const;
  // Keeps the request until Answer, its deadline, or the session's end.
  Ticket Await(uint64_t session, Awaited awaited, absl::Time deadline, Waiters::Answer answer);
  void Answer(uint64_t session, Awaited awaited, const absl::Status& status);
  // `given` or what the request's own timeout says, whichever is first.
  absl::Time DeadlineOf(absl::Time given, uint32_t timeout_ms) const;
  // Sends `answer` to whoever asked, at the end of the visit.
  template <class Reply>
  Ticket Tell(const Done<Reply>& done, absl::StatusOr<Reply> answer) {
    context_.outbox.Add([done, answer = std::move(answer)] { done(answer); });
    return 0;
  }
  // Says of a session that waits to join what for; set by workers.h.
  void DescribeJoinsBy(std::function<std::string(const SessionRecord&)> describe) {
    describe_join_ = std::move(describe);
  }

  // For requests that wait elsewhere: no two have one ticket.
  Ticket NewTicket() { return waiters_.NewTicket(); }
  const Waiters& waiters() const { return waiters_; }
  absl::Time NextDeadline() const { return waiters_.NextDeadline(); }
  absl::Duration Silence(uint64_t session) const;
  uint64_t Clock(uint64_t session) const;
  // As it has told last for people to see; nothing since the coordinator started: empty.
  struct Told {
    std::optional<double> loss;
    uint64_t rows_from_cache = 0;
    uint64_t rows_pulled = 0;
  };
  Told ToldBy(uint64_t session) const;
  // Evicts every session of every job: acknowledged data is gone, which `lost` says. Whoever asks for such a
  // session, or goes on with it, is answered DATA_LOSS.
  absl::Status EvictAll(const std::string& lost);
  // What keeps the session's intent from being done, for messages.
  std::string Waits(const SessionRecord& session) const;

 private:
  // What a restart forgets of a session.
  struct Soft {
    absl::Time heard;
    uint64_t clock = 0;
    Told told;
    bool created_job = false;  // there was no job of that name before
  };
  // Why a session was closed, kept a while after its record is gone.
  struct Ending {
    std::string reason;
    bool evicted = false;
    bool join_refused = false;
    bool data_lost = false;
  };
  static Ending EndingOf(const SessionRecord& session);

  absl::Status CheckOpen(const v1::OpenSessionRequest& request) const;
  Ticket OpenNow(const v1::OpenSessionRequest& request, absl::Time deadline, Done<v1::OpenSessionReply> done,
                 Ticket ticket);
  absl::StatusOr<uint64_t> CreateSession(const v1::OpenSessionRequest& request);
  // The session that a call with this nonce opened; nullptr: none, or it has ended, so that a repeated call
  // opens another one.
  const SessionRecord* FindNonce(uint64_t nonce) const;
  absl::Status CheckRoom() const;
  v1::OpenSessionReply OpenReply(uint64_t session, uint32_t clients_level) const;
  v1::SessionChange ChangeFor(const SessionRecord& session) const;
  void StartFanOut(const SessionRecord& session);
  absl::Status FinishClosing(SessionRecord session);
  static bool HasEnded(const SessionRecord& session);
  absl::Status EndedStatus(uint64_t session, const Ending& ending) const;
  void EvictSilent();
  void AnswerHopeless();
  void AnswerExpired();
  absl::Status ExpiredStatus(const Waiters::Waiter& waiter) const;
  void GiveUpOpening(uint64_t session);

  Context& context_;
  Membership& membership_;
  FanOuts& fan_outs_;
  OnMoved on_moved_;
  std::function<std::string(const SessionRecord&)> describe_join_;
  Waiters waiters_;
  std::map<uint64_t, Soft> soft_;
  std::map<uint64_t, Ending> endings_;
  uint64_t emptied_ = 0;  // EmptiedSum() of the map that was seen last
};

}  // namespace paceline::coordinator
