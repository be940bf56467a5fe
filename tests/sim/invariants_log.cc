// Invariants of what is logged and acknowledged.
#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
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

// An acknowledged part is in the log, and applied at the primary of every later epoch.
void Invariants::AckLogged(SessionId session, const wire::Mark& mark, const char* when) {
  const PartNumber logged = ledgers_[mark.segment.v].Applied(session);
  if (mark.number <= logged) return;
  verdict_.Violated("AckLogged", absl::StrCat(Name(mark.segment, session), "parts up to ", mark.number,
                                              " are acknowledged (", when, "), ", logged, " are logged"));
}

// Each (session, segment, line, number) occurs at most once in any log, with the content it was made with.
void Invariants::Once(const SegmentLedger& ledger, SegmentId segment, const log::Update& update) {
  if (update.number <= ledger.Applied(update.session)) {
    verdict_.Violated(
        "Once", absl::StrCat(Name(segment, update.session), "part ", update.number, " is logged again"));
    return;
  }
  const TrueSession* session = truth_.Find(update.session);
  if (session == nullptr || update.number > session->Last(segment.v)) {
    verdict_.Violated("Once",
                      absl::StrCat(Name(segment, update.session), "part ", update.number, " was never made"));
    return;
  }
  const TruePart& part = session->parts.at(segment.v)[update.number - 1];
  const bool same = !part.valid ? update.count == 0
                                : update.table == part.table && update.clock == part.clock &&
                                      std::string(update.keys.data(), update.keys.size()) == part.keys &&
                                      std::string(update.values.data(), update.values.size()) == part.values;
  if (!same) {
    verdict_.Violated("Once", absl::StrCat(Name(segment, update.session), "part ", update.number,
                                           " is logged with another content"));
  }
}

// A session's numbers in a log are 1, 2, 3 … without a gap.
void Invariants::NumberOrder(const SegmentLedger& ledger, SegmentId segment, const log::Update& update) {
  const PartNumber applied = ledger.Applied(update.session);
  if (update.number <= applied + 1) return;
  verdict_.Violated("NumberOrder", absl::StrCat(Name(segment, update.session), "part ", update.number,
                                                " follows part ", applied));
}

// A worker that counts as being at `clock` has all its parts of smaller clocks applied.
void Invariants::Sealed(const log::Segment& segment, SessionId session, Clock clock, const char* why) {
  const TrueSession* truth = truth_.Find(session);
  const log::Segment::Session* open = segment.FindSession(session);
  if (truth == nullptr || open == nullptr) return;
  const PartNumber sealed = truth->SealedAt(segment.id().v, clock);
  const PartNumber applied = open->applied.At(Line::kArrival);
  if (applied >= sealed) return;
  verdict_.Violated("Sealed", absl::StrCat(Name(segment.id(), session), why, " at clock ", clock, " with ",
                                           applied, " of ", sealed, " parts"));
}

// The min clock never falls: along the log, across epochs, below a certificate.
void Invariants::MinClock(SegmentId segment, Clock min_clock) {
  const SegmentLedger& ledger = ledgers_[segment.v];
  const Clock before = std::max(ledger.min_clock, ledger.certified);
  if (min_clock > ledger.min_clock && min_clock >= ledger.certified) return;
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
  const Clock behind = std::max(ledger.min_clock, ledger.certified);
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

// What a table holds is the sum of what is logged (of the table of assignments: the last).
void Invariants::Sums(const log::Segment& segment, const log::Segment::Table& table) {
  const uint32_t dim = table.info->schema.dim;
  std::map<uint64_t, std::vector<float>> rows;
  for (const auto& [id, session] : truth_.sessions()) {
    const auto it = session.parts.find(segment.id().v);
    if (it == session.parts.end()) continue;
    const PartNumber applied = ledgers_[segment.id().v].Applied(id);
    for (size_t n = 0; n < std::min<size_t>(applied, it->second.size()); ++n) {
      const TruePart& part = it->second[n];
      if (!part.valid || part.table != table.info->id) continue;
      for (size_t k = 0; k < part.keys.size() / sizeof(uint64_t); ++k) {
        uint64_t key = 0;
        std::memcpy(&key, part.keys.data() + k * sizeof(key), sizeof(key));
        std::vector<float>& row = rows[key];
        row.resize(dim);
        for (uint32_t d = 0; d < dim; ++d) {
          float value = 0;
          std::memcpy(&value, part.values.data() + (k * dim + d) * sizeof(value), sizeof(value));
          row[d] = table.info->id == truth_.assigns ? value : row[d] + value;
        }
      }
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
