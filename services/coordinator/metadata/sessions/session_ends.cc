// Ends of sessions, closed by their client or evicted, and of requests that wait for them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/secret/secret.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/sessions/sessions.h"

namespace paceline::coordinator {
namespace {

constexpr size_t kEndingsMax = 4096;
constexpr size_t kEvictedAtOnceMax = 256;  // in one commit

absl::Status CheckToken(const SessionRecord& session, const std::string& token) {
  if (session.secret().empty() || secret::Equal(session.secret(), token)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("token: it is not the secret of session ", session.id(),
                                                  "; expected the secret that OpenSession returned"));
}

}  // namespace

bool Sessions::HasEnded(const SessionRecord& session) {
  return session.state() == SessionRecord::CLOSING || session.state() == SessionRecord::CLOSED;
}

absl::StatusOr<Ticket> Sessions::Close(const v1::CloseSessionRequest& request, absl::Time deadline,
                                       const Done<v1::CloseSessionReply>& done) {
  const uint64_t id = request.session();
  ABSL_RETURN_IF_ERROR(CheckText("reason", request.reason(), context_.options.limits.text_bytes));
  const SessionRecord* session = context_.facts.FindSession(id);
  if (session == nullptr && (id == 0 || id > context_.facts.counters().session())) {
    return FindLive(id, request.token()).status();
  }
  if (session == nullptr || session->state() == SessionRecord::CLOSED) {
    return waiters_.Tell(done, {v1::CloseSessionReply()});
  }
  ABSL_RETURN_IF_ERROR(CheckToken(*session, request.token()));
  if (session->state() != SessionRecord::CLOSING) {
    SessionRecord next = *session;
    next.set_reason(request.reason().empty() ? "its client closed it" : request.reason());
    ABSL_RETURN_IF_ERROR(BeginClosing(
        {next}, absl::FailedPreconditionError(absl::StrCat("session ", id, " is being closed"))));
  }
  return Await(id, Awaited::kClose, deadline, waiters_.Telling(done));
}

absl::Status Sessions::BeginClosing(std::vector<SessionRecord> sessions, const absl::Status& answer) {
  Changes changes;
  for (SessionRecord& session : sessions) {
    if (session.state() == SessionRecord::OPENING) {
      if (!changes.counters.has_value()) changes.counters = context_.facts.counters();
      changes.counters->set_unopened(changes.counters->unopened() + 1);
    }
    session.set_state(SessionRecord::CLOSING);
    session.clear_seals();  // the largest part of the record, and no longer needed
  }
  ABSL_RETURN_IF_ERROR(Move(sessions, std::move(changes)));
  for (const SessionRecord& session : sessions) {
    for (const Awaited awaited : {Awaited::kOpen, Awaited::kJoin, Awaited::kFinish}) {
      Answer(session.id(), awaited, answer);
    }
  }
  return absl::OkStatus();
}

absl::Status Sessions::FinishClosing(SessionRecord session) {
  session.set_state(SessionRecord::CLOSED);
  session.clear_secret();
  const uint64_t id = session.id();
  const auto& sessions = context_.facts.sessions();
  Changes changes;
  changes.counters = context_.facts.counters();
  uint64_t floor = changes.counters->closed_floor();
  // Below the floor no record is needed: the number alone shows that the session is closed.
  for (; floor < changes.counters->session(); ++floor) {
    const auto it = sessions.find(floor + 1);
    if (it == sessions.end()) continue;  // a number that was never used
    if (it->first != id && it->second.state() != SessionRecord::CLOSED) break;
    changes.forgotten_sessions.push_back(it->first);
  }
  changes.counters->set_closed_floor(floor);
  if (id > floor) changes.sessions.push_back(session);
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  endings_[id] = EndingOf(session);
  while (endings_.size() > kEndingsMax) endings_.erase(endings_.begin());
  soft_.erase(id);
  fan_outs_.Stop(Subject::Session(id));
  context_.probe.SessionMoved(session, SessionRecord::CLOSING);
  on_moved_(session);
  return absl::OkStatus();
}

absl::StatusOr<const SessionRecord*> Sessions::FindLive(uint64_t session, const std::string& token) const {
  const SessionRecord* record = context_.facts.FindSession(session);
  if (record != nullptr) ABSL_RETURN_IF_ERROR(CheckToken(*record, token));
  if (record != nullptr && !HasEnded(*record)) return record;
  if (record != nullptr) {
    return EndedStatus(session, EndingOf(*record));
  }
  const uint64_t newest = context_.facts.counters().session();
  if (session == 0 || session > newest) {
    return absl::FailedPreconditionError(absl::StrCat("session ", session,
                                                      " was never opened in this cluster (the "
                                                      "newest is ",
                                                      newest, "); open one with OpenSession"));
  }
  const auto it = endings_.find(session);
  return EndedStatus(session, it == endings_.end() ? Ending() : it->second);
}

Sessions::Ending Sessions::EndingOf(const SessionRecord& session) {
  return {session.reason(), session.evicted(), session.join_refused(), session.data_lost()};
}

absl::Status Sessions::EndedStatus(uint64_t session, const Ending& ending) const {
  const absl::string_view what = ending.evicted ? " was evicted" : " was closed";
  const std::string why = ending.reason.empty() ? "" : absl::StrCat(": ", ending.reason);
  if (ending.data_lost) return absl::DataLossError(absl::StrCat("session ", session, what, why));
  if (ending.join_refused) return absl::AbortedError(absl::StrCat("session ", session, what, why));
  return absl::FailedPreconditionError(absl::StrCat(
      "session ", session, what, why,
      "; open a new session, and do again what came after the last committed parts of this one"));
}

// -- waiting --

absl::StatusOr<Ticket> Sessions::Await(uint64_t session, Awaited awaited, absl::Time deadline,
                                       Waiters::Answer answer, Ticket ticket) {
  return waiters_.Await({.subject = Subject::Session(session),
                         .awaited = awaited,
                         .deadline = deadline,
                         .answer = std::move(answer),
                         .expired = [=, this] { return ExpiredStatus(session, awaited); },
                         .left = [=, this](bool abandoned) { OnLeft(session, abandoned); }},
                        ticket);
}

void Sessions::OnLeft(uint64_t session, bool abandoned) {
  if (!abandoned) {
    if (!waiters_.Has(Subject::Session(session), Awaited::kOpen)) GiveUpOpening(session);
    return;
  }
  // From now on the client's silence counts again.
  if (const auto it = soft_.find(session); it != soft_.end()) it->second.heard = context_.now;
}

void Sessions::OnTime() {
  std::vector<SessionRecord> silent;
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (HasEnded(session)) continue;
    // A session with a waiting request is not silent.
    if (waiters_.Has(Subject::Session(id))) soft_[id].heard = context_.now;
    if (Silence(id) <= context_.options.session_timeout || silent.size() == kEvictedAtOnceMax) continue;
    SessionRecord& next = silent.emplace_back(session);
    next.set_evicted(true);
    next.set_reason(absl::StrCat("silent for ", Seconds(Silence(id)), " (limit ",
                                 Seconds(context_.options.session_timeout), ")"));
  }
  if (silent.empty()) return;
  // They have no requests to answer. A commit that fails is tried again the next time.
  (void)BeginClosing(std::move(silent), absl::FailedPreconditionError("the session was evicted"));
}

