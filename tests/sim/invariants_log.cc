// Invariants of logs and acknowledgements.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/log/record_codec.h"
#include "tests/sim/invariants.h"

namespace paceline::sim {
namespace {

std::string Name(SegmentId segment, SessionId session) {
  return absl::StrCat("segment ", segment.v, ", session ", session.v, ": ");
}

}  // namespace

// Per (segment, epoch) at most one (shard, incarnation) answers, and none once a later epoch has begun.
void Invariants::OnePrimary(const ring::Member& by, SegmentId segment, Epoch epoch) {
  SegmentLedger& ledger = ledgers_[segment.v];
  const ring::Member& first = ledger.primaries.emplace(epoch, by).first->second;
  if (first != by) {
    verdict_.Violated("OnePrimary", absl::StrCat("segment ", segment.v, ", epoch ", epoch.v, ": ",
                                                 ring::ToString(first), " and ", ring::ToString(by)));
  }
  if (epoch < ledger.epoch) {
    verdict_.Violated("OnePrimary",
                      absl::StrCat("segment ", segment.v, ": ", ring::ToString(by), " acts in epoch ",
                                   epoch.v, ", but epoch ", ledger.epoch.v, " has begun"));
  }
  ledger.epoch = std::max(ledger.epoch, epoch);
}

void Invariants::NoOverlap(const ring::Member& by, SegmentId segment, Epoch epoch) {
  auto& [newest, who] = answered_[segment.v];
  if (epoch < newest) {
    verdict_.Violated("NoOverlap",
                      absl::StrCat("segment ", segment.v, ": ", ring::ToString(by), " answers in epoch ",
                                   epoch.v, " after ", ring::ToString(who), " has in epoch ", newest.v));
  }
  if (epoch > newest) answered_[segment.v] = {epoch, by};
}

namespace {
bool HoldsLoadedRows(const SegmentLedger& ledger) {
  return std::ranges::any_of(ledger.jobs, [](const auto& job) { return job.second.loaded > 0; });
}
}  // namespace

void Invariants::InSync(const ring::Member& member, SegmentId segment, Lsn held) {
  const SegmentLedger& ledger = ledgers_[segment.v];
  const Lsn committed = ledger.committed;
  if (held >= committed) return;
  if (!anybody_was_told) return;  // it may begin anew
  verdict_.Violated(
      "InSync", absl::StrCat("segment ", segment.v, ": ", ring::ToString(member), " is configured and holds ",
                             held.v, " records, ", committed.v, " were said to be held by all"));
}

// The log of a new epoch's primary holds every record that was committed before; what was not may be gone.
void Invariants::Completeness(const ring::Member& by, const log::Segment& after, Epoch epoch) {
  SegmentLedger& ledger = ledgers_[after.id().v];
  const Lsn began(after.version().v - 1);
  const bool asked = !ledger.sessions.empty() || HoldsLoadedRows(ledger);
  if (began == Lsn() && !(asked && anybody_was_told)) {
    if (!ledger.sessions.empty()) marks_.Hit("a session is being opened in a segment that begins anew");
    if (HoldsLoadedRows(ledger)) marks_.Hit("a job is being loaded into a segment that begins anew");
    ledger = SegmentLedger();
    undo_[after.id().v].clear();
    return;
  }
  if (began < ledger.committed) {
    verdict_.Violated("Completeness", absl::StrCat("segment ", after.id().v, ": epoch ", epoch.v, " of ",
                                                   ring::ToString(by), " begins after record ", began.v,
                                                   ", but ", ledger.committed.v, " were committed"));
  }
  if (began < ledger.lsn) {
    marks_.Hit("records that were not replicated come to nothing");
    const auto then = undo_[after.id().v].find(began);
    const bool known = then != undo_[after.id().v].end();
    if (!known && began != Lsn()) return;  // said above
    SegmentLedger restored = known ? then->second : SegmentLedger();
    for (auto& [job, logged] : restored.jobs) logged.certified = ledger.jobs[job].certified;
    for (auto& [id, session] : restored.sessions) session.ForgetLater();
    restored.primaries = ledger.primaries;
    restored.committed = ledger.committed;
    restored.began = ledger.began;
    ledger = std::move(restored);
    undo_[after.id().v].erase(undo_[after.id().v].upper_bound(began), undo_[after.id().v].end());
    ForgetMeans(after.id());
  }
  ledger.began[epoch] = began;
  for (const auto& [id, logged] : ledger.sessions) {
    const log::Segment::SessionState* session = after.FindSession(id);
    if (session == nullptr || session->applied == logged.applied) continue;
    verdict_.Violated("AckLogged", absl::StrCat(Name(after.id(), id), logged.applied.counts[0], " + ",
                                                logged.applied.counts[1], " parts are logged, but epoch ",
                                                epoch.v, " begins with ", session->applied.counts[0], " + ",
                                                session->applied.counts[1]));
  }
}

// The same position in two logs holds the same record, after the same records: with the epoch of the one
// before that follows for all prefixes.
void Invariants::LogMatching(const ring::Member& by, const log::Segment& after, const log::Record& record,
                             bool writes) {
  const SegmentId segment = after.id();
  log::LogPosition& at = logs_[{by, segment}];
  log::LogPosition before = std::exchange(at, {.epoch = after.epoch(), .lsn = after.version()});
  if (writes && after.version() == Lsn(1)) before = {};  // whether it may begin anew says Completeness
  absl::Cord bytes = log::EncodeRecord(record);
  const uint64_t hash = std::hash<std::string>()(std::string(bytes));
  const auto [it, first] = records_[segment.v].try_emplace(
      {after.epoch(), after.version()},
      Written{.hash = hash, .before = before.epoch, .record = std::move(bytes)});
  const bool follows = before.lsn.v + 1 == after.version().v;
  const char* what = nullptr;
  if (first && !writes) what = " was never written";
  if (!first && it->second.hash != hash) what = " is another one";
  if (!first && follows && it->second.before != before.epoch) what = " follows a record of another epoch";
  if (!follows) what = " does not follow the record before it";
  if (what == nullptr) return;
  verdict_.Violated("LogMatching",
                    absl::StrCat("segment ", segment.v, ": record ", after.version().v, " of epoch ",
                                 after.epoch().v, " at ", ring::ToString(by), what));
}

void Invariants::Equal(const log::Segment& primary, const log::Segment& follower, const std::string& who) {
  if (primary.version() != follower.version() || primary.Hash() == follower.Hash()) return;
  verdict_.Violated("Equal", absl::StrCat("segment ", primary.id().v, ": ", who,
                                          " holds something else than the "
                                          "primary at record ",
                                          primary.version().v));
}

// An acknowledged part is in the log, and applied at the primary of every later epoch.
void Invariants::AckLogged(SessionId session, const wire::Mark& mark, const char* when) {
  const PartNumber logged = ledgers_[mark.segment.v].Applied(session, mark.line);
  if (mark.number <= logged) return;
  verdict_.Violated("AckLogged", absl::StrCat(Name(mark.segment, session), "parts up to ", mark.number,
                                              " are acknowledged (", when, "), ", logged, " are logged"));
}

// … and every member has its record, when the primary of the newest epoch says so.
void Invariants::Replicated(SessionId session, const wire::Mark& mark) {
  const SegmentLedger& ledger = ledgers_[mark.segment.v];
  const auto logged = ledger.sessions.find(session);
  if (logged == ledger.sessions.end()) return;
  const std::vector<Lsn>& lsns = logged->second.LsnsOf(mark.line);
  if (mark.number == 0 || mark.number > lsns.size() || lsns[mark.number - 1] <= ledger.committed) return;
  verdict_.Violated("AckLogged", absl::StrCat(Name(mark.segment, session), "part ", mark.number,
                                              " is acknowledged, its record ", lsns[mark.number - 1].v,
                                              " is not: ", ledger.committed.v, " are committed"));
}

// Each (session, segment, line, number) occurs at most once in any log, with the content it was made with.
void Invariants::Once(const SegmentLedger& ledger, SegmentId segment, const log::Update& update) {
  if (update.number <= ledger.Applied(update.session, update.line)) {
    verdict_.Violated(
        "Once", absl::StrCat(Name(segment, update.session), "part ", update.number, " is logged again"));
    return;
  }
  const TrueSession* session = truth_.Find(update.session);
  const SegmentAndLine where{segment.v, update.line};
  if (session == nullptr || update.number > session->Last(where)) {
    verdict_.Violated("Once",
                      absl::StrCat(Name(segment, update.session), "part ", update.number, " was never made"));
    return;
  }
  const TruePart& part = session->parts.at(where)[update.number - 1];
  // A part of a table that is dropped may have been refused, and an empty one have taken its number; its user
  // was told so first.
  const bool gone = truth_.IsDropped(part.table) && update.count == 0 && part.may_be_empty;
  const bool same = !part.valid
                        ? update.count == 0
                        : gone || (update.table == part.table && update.clock == part.clock &&
                                   std::string(update.keys.data(), update.keys.size()) == part.keys &&
                                   std::string(update.values.data(), update.values.size()) == part.values);
  if (!same) {
    verdict_.Violated("Once", absl::StrCat(Name(segment, update.session), "part ", update.number,
                                           " is logged with another content"));
  }
}

// A session's numbers in a log are 1, 2, 3 … without a gap.
void Invariants::NumberOrder(const SegmentLedger& ledger, SegmentId segment, const log::Update& update) {
  const PartNumber applied = ledger.Applied(update.session, update.line);
  if (update.number <= applied + 1) return;
  verdict_.Violated("NumberOrder", absl::StrCat(Name(segment, update.session), "part ", update.number,
                                                " follows part ", applied));
}

// A worker that counts as being at `clock` has all its parts of smaller clocks here.
void Invariants::Sealed(SegmentId segment, SessionId session, Clock clock, const clock::LineCounts& here,
                        const char* why) {
  const TrueSession* truth = truth_.Find(session);
  if (truth == nullptr) return;
  for (const Line line : {Line::kArrival, Line::kAggregated}) {
    const PartNumber sealed = truth->SealedAt({segment.v, line}, clock);
    if (here.At(line) >= sealed) continue;
    verdict_.Violated("Sealed",
                      absl::StrCat(Name(segment, session), why, " at clock ", clock, " with ", here.At(line),
                                   " of ", sealed, " parts of line ", static_cast<int>(line)));
  }
}

// The min clock never falls: along the log, across epochs, below a certificate.
void Invariants::MinClock(SegmentId segment, JobId job, Clock min_clock) {
  const LoggedJob& logged = ledgers_[segment.v].jobs[job];
  const Clock before = std::max(logged.min_clock, logged.certified);
  if (min_clock > logged.min_clock && min_clock >= logged.certified) return;
  verdict_.Violated("MinClock",
                    absl::StrCat("segment ", segment.v, ": min clock ", before, " becomes ", min_clock));
}

// Nothing of a session is logged before its opening or after its close.
void Invariants::Fenced(const SegmentLedger& ledger, SegmentId segment, SessionId session,
                        const char* record) {
  const auto it = ledger.sessions.find(session);
  const bool open = it != ledger.sessions.end() && it->second.opened && !it->second.closed;
  if (open) return;
  verdict_.Violated("Fenced",
                    absl::StrCat(Name(segment, session), record, " is logged, but the session is not open"));
}

// A worker joins once, at a clock that is not below any min clock certified.
void Invariants::Join(const SegmentLedger& ledger, SegmentId segment, const log::Join& join) {
  const auto it = ledger.sessions.find(join.session);
  if (it != ledger.sessions.end() && it->second.joined) {
    verdict_.Violated("Join", absl::StrCat(Name(segment, join.session), "joins again",
                                           it->second.finished ? ", though it has finished" : ""));
  }
  const auto job = ledger.jobs.find(truth_.JobOf(join.session));
  const Clock behind = job == ledger.jobs.end() ? 0 : std::max(job->second.min_clock, job->second.certified);
  if (join.start >= behind) return;
  verdict_.Violated("Join", absl::StrCat(Name(segment, join.session), "joins at clock ", join.start,
                                         " below min clock ", behind));
}

// No update of a worker below its start.
void Invariants::Below(const SegmentLedger& ledger, SegmentId segment, const log::Update& update) {
  const auto it = ledger.sessions.find(update.session);
  if (it == ledger.sessions.end() || !it->second.joined || update.clock >= it->second.start) return;
  verdict_.Violated("Join", absl::StrCat(Name(segment, update.session), "an update of clock ", update.clock,
                                         " below its start ", it->second.start));
}

void Invariants::State(const log::Segment& segment) {
  const SegmentLedger& ledger = ledgers_[segment.id().v];
  const auto violated = [&](SessionId id, const char* what) {
    verdict_.Violated("State", absl::StrCat(Name(segment.id(), id), what));
  };
  for (const auto& [id, logged] : ledger.sessions) {
    const log::Segment::SessionState* kept = segment.FindSession(id);
    if (logged.closed && !segment.IsClosed(id)) violated(id, "is closed in the log, and not in the state");
    if (!logged.opened || logged.closed) continue;
    if (kept == nullptr || segment.IsClosed(id))
      return violated(id, "is open in the log, and not in the state");
    const auto job = segment.jobs().find(kept->job);
    const bool works = job != segment.jobs().end() && job->second.HasWorker(id);
    if (works != logged.AtWork())
      violated(id, works ? "works, and has not joined" : "has joined, and does not work");
    if (kept->finished != logged.finished) violated(id, "has finished in the log or in the state only");
    if (kept->applied != logged.applied) violated(id, "has other parts in the state than in the log");
  }
  for (const auto& [id, job] : ledger.jobs) {
    if (segment.MinClockOf(id) == job.min_clock) continue;
    verdict_.Violated(
        "State", absl::StrCat("segment ", segment.id().v, ": min clock ", job.min_clock, " of job ", id.v,
                              " is logged, ", segment.MinClockOf(id), " is kept"));
  }
  if (segment.changes().floor() != ledger.change_floor)
    verdict_.Violated(
        "State", absl::StrCat("segment ", segment.id().v, ": changes are over up to ", ledger.change_floor,
                              ", in the state up to ", segment.changes().floor()));
  for (const auto& [subject, number] : ledger.changes) {
    if (number <= ledger.change_floor || segment.changes().HasBegun(subject, number)) continue;
    verdict_.Violated(
        "State", absl::StrCat("segment ", segment.id().v, ": change ", number, " is logged, and not kept"));
  }
}

// A table holds the sum of its logged updates (the table of assignments: the last of them).
void Invariants::Sums(const log::Segment& segment, const log::Segment::Table& table) {
  const uint32_t dim = table.info->schema.dim;
  TableRows rows;
  for (const auto& [key, row] : LoadedHere(segment.id(), table.info->id))
    rows[key].assign(row.begin(), row.end());
  for (const auto& [id, session] : truth_.sessions()) {
    const Line line = table.info->schema.aggregated ? Line::kAggregated : Line::kArrival;
    const auto it = session.parts.find({segment.id().v, line});
    if (it == session.parts.end()) continue;
    const PartNumber applied = ledgers_[segment.id().v].Applied(id, line);
    for (size_t n = 0; n < std::min<size_t>(applied, it->second.size()); ++n) {
      const TruePart& part = it->second[n];
      if (!part.valid || part.table != table.info->id) continue;
      AddTo(rows, part, dim, truth_.PurposeOf(table.info->id) == Purpose::kAssigns);
    }
  }
  std::vector<float> held(dim);
  for (const auto& [key, row] : rows) {
    table.rows.Read(table::KeyView(reinterpret_cast<const std::byte*>(&key), 1), held.data());
    if (held == row) continue;
    verdict_.Violated("Once",
                      absl::StrCat("segment ", segment.id().v, ": key ", key, " of table '", table.info->name,
                                   "' is not the sum of the parts that are logged"));
  }
}

}  // namespace paceline::sim
