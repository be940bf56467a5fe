// Invariants of what readers get.
#include "absl/strings/str_cat.h"
#include "tests/sim/invariants.h"

namespace paceline::sim {

// A read is served at a min clock that was reached, and no smaller than the one asked for.
void Invariants::ReadBound(SegmentId segment, JobId job, Clock min_clock, Clock asked) {
  const Clock there = ledgers_[segment.v].MinClock(job);
  if (min_clock >= asked && min_clock <= there) return;
  verdict_.Violated("ReadBound", absl::StrCat("segment ", segment.v, ": min clock ", asked, " was asked, ",
                                              min_clock, " is certified, ", there, " is logged"));
}

void Invariants::NoteClocks(const log::Segment& after) {
  for (const auto& [id, job] : after.jobs()) {
    std::map<Lsn, Clock>& clocks = clocks_[after.id().v][id];
    clocks.erase(clocks.lower_bound(after.version()), clocks.end());  // of records that came to nothing
    if (clocks.empty() || clocks.rbegin()->second != job.min_clock()) {
      clocks[after.version()] = job.min_clock();
    }
  }
}

void Invariants::Told(JobId job, const wire::Certificate& certificate) {
  const SegmentLedger& ledger = ledgers_[certificate.segment.v];
  if (certificate.version > ledger.committed) {
    verdict_.Violated("Told",
                      absl::StrCat("segment ", certificate.segment.v, ": an update shows record ",
                                   certificate.version.v, ", ", ledger.committed.v, " are committed"));
  }
  const auto& clocks = clocks_[certificate.segment.v];
  const auto of_job = clocks.find(job);
  Clock clock = 0;
  if (of_job != clocks.end()) {
    const auto after = of_job->second.upper_bound(certificate.version);
    if (after != of_job->second.begin()) clock = std::prev(after)->second;
  }
  if (certificate.min_clock <= clock) return;
  verdict_.Violated("Told", absl::StrCat("segment ", certificate.segment.v, ": an update up to record ",
                                         certificate.version.v, " names min clock ", certificate.min_clock,
                                         ", it was ", clock, " then"));
}

// A read that names the reader's parts holds them.
void Invariants::OwnWrites(SegmentId segment, PartNumber own, PartNumber asked) {
  if (own >= asked) return;
  verdict_.Violated("OwnWrites", absl::StrCat("segment ", segment.v, ": the reader's part ", asked,
                                              " was named, the read holds ", own));
}

// A value that a user got lies between what was promised and what was pushed: own writes, what was
// acknowledged, and every worker's updates that the model promises. An exact read holds these and no others.
void Invariants::Values(const TrueRead& read, uint64_t key, uint32_t column, float value) {
  const Bounds bounds = truth_.BoundsOf(read, key, column);
  const auto violated = [&](const char* invariant, float bound) {
    verdict_.Violated(invariant, absl::StrCat("session ", read.reader.v, " reads ", value, " for key ", key,
                                              ", column ", column, "; the bound is ", bound));
  };
  if (read.exact) {
    const float exactly = truth_.ExactlyOf(read, key, column, [this](SessionId session, uint32_t segment) {
      const auto& sessions = ledgers_[segment].sessions;
      const auto it = sessions.find(session);
      return it == sessions.end() ? Clock{UINT64_MAX} : it->second.counts_below;
    });
    if (value != exactly) violated("ReadBound", exactly);
    return;
  }
  if (value < bounds.own) violated("OwnWrites", bounds.own);
  if (value < bounds.clock) violated("ReadBound", bounds.clock);
  if (value < bounds.acked) violated("AckLogged", bounds.acked);
  if (value > bounds.most) violated("Once", bounds.most);
}

// A reduction goes through each row once, and the sum lies where the sums of the rows' bounds are.
void Invariants::OnReduced(const TrueRead& read, uint32_t column, uint64_t rows, double sum) {
  const auto violated = [&](const char* invariant, const std::string& what) {
    verdict_.Violated(invariant, absl::StrCat("session ", read.reader.v, ", a reduction of table ",
                                              read.table.v, ", column ", column, ": ", what));
  };
  if (rows != kWideRows) {
    violated("Once", absl::StrCat(rows, " rows, the table has ", kWideRows));
  }
  double own = 0;
  double clock = 0;
  double acked = 0;
  double most = 0;
  for (const uint64_t key : read.keys) {
    const Bounds bounds = truth_.BoundsOf(read, key, column);
    own += bounds.own;
    clock += bounds.clock;
    acked += bounds.acked;
    most += bounds.most;
  }
  if (sum < own) violated("OwnWrites", absl::StrCat("the sum is ", sum, ", own updates come to ", own));
  if (sum < clock) violated("ReadBound", absl::StrCat("the sum is ", sum, ", the bound is ", clock));
  if (sum < acked) violated("AckLogged", absl::StrCat("the sum is ", sum, ", the bound is ", acked));
  if (sum > most) violated("Once", absl::StrCat("the sum is ", sum, ", no more than ", most, " were pushed"));
}

// Of what a live worker under a value bound has pushed, a value that another one is handed out under a value
// bound lacks no more than that.
void Invariants::ValueBound(const TrueRead& read, uint64_t key, uint32_t column, float value) {
  const TrueSession* reader = truth_.Find(read.reader);
  if (!read.bounded_at.has_value() || reader == nullptr || reader->closing) return;
  const std::optional<float> missing = truth_.MissingOf(read, key, column, value);
  if (!missing.has_value() || *missing <= kValueBound) return;
  verdict_.Violated("ValueBound", absl::StrCat("session ", read.reader.v, " is handed ", value, " for key ",
                                               key, ", column ", column, "; it lacks ", *missing, " of ",
                                               kValueBound, " at most"));
}

// A cached value is the log up to its version, with the reader's own pushes since.
void Invariants::Cached(const TrueRead& read, const sdk::CachedRow& row, uint32_t column, float value) {
  const SegmentLedger& ledger = ledgers_[row.segment.v];
  const float expected = truth_.ValueOf(
      row.table, row.key, column, [&](SessionId session, Line line, PartNumber number) -> std::optional<Lsn> {
        if (number == 0) return std::nullopt;  // it waits for its number, and is in no log
        const bool since = session == read.reader && number > row.own && number <= row.pushed;
        if (since && line == Line::kArrival) return Lsn(UINT64_MAX);
        const auto logged = ledger.sessions.find(session);
        if (logged == ledger.sessions.end()) return std::nullopt;
        const std::vector<Lsn>& lsns = logged->second.LsnsOf(line);
        if (number > lsns.size() || lsns[number - 1] > row.version) return std::nullopt;
        return lsns[number - 1];
      });
  if (value == expected) return;
  verdict_.Violated("Once", absl::StrCat("session ", read.reader.v, " reads ", value, " for the cached key ",
                                         row.key, " of table ", row.table.v, " in segment ", row.segment.v,
                                         ", column ", column, "; version ", row.version.v, " with parts ",
                                         row.own + 1, " to ", row.pushed, " of its own is ", expected));
}

// No cached value of a void version is handed out once the client knows: by a certificate of a later epoch
// that began before the version, or of one so late that where another began is not known.
void Invariants::VoidVersions(SessionId reader, const sdk::CachedRow& row) {
  const auto violated = [&](const std::string& why) {
    verdict_.Violated("VoidVersions",
                      absl::StrCat("session ", reader.v, " reads key ", row.key, " as of epoch ", row.epoch.v,
                                   ", version ", row.version.v, " of segment ", row.segment.v, "; ", why));
  };
  const Heard& heard = heard_[{reader, row.segment}];
  const auto certificate = heard.certificates.find({row.epoch, row.version});
  if (certificate == heard.certificates.end() || !certificate->second.contains({row.min_clock, row.own})) {
    return violated("no certificate says so");
  }
  Epoch next = row.epoch;
  for (auto later = heard.began.upper_bound(row.epoch); later != heard.began.end(); ++later) {
    if (later->first.v != ++next.v) return violated(absl::StrCat("it missed where epoch ", next.v, " began"));
    if (later->second < row.version) {
      return violated(absl::StrCat("epoch ", next.v, " began at ", later->second.v));
    }
  }
}

}  // namespace paceline::sim