absl::Status Sessions::EvictAll(const std::string& lost) {
  while (true) {
    std::vector<SessionRecord> open;
    for (const auto& [id, session] : context_.facts.sessions()) {
      if (HasEnded(session) || open.size() == kEvictedAtOnceMax) continue;
      SessionRecord& next = open.emplace_back(session);
      next.set_evicted(true);
      next.set_data_lost(true);
      next.set_reason(lost);
    }
    if (open.empty()) return absl::OkStatus();
    ABSL_RETURN_IF_ERROR(BeginClosing(std::move(open), absl::DataLossError(lost)));
  }
}

void Sessions::GiveUpOpening(uint64_t session) {
  const SessionRecord* record = context_.facts.FindSession(session);
  if (record == nullptr || record->state() != SessionRecord::OPENING) return;
  SessionRecord next = *record;
  next.set_reason("it was not open everywhere in time");
  // If the commit fails the session stays, and is evicted for its silence.
  (void)BeginClosing({next}, absl::UnavailableError(absl::StrCat("session ", session, " is being closed")));
}

std::string Sessions::Waits(const SessionRecord& session) const {
  if (std::string waits = fan_outs_.Waits(Subject::Session(session.id())); !waits.empty()) return waits;
  return describe_join_ ? describe_join_(session) : "";
}

absl::Status Sessions::ExpiredStatus(uint64_t id, Awaited awaited) const {
  const SessionRecord* session = context_.facts.FindSession(id);
  if (session == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("the cluster has not started: ", context_.facts.shards().size(), " of ",
                     context_.options.shards, " shards have joined; start the others"));
  }
  const std::string whose =
      absl::StrCat("session ", session->id(), " of ", context_.facts.JobName(session->job()));
  const std::string waits = absl::StrCat("it waits for ", Waits(*session));
  switch (awaited) {
    case Awaited::kOpen:
      return absl::UnavailableError(
          absl::StrCat(whose, " is not open everywhere: ", waits, "; it was closed, try again"));
    case Awaited::kJoin:
      return absl::DeadlineExceededError(absl::StrCat(whose, " has not joined: ", waits));
    case Awaited::kFinish:
      return absl::DeadlineExceededError(
          absl::StrCat(whose, " has not finished everywhere: ", waits, "; it goes on finishing, ask again"));
    default:
      break;
  }
  return absl::DeadlineExceededError(
      absl::StrCat(whose, " is not closed everywhere: ", waits, "; it goes on closing, ask again"));
}

}  // namespace paceline::coordinator
