// Each event, and the invariants that it touches.
#include "tests/sim/invariants.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paceline::sim {

void Invariants::OnLogged(const ring::Member& by, const log::Segment& after, Epoch epoch,
                          const log::Record& record) {
  SegmentLedger& ledger = ledgers_[after.id().v];
  if (epoch < ledger.epoch) {
    LogMatching(by, after, record, /*writes=*/true);
    return marks_.Hit("a primary that was replaced writes on");
  }
  if (std::holds_alternative<log::BeginEpoch>(record)) Completeness(by, after, epoch);
  OnePrimary(by, after.id(), epoch);
  if (after.version().v != ledger.lsn.v + 1) {
    verdict_.Violated("OnePrimary", absl::StrCat("segment ", after.id().v, ": record ", after.version().v,
                                                 " follows record ", ledger.lsn.v, " in epoch ", epoch.v));
  }
  ledger.lsn = after.version();
  std::visit([&](const auto& r) { On(r, after, ledger); }, record);
  if (!std::holds_alternative<log::Update>(record)) NoteClocks(after);
  LogMatching(by, after, record, /*writes=*/true);
  undo_[after.id().v][ledger.lsn] = ledger;
}

void Invariants::OnFollowed(const ring::Member& by, const log::Segment& after, const log::Record& record) {
  LogMatching(by, after, record, /*writes=*/false);
}

void Invariants::OnInstalled(const ring::Member& by, const log::Segment& image) {
  logs_[{by, image.id()}] = {.epoch = image.epoch(), .lsn = image.version()};
}

void Invariants::OnCommitted(SegmentId segment, Epoch epoch, Lsn committed) {
  SegmentLedger& ledger = ledgers_[segment.v];
  if (epoch != ledger.epoch || committed <= ledger.committed) return;
  ledger.committed = committed;
  auto& undo = undo_[segment.v];
  undo.erase(undo.begin(), undo.lower_bound(committed));
}

void Invariants::On(const log::OpenSession& record, const log::Segment& after, SegmentLedger& ledger) {
  LoggedSession& session = ledger.sessions[record.session];
  if (session.closed) {
    verdict_.Violated("Fenced", absl::StrCat("segment ", after.id().v, ": session ", record.session.v,
                                             " is opened again after its close"));
  }
  session.opened = true;
}

void Invariants::On(const log::Join& record, const log::Segment& after, SegmentLedger& ledger) {
  Fenced(ledger, after.id(), record.session, "Join");
  Join(ledger, after.id(), record);
  LoggedSession& session = ledger.sessions[record.session];
  session.joined = true;
  session.start = record.start;
  session.rank = record.rank;
}

void Invariants::On(const log::Finish& record, const log::Segment& after, SegmentLedger& ledger) {
  Fenced(ledger, after.id(), record.session, "Finish");
  Sealed(after.id(), record.session, UINT64_MAX, after.FindSession(record.session)->applied, "has finished");
  ledger.sessions[record.session].finished = true;
  ledger.sessions[record.session].end = record.clock;
  MovedOn(after, ledger);
}

// Without active workers the min clock goes to where the last one ended.
void Invariants::MovedOn(const log::Segment& after, SegmentLedger& ledger) {
  for (const auto& [id, job] : after.jobs()) {
    Clock& min_clock = ledger.jobs[id].min_clock;
    if (job.min_clock() == min_clock) continue;
    MinClock(after.id(), id, job.min_clock());
    marks_.Hit("the min clock goes to the end of a job");
    min_clock = std::max(min_clock, job.min_clock());
  }
}

void Invariants::On(const log::Evict& record, const log::Segment& after, SegmentLedger& ledger) {
  LoggedSession& session = ledger.sessions[record.session];
  if (!session.opened) marks_.Hit("closed before it was opened here");
  const TrueSession* truth = truth_.Find(record.session);
  if (truth != nullptr && !truth->closing) {
    verdict_.Violated("Fenced", absl::StrCat("segment ", after.id().v, ": session ", record.session.v,
                                             " is closed, though nobody has decided that"));
  }
  session.closed = true;
  session.counts_below = record.counts_below;
  if (truth != nullptr &&
      truth->Last({after.id().v, Line::kAggregated}) > session.applied.At(Line::kAggregated)) {
    marks_.Hit("an eviction leaves parts that are not folded");
  }
  MovedOn(after, ledger);
}

void Invariants::On(const log::Advance& record, const log::Segment& after, SegmentLedger& ledger) {
  MinClock(after.id(), record.job, record.min_clock);
  for (const auto& [id, worker] : after.jobs().at(record.job).workers()) {
    Sealed(after.id(), id, record.min_clock, after.FindSession(id)->applied, "is behind the min clock");
  }
  Clock& min_clock = ledger.jobs[record.job].min_clock;
  min_clock = std::max(min_clock, record.min_clock);
}

