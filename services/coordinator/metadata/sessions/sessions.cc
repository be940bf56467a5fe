// Sessions: opens them, notes their signs of life, and moves them from state to state.
#include "services/coordinator/metadata/sessions/sessions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/secret/secret.h"
#include "services/coordinator/metadata/facts/catalogue.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/placement/map_plan.h"

namespace paceline::coordinator {
namespace {

// Of what a session tells of its time; it is kept as it comes.
constexpr size_t kTimeBytesMax = 4096;

// True if every segment is to be told of the state.
bool IsIntent(const SessionRecord& session) {
  switch (session.state()) {
    case SessionRecord::OPENING:
    case SessionRecord::JOINING:
    case SessionRecord::FINISHING:
    case SessionRecord::CLOSING:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Sessions::Start(OnMoved on_moved) {
  on_moved_ = std::move(on_moved);
  ListenAfresh();
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.state() == SessionRecord::CLOSED) {
      endings_[id] = EndingOf(session);
    }
    StartFanOut(session);
  }
}

void Sessions::ListenAfresh() {
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.state() != SessionRecord::CLOSED) soft_[id].heard = context_.now;
  }
}

// -- opening --

absl::Status Sessions::CheckOpen(const v1::OpenSessionRequest& request) const {
  const Limits& limits = context_.options.limits;
  ABSL_RETURN_IF_ERROR(CheckFeatureLevel(request.feature_level()));
  ABSL_RETURN_IF_ERROR(CheckName("job", request.job(), limits.name_bytes));
  ABSL_RETURN_IF_ERROR(CheckText("client", request.client(), limits.text_bytes));
  if (request.nonce() != 0) return absl::OkStatus();
  return absl::InvalidArgumentError("nonce: 0; expected a random number, drawn once a session");
}

absl::StatusOr<Ticket> Sessions::Open(const v1::OpenSessionRequest& request, absl::Time deadline,
                                      const Done<v1::OpenSessionReply>& done) {
  ABSL_RETURN_IF_ERROR(CheckOpen(request));
  const Ticket ticket = waiters_.NewTicket();
  if (context_.facts.map() != nullptr) return OpenNow(request, deadline, done, ticket);
  // No session is created before the first map: until then a shard may be started again without harm (see
  // Membership).
  return Await(
      0, Awaited::kOpen, deadline,
      [this, request, deadline, done, ticket](absl::Status status) {
        if (status.ok()) status = OpenNow(request, deadline, done, ticket).status();
        if (!status.ok()) waiters_.Tell(done, {status});
      },
      ticket);
}

void Sessions::OnMap() {
  Answer(0, Awaited::kOpen, absl::OkStatus());
  const uint64_t emptied = EmptiedSum(*context_.facts.map());
  if (std::exchange(emptied_, emptied) == emptied) return;
  // A segment that begins empty does not know the sessions being opened.
  std::vector<SessionRecord> opening;
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.state() == SessionRecord::OPENING) opening.push_back(session);
  }
  for (const SessionRecord& session : opening) StartFanOut(session);
}

absl::StatusOr<Ticket> Sessions::OpenNow(const v1::OpenSessionRequest& request, absl::Time deadline,
                                         const Done<v1::OpenSessionReply>& done, Ticket ticket) {
  uint64_t id = 0;
  if (const SessionRecord* known = FindNonce(request.nonce())) {
    id = known->id();
    if (context_.facts.FindJob(known->job())->name() != request.job()) {
      return absl::InvalidArgumentError(absl::StrCat("nonce: it belongs to session ", id, " of ",
                                                     context_.facts.JobName(known->job()),
                                                     "; draw another one"));
    }
  } else {
    ABSL_ASSIGN_OR_RETURN(id, CreateSession(request));
  }
  soft_[id].heard = context_.now;
  if (context_.facts.FindSession(id)->state() != SessionRecord::OPENING) {
    return waiters_.Tell(done, {OpenReply(id, request)});
  }
  return Await(
      id, Awaited::kOpen, deadline,
      waiters_.Telling<v1::OpenSessionReply>(done, [this, id, request] { return OpenReply(id, request); }),
      ticket);
}

