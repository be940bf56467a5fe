// What happens, and which invariants it touches.
#include "tests/sim/invariants.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace paceline::sim {

void Invariants::OnLogged(const ring::Member& by, const log::Segment& after, Epoch epoch,
                          const log::Record& record) {
  SegmentLedger& ledger = ledgers_[after.id().v];
  OnePrimary(by, after.id(), epoch);
  if (after.version().v != ledger.lsn.v + 1) {
    verdict_.Violated("OnePrimary", absl::StrCat("segment ", after.id().v, ": record ", after.version().v,
                                                 " follows record ", ledger.lsn.v, " in epoch ", epoch.v));
  }
  ledger.lsn = after.version();
  std::visit([&](const auto& r) { On(r, after, ledger); }, record);
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
}

void Invariants::On(const log::Finish& record, const log::Segment& after, SegmentLedger& ledger) {
  Fenced(ledger, after.id(), record.session, "Finish");
  Sealed(after, record.session, UINT64_MAX, "has finished");
  ledger.sessions[record.session].finished = true;
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
}

void Invariants::On(const log::Advance& record, const log::Segment& after, SegmentLedger& ledger) {
  MinClock(after.id(), record.min_clock);
  for (const auto& [id, worker] : after.jobs().at(record.job).workers()) {
    Sealed(after, id, record.min_clock, "is behind the min clock");
  }
  ledger.min_clock = std::max(ledger.min_clock, record.min_clock);
}

void Invariants::On(const log::Update& record, const log::Segment& after, SegmentLedger& ledger) {
  Fenced(ledger, after.id(), record.session, "Update");
  Once(ledger, after.id(), record);
  NumberOrder(ledger, after.id(), record);
  Below(ledger, after.id(), record);
  PartNumber& applied = ledger.sessions[record.session].applied;
  applied = std::max(applied, record.number);
}

void Invariants::OnCounted(const log::Segment& segment) {
  for (const auto& [job, clock] : segment.jobs()) {
    for (const auto& [session, worker] : clock.workers()) {
      Sealed(segment, session, worker.counted, "counts");
      if (!worker.pending.empty()) marks_.Hit("a tick waits for its parts");
    }
  }
}

void Invariants::OnAdopted(const log::Segment& state, Epoch epoch) {
  SegmentLedger& ledger = ledgers_[state.id().v];
  ledger.epoch = std::max(ledger.epoch, epoch);
  for (const auto& [id, logged] : ledger.sessions) {
    const log::Segment::Session* session = state.FindSession(id);
    if (session == nullptr || session->applied.At(Line::kArrival) == logged.applied) continue;
    verdict_.Violated("AckLogged", absl::StrCat("segment ", state.id().v, ": of session ", id.v, " ",
                                                logged.applied, " parts are logged, but epoch ", epoch.v,
                                                " begins with ", session->applied.At(Line::kArrival)));
  }
  const auto job = state.jobs().begin();
  if (job != state.jobs().end() && job->second.min_clock() < ledger.min_clock) {
    verdict_.Violated("MinClock", absl::StrCat("segment ", state.id().v, ": min clock ", ledger.min_clock,
                                               " is ", job->second.min_clock(), " in epoch ", epoch.v));
  }
}

void Invariants::OnMarkSent(SessionId session, const wire::Mark& mark) {
  AckLogged(session, mark, "sent");
}

void Invariants::OnMarkReceived(SessionId session, const wire::Mark& mark) {
  AckLogged(session, mark, "received");
  truth_.OnAcked(session, mark.segment, mark.number);
}

void Invariants::OnCertificateSent(const ring::Member& by, const wire::Certificate& certificate,
                                   Clock asked_min_clock, PartNumber asked_own) {
  SegmentLedger& ledger = ledgers_[certificate.segment.v];
  ReadBound(certificate.segment, certificate.min_clock, asked_min_clock);
  OwnWrites(certificate.segment, certificate.own, asked_own);
  // It may wait in the stream for a while, and the segment may move meanwhile.
  const auto primary = ledger.primaries.find(certificate.epoch);
  if (primary != ledger.primaries.end() && primary->second != by) {
    OnePrimary(by, certificate.segment, certificate.epoch);
  }
  ledger.certified = std::max(ledger.certified, certificate.min_clock);
}

void Invariants::OnRead(const TrueRead& read, uint32_t dim, const std::vector<float>& values) {
  for (size_t i = 0; i < read.keys.size(); ++i) {
    for (uint32_t column = 0; column < dim; ++column) {
      Values(read, read.keys[i], column, values[i * dim + column]);
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
    const auto it = session.parts.find(segment.id().v);
    if (it == session.parts.end()) continue;
    for (size_t i = ledger.Applied(id); i < it->second.size(); ++i) {
      if (it->second[i].acked) AckLogged(id, {.segment = segment.id(), .number = i + 1}, "kept");
    }
  }
  for (const TableId table : {truth_.counts, truth_.assigns}) {
    if (const auto* found = segment.FindTable(table)) Sums(segment, *found);
  }
}

}  // namespace paceline::sim