void Invariants::On(const log::EndLoad& record, const log::Segment& after, SegmentLedger& ledger) {
  if (record.clock > 0) MinClock(after.id(), record.job, record.clock);
  LoggedJob& job = ledger.jobs[record.job];
  job.min_clock = std::max(job.min_clock, record.clock);
  job.loaded = record.id;
}

// The coordinator's changes of a subject begin in the order of their numbers, and none that is over begins
// again. A segment that began empty knows which ones are of before.
void Invariants::On(const log::BeginChange& record, const log::Segment& after, SegmentLedger& ledger) {
  uint64_t& last = ledger.changes[record.subject];
  if (record.number != 0 && (record.number <= ledger.change_floor || record.number < last)) {
    verdict_.Violated("ChangeOrder", absl::StrCat("segment ", after.id().v, ": change ", record.number,
                                                  " of subject ", record.subject.id, " begins after ", last,
                                                  ", and with the floor at ", ledger.change_floor));
  }
  last = std::max(last, record.number);
  ledger.change_floor = std::max(ledger.change_floor, record.floor);
  const auto& [emptied_in, floor] = floors_[after.id().v];
  if (record.number == 0) return marks_.Hit("a segment that begins empty is told the floor");
  if (after.epoch() < emptied_in || after.changes().floor() >= floor) return;
  verdict_.Violated("ChangeOrder", absl::StrCat("segment ", after.id().v,
                                                " began empty, and does not know that changes up to ", floor,
                                                " are not for it"));
}

void Invariants::On(const log::Fold& record, const log::Segment& after, SegmentLedger& ledger) {
  marks_.Hit(record.numbers.size() > 1 ? "a clock of several workers is folded" : "a clock is folded");
  MinClock(after.id(), record.job, record.clock + 1);
  Folded(ledger, after.id(), record);
  for (const auto& [session, number] : record.numbers) {
    ledger.sessions[session].applied.At(Line::kAggregated) = number;
    ledger.sessions[session].At(Line::kAggregated, number, after.version());
  }
  for (const auto& [id, worker] : after.jobs().at(record.job).workers()) {
    Sealed(after.id(), id, record.clock + 1, after.FindSession(id)->applied, "is behind a fold");
  }
  Clock& min_clock = ledger.jobs[record.job].min_clock;
  min_clock = std::max(min_clock, record.clock + 1);
}

void Invariants::On(const log::Update& record, const log::Segment& after, SegmentLedger& ledger) {
  Fenced(ledger, after.id(), record.session, "Update");
  Once(ledger, after.id(), record);
  NumberOrder(ledger, after.id(), record);
  Below(ledger, after.id(), record);
  if (record.count != 0) {
    Dropped(ledger, after.id(), record.table, "Update");
    Follow(record, after.id(), ledger);
  } else {
    truth_.OnEmptied(record.session, {after.id().v, record.line}, record.number);
  }
  LoggedSession& session = ledger.sessions[record.session];
  PartNumber& applied = session.applied.At(record.line);
  applied = std::max(applied, record.number);
  session.At(record.line, record.number, after.version());
  if (record.count != 0) session.next_clock = std::max(session.next_clock, record.clock + 1);
}

void Invariants::OnCounted(const log::Primary& primary) {
  for (const auto& [job, clock] : primary.segment().jobs()) {
    for (const auto& [session, worker] : clock.workers()) {
      Sealed(primary.segment().id(), session, worker.counted, primary.Here(session), "counts");
      if (!worker.pending.empty()) marks_.Hit("a tick waits for its parts");
    }
  }
}

void Invariants::OnMarkSent(const ring::Member& by, SessionId session, const wire::Mark& mark) {
  AckLogged(session, mark, "sent");
  // One that has given the segment up says what it was told then.
  if (ledgers_[mark.segment.v].Primary() == by) Replicated(session, mark);
}

void Invariants::OnMarkReceived(SessionId session, const wire::Mark& mark) {
  AckLogged(session, mark, "received");
  truth_.OnAcked(session, {mark.segment.v, mark.line}, mark.number);
}

void Invariants::OnCertificateSent(const ring::Member& by, JobId job, const wire::Certificate& certificate,
                                   Clock asked_min_clock, PartNumber asked_own) {
  SegmentLedger& ledger = ledgers_[certificate.segment.v];
  // A job that is closed has no clocks any more. The answer has waited in its stream since.
  if (const auto closed = ledger.closed.find(job); closed != ledger.closed.end()) {
    if (certificate.min_clock <= closed->second) return;
    return verdict_.Violated(
        "ReadBound", absl::StrCat("segment ", certificate.segment.v, ": min clock ", certificate.min_clock,
                                  " of a closed job is certified, ", closed->second, " was its last"));
  }
  ReadBound(certificate.segment, job, certificate.min_clock, asked_min_clock);
  OwnWrites(certificate.segment, certificate.own, asked_own);
  // It may wait in the stream for a while, and the segment may move meanwhile.
  const auto primary = ledger.primaries.find(certificate.epoch);
  if (primary != ledger.primaries.end() && primary->second != by) {
    OnePrimary(by, certificate.segment, certificate.epoch);
  }
  Clock& certified = ledger.jobs[job].certified;
  certified = std::max(certified, certificate.min_clock);
}