absl::StatusOr<uint64_t> Sessions::CreateSession(const v1::OpenSessionRequest& request) {
  ABSL_RETURN_IF_ERROR(membership_.CheckNothingLost());
  ABSL_RETURN_IF_ERROR(CheckRoom());
  Changes changes;
  changes.counters = context_.facts.counters();
  CountersRecord& counters = *changes.counters;
  if (context_.facts.FindLoading(request.job()) != nullptr) {
    return absl::UnavailableError(
        absl::StrCat("job '", request.job(), "': a snapshot is being loaded into it; try again"));
  }
  const JobRecord* job = context_.facts.FindJob(request.job());
  if (job == nullptr) {
    const size_t limit = context_.options.limits.jobs;
    if (context_.facts.jobs().size() >= limit)
      return TooMany("jobs", limit, "use the name of one that exists");
    counters.set_job(counters.job() + 1);
    JobRecord& created = changes.jobs.emplace_back();
    created.set_id(counters.job());
    created.set_name(request.job());
    job = &created;
  }
  if (job->deleting()) {
    return absl::UnavailableError(
        absl::StrCat("job '", job->name(), "' is being deleted; try again when that is done"));
  }
  counters.set_session(counters.session() + 1);
  SessionRecord session;
  session.set_id(counters.session());
  session.set_job(job->id());
  session.set_client(request.client());
  session.set_nonce(request.nonce());
  session.set_state(SessionRecord::OPENING);
  // A client that does not know of secrets could not show one, and an older shard could not store its digest.
  if (request.feature_level() >= 2 && membership_.Level() >= 2) {
    session.set_secret(secret::Draw(*context_.options.random));
  }
  const bool created_job = !changes.jobs.empty();
  ABSL_RETURN_IF_ERROR(Move({session}, std::move(changes)));
  soft_[session.id()].created_job = created_job;
  return session.id();
}

const SessionRecord* Sessions::FindNonce(uint64_t nonce) const {
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.nonce() == nonce && !HasEnded(session)) return &session;
  }
  return nullptr;
}

absl::Status Sessions::CheckRoom() const {
  const Limits& limits = context_.options.limits;
  const auto& sessions = context_.facts.sessions();
  const auto open = std::ranges::count_if(
      sessions, [](const auto& session) { return session.second.state() != SessionRecord::CLOSED; });
  if (static_cast<size_t>(open) >= limits.sessions) {
    return TooMany("sessions", limits.sessions, "close one that is not needed");
  }
  if (sessions.size() < limits.session_records) return absl::OkStatus();
  return TooMany("records of sessions", limits.session_records,
                 absl::StrCat("close session ", sessions.begin()->first, ", the oldest that is open"));
}

v1::OpenSessionReply Sessions::OpenReply(uint64_t session, const v1::OpenSessionRequest& request) const {
  const uint32_t job = context_.facts.FindSession(session)->job();
  v1::OpenSessionReply reply;
  if (const auto soft = soft_.find(session); soft != soft_.end()) {
    reply.set_created_job(soft->second.created_job);
  }
  reply.set_job(job);
  reply.set_session(session);
  reply.set_secret(context_.facts.FindSession(session)->secret());
  reply.set_data_lost(context_.facts.FindJob(job)->data_lost());
  if (request.takes_compact_map() && context_.facts.map()->feature_level() >= 2) {
    reply.set_compact_map(context_.facts.map_history().Compact());
  } else {
    *reply.mutable_map() = *context_.facts.map();
  }
  *reply.mutable_catalogue() = CatalogueOf(context_.facts, job);
  reply.set_feature_level(std::min(request.feature_level(), kFeatureLevel));
  reply.set_keep_alive_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(context_.options.keep_alive)));
  reply.set_session_timeout_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(context_.options.session_timeout)));
  return reply;
}

// -- moving on --

absl::Status Sessions::Move(std::vector<SessionRecord> next, Changes changes) {
  std::vector<SessionRecord::State> was;
  for (const SessionRecord& session : next) {
    const SessionRecord* before = context_.facts.FindSession(session.id());
    was.push_back(before == nullptr ? SessionRecord::STATE_UNSPECIFIED : before->state());
  }
  for (SessionRecord& session : next) {
    if (IsIntent(session)) session.set_change(context_.facts.NumberIn(changes));
  }
  changes.sessions = next;
  ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  for (size_t i = 0; i < next.size(); ++i) {
    context_.probe.SessionMoved(next[i], was[i]);
    StartFanOut(next[i]);
  }
  for (const SessionRecord& session : next) on_moved_(session);
  return absl::OkStatus();
}

absl::Status Sessions::Move(const SessionRecord& session, SessionRecord::State state) {
  SessionRecord next = session;
  next.set_state(state);
  if (state == SessionRecord::FINISHED) next.clear_seals();
  return Move({next});
}

void Sessions::StartFanOut(const SessionRecord& session) {
  v1::Change change = ChangeFor(session);
  if (change.action_case() == v1::Change::ACTION_NOT_SET) {
    fan_outs_.Stop(Subject::Session(session.id()));
  } else {
    fan_outs_.Start(std::move(change));
  }
}

v1::Change Sessions::ChangeFor(const SessionRecord& session) const {
  v1::Change change = ChangeOf(v1::Subject::SESSION, session.id(), session.job(), session.change());
  switch (session.state()) {
    case SessionRecord::OPENING:
      change.mutable_open()->set_closed_floor(context_.facts.counters().closed_floor());
      if (session.secret().empty()) break;
      change.mutable_open()->set_secret_sha256(secret::Sha256(session.secret()));
      break;
    case SessionRecord::JOINING:
      change.mutable_join()->set_start_clock(session.start_clock());
      change.mutable_join()->set_rank(session.rank());
      break;
    case SessionRecord::FINISHING:
      change.mutable_finish()->set_seals(session.seals());
      change.mutable_finish()->set_clock(session.finish_clock());
      break;
    case SessionRecord::CLOSING:
      change.mutable_evict()->set_reason(session.reason());
      change.mutable_evict()->set_data_lost(session.data_lost());
      break;
    default:
      break;
  }
  return change;
}

void Sessions::OnLate(const SessionRecord& session) {
  if (IsIntent(session)) (void)Move({session});  // with a new number; a failure is tried again
}

void Sessions::OnNamedEverywhere(const SessionRecord& session) {
  // If the commit fails the fan-out calls again after a pause.
  const uint64_t id = session.id();
  if (session.state() == SessionRecord::OPENING && Move(session, SessionRecord::OPEN).ok()) {
    soft_[id].heard = context_.now;
    Answer(id, Awaited::kOpen, absl::OkStatus());
  } else if (session.state() == SessionRecord::FINISHING && Move(session, SessionRecord::FINISHED).ok()) {
    Answer(id, Awaited::kFinish, absl::OkStatus());
  } else if (session.state() == SessionRecord::CLOSING && FinishClosing(session).ok()) {
    Answer(id, Awaited::kClose, absl::OkStatus());
  }
}

// -- signs of life --

absl::StatusOr<v1::KeepAliveReply> Sessions::KeepAlive(const v1::KeepAliveRequest& request) {
  ABSL_ASSIGN_OR_RETURN(const SessionRecord* session, FindLive(request.session(), request.token()));
  Soft& soft = soft_[request.session()];
  soft.heard = context_.now;
  soft.clock = std::max(soft.clock, request.clock());
  if (request.has_loss()) soft.told.loss = request.loss();
  soft.told.rows_from_cache = std::max(soft.told.rows_from_cache, request.rows_from_cache());
  soft.told.rows_pulled = std::max(soft.told.rows_pulled, request.rows_pulled());
  if (request.has_time() && request.time().ByteSizeLong() <= kTimeBytesMax) soft.time = request.time();
  v1::KeepAliveReply reply;
  reply.set_map_version(context_.facts.map_version());
  if (request.has_told_version()) TellChanges(session->job(), request.told_version(), reply);
  return reply;
}

// Everything that is told was agreed by every segment.
void Sessions::TellChanges(uint32_t job, uint64_t told, v1::KeepAliveReply& reply) const {
  reply.set_catalogue_version(context_.facts.counters().catalogue_version());
  if (reply.catalogue_version() <= told && !Planted(Bug::kBoundToldEarly)) return;
  for (const auto& [id, table] : context_.facts.tables()) {
    if (table.job() != job) continue;
    const RuleChangeRecord* under_way =
        Planted(Bug::kBoundToldEarly) ? context_.facts.FindRuleChange(id) : nullptr;
    if (under_way == nullptr && table.rule_change() == 0) continue;
    v1::Table& changed = *reply.add_changed();
    changed = table;
    if (under_way == nullptr) continue;
    changed.set_rule_change(under_way->number());
    changed.set_rule_clock(under_way->clock());
    changed.set_bound(under_way->bound());
    *changed.mutable_schema()->mutable_rule() = under_way->rule();
  }
}

absl::Duration Sessions::Silence(uint64_t session) const {
  const auto it = soft_.find(session);
  return it == soft_.end() ? absl::ZeroDuration() : context_.now - it->second.heard;
}

Sessions::Told Sessions::ToldBy(uint64_t session) const {
  const auto it = soft_.find(session);
  return it == soft_.end() ? Told() : it->second.told;
}

const v1::WorkerTime* Sessions::TimeOf(uint64_t session) const {
  const auto it = soft_.find(session);
  return it == soft_.end() || !it->second.time.has_value() ? nullptr : &*it->second.time;
}

uint64_t Sessions::Clock(uint64_t session) const {
  const auto it = soft_.find(session);
  return it == soft_.end() ? 0 : it->second.clock;
}

}  // namespace paceline::coordinator