void Invariants::OnSetUpdateSent(const ring::Member& by, JobId job, const wire::Certificate& certificate) {
  OnCertificateSent(by, job, certificate, /*asked_min_clock=*/0, /*asked_own=*/0);
  // One that has given the segment up says what it was told then.
  if (ledgers_[certificate.segment.v].Primary() == by) Told(job, certificate);
}

void Invariants::OnCertificateReceived(SessionId session, const wire::Certificate& certificate) {
  Heard& heard = heard_[{session, certificate.segment}];
  heard.began[certificate.epoch] = certificate.began;
  heard.certificates[{certificate.epoch, certificate.version}].emplace(certificate.min_clock,
                                                                       certificate.own);
}

void Invariants::OnCached(const TrueRead& read, const sdk::CachedRow& row) {
  if (row.pushed > row.own) marks_.Hit("a cached row holds a push that its certificate does not");
  VoidVersions(read.reader, row);
  // A job that is deleted has no clocks any more; what its clients still have of it was certified before.
  const JobId job = truth_.JobOf(read.reader);
  if (ledgers_[row.segment.v].jobs.contains(job)) ReadBound(row.segment, job, row.min_clock, read.min_clock);
  if (!read.exact || row.min_clock == read.min_clock) return;
  verdict_.Violated("ReadBound", absl::StrCat("session ", read.reader.v, " reads the cached key ", row.key,
                                              " of min clock ", row.min_clock, " at clock ", read.min_clock));
}

void Invariants::OnRead(const TrueRead& read, uint32_t dim, const std::vector<float>& values) {
  for (size_t i = 0; i < read.keys.size(); ++i) {
    const auto cached = read.cached.find(read.keys[i]);
    for (uint32_t column = 0; column < dim; ++column) {
      const float value = values[i * dim + column];
      if (truth_.PurposeOf(read.table) == Purpose::kMeans) {
        Means(read, read.keys[i], column, value);
        continue;
      }
      const bool rates = truth_.PurposeOf(read.table) == Purpose::kRates;
      if (!rates) Values(read, read.keys[i], column, value);
      ValueBound(read, read.keys[i], column, value);
      if (cached == read.cached.end()) continue;
      const sdk::CachedRow& row = cached->second;
      if (ledgers_[row.segment.v].IsVoid(row.epoch, row.version)) continue;  // its reader does not know yet
      rates ? Rated(read, row, column, value) : Cached(read, row, column, value);
    }
  }
}

void Invariants::OnFailed(SessionId session, const absl::Status& why) {
  const TrueSession* truth = truth_.Find(session);
  if (absl::IsDataLoss(why)) {
    verdict_.Violated("AckLogged", absl::StrCat("session ", session.v, " is told: ", why.ToString()));
  } else if (absl::IsInternal(why)) {
    verdict_.Violated("Wire", absl::StrCat("session ", session.v, " is told: ", why.ToString()));
  } else if ((absl::IsAborted(why) || absl::IsFailedPrecondition(why)) && truth != nullptr &&
             !truth->closing) {
    verdict_.Violated("Fenced", absl::StrCat("session ", session.v,
                                             ", which nobody has closed, is told: ", why.ToString()));
  }
}

void Invariants::OnQuiet(const log::Segment& segment) {
  const SegmentLedger& ledger = ledgers_[segment.id().v];
  for (const auto& [id, session] : truth_.sessions()) {
    for (const Line line : {Line::kArrival, Line::kAggregated}) {
      const auto it = session.parts.find({segment.id().v, line});
      if (it == session.parts.end()) continue;
      for (size_t i = ledger.Applied(id, line); i < it->second.size(); ++i) {
        if (it->second[i].acked)
          AckLogged(id, {.segment = segment.id(), .line = line, .number = i + 1}, "kept");
      }
    }
  }
  State(segment);
  for (const auto& [id, table] : segment.tables()) {
    Dropped(ledger, segment.id(), id, "the state");
    const Purpose purpose = truth_.PurposeOf(id);
    purpose == Purpose::kRates || purpose == Purpose::kMeans ? Replayed(segment, *table)
                                                             : Sums(segment, *table);
  }
  Loaded(segment);
}

}  // namespace paceline::sim
