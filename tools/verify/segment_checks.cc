// The checks of a segment's surviving log.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/verify/segment_log.h"

namespace paceline::verify {
namespace {

using history::RecordKind;

std::string NameOf(SessionId session, Line line, PartNumber number) {
  return absl::StrCat("part ", number, " of session ", session.v,
                      line == Line::kAggregated ? " for aggregated tables" : "");
}

// The newest entry of `list`, ascending by LSN, at or before `version`.
template <class T>
T LatestAt(const std::vector<std::pair<Lsn, T>>& list, Lsn version) {
  const auto after = std::upper_bound(list.begin(), list.end(), version,
                                      [](Lsn v, const std::pair<Lsn, T>& e) { return v < e.first; });
  return after == list.begin() ? T() : std::prev(after)->second;
}

}  // namespace

void SegmentLog::Take(const Entry& entry, const ClientOf& clients) {
  TakeMinClock(entry);
  if (entry.kind == RecordKind::kFold) return TakeFold(entry);
  if (entry.session == SessionId()) return;
  LoggedSession& session = sessions_[entry.session];
  const bool opens = entry.kind == RecordKind::kOpenSession;
  if (session.closed && entry.kind != RecordKind::kEvict) {
    Violate("Fenced", entry.place,
            absl::StrCat("record ", entry.lsn.v, " is of session ", entry.session.v, ", which was closed"));
  }
  if (!session.opened && !opens && holes_ == 0 && entry.kind != RecordKind::kEvict) {
    Violate("Fenced", entry.place,
            absl::StrCat("record ", entry.lsn.v, " is of session ", entry.session.v,
                         ", which was not opened before"));
  }
  session.opened = session.opened || opens;
  session.closed = session.closed || entry.kind == RecordKind::kEvict;
  if (entry.kind == RecordKind::kUpdate) TakePart(entry, session, clients);
}

void SegmentLog::TakePart(const Entry& entry, LoggedSession& session, const ClientOf& clients) {
  ++findings_.report.parts_logged;
  LoggedLine& line = session.lines[entry.line == Line::kAggregated ? 1 : 0];
  const std::string name = NameOf(entry.session, entry.line, entry.number);
  const bool after_hole = line.holes_before != holes_;
  if (entry.number <= line.applied) {
    Violate("Once", entry.place,
            absl::StrCat(name, " is logged at ", entry.lsn.v, " after part ", line.applied, ", ",
                         findings_.NameOf(line.applied_at.file), ", byte ", line.applied_at.offset));
  } else if (entry.number != line.applied + 1 && !after_hole) {
    Violate("NumberOrder", entry.place,
            absl::StrCat(name, " is logged at ", entry.lsn.v, " after part ", line.applied));
  }
  line.applied = std::max(line.applied, entry.number);
  line.applied_at = entry.place;
  line.holes_before = holes_;
  ++line.seen;
  if (entry.line == Line::kArrival) line.at.emplace_back(entry.lsn, line.applied);
  CheckContent(entry, clients);
}

void SegmentLog::CheckContent(const Entry& entry, const ClientOf& clients) {
  const auto client = clients.find(entry.session);
  if (client == clients.end()) return;
  const auto found = client->second->lines().find({segment_, entry.line});
  const size_t made = found == client->second->lines().end() ? 0 : found->second.parts.size();
  const std::string name = NameOf(entry.session, entry.line, entry.number);
  if (entry.number == 0 || entry.number > made) {
    if (!client->second->complete()) return;
    return Violate("Once", entry.place,
                   absl::StrCat(name, " is logged, and its client has made ", made, " parts"));
  }
  const PushedLine::Part& part = found->second.parts[entry.number - 1];
  const bool empty = entry.count == 0 && (part.emptied || !client->second->complete());
  if (empty || (!part.emptied && entry.content == part.content && entry.count == part.count)) return;
  Violate("Once", entry.place, absl::StrCat(name, " is logged with another content than its client made"));
}

void SegmentLog::TakeFold(const Entry& entry) {
  for (const auto& [id, number] : numbers_[entry.numbers]) {
    LoggedSession& session = sessions_[id];
    LoggedLine& line = session.lines[1];
    if (session.closed) {
      Violate(
          "Fenced", entry.place,
          absl::StrCat("the fold at ", entry.lsn.v, " has parts of session ", id.v, ", which was closed"));
    }
    if (number <= line.applied) {
      Violate("Once", entry.place,
              absl::StrCat("the fold at ", entry.lsn.v, " ends with ", NameOf(id, Line::kAggregated, number),
                           ", and part ", line.applied, " was folded before"));
      continue;
    }
    findings_.report.parts_logged += number - line.applied;
    line.seen += number - line.applied;
    line.applied = number;
    line.applied_at = entry.place;
  }
}

void SegmentLog::TakeMinClock(const Entry& entry) {
  if (entry.job == JobId()) return;
  auto& clocks = min_clocks_[entry.job];
  const Clock before = clocks.empty() ? 0 : clocks.back().second;
  if (entry.min_clock < before) {
    Violate("MinClock", entry.place,
            absl::StrCat("record ", entry.lsn.v, " brings job ", entry.job.v, "'s min clock from ", before,
                         " back to ", entry.min_clock));
  }
  if (clocks.empty() || entry.min_clock > before) clocks.emplace_back(entry.lsn, entry.min_clock);
}

// -- what clients were told --

void SegmentLog::CheckAcknowledged(const ClientHistory& client, Line line, const PushedLine& pushed) {
  const PartNumber upto = pushed.acknowledged;
  findings_.report.parts_acknowledged += upto;
  const auto session = sessions_.find(client.session());
  const LoggedLine* logged =
      session == sessions_.end() ? nullptr : &session->second.lines[line == Line::kAggregated ? 1 : 0];
  const PartNumber applied = logged == nullptr ? 0 : logged->applied;
  // A gap of numbers without a hole in the log is a violation already.
  const uint64_t missing_below = logged == nullptr ? 0 : applied - std::min(applied, logged->seen);
  if (applied >= upto && missing_below == 0) return;
  if (decided_ && holes_ == 0 && !open_end_ && applied < upto) {
    return Violate(
        "AckLogged", pushed.acknowledged_at,
        absl::StrCat(NameOf(client.session(), line, applied + 1), " is acknowledged, as are all up ", "to ",
                     upto, ", and not in the log that survived"));
  }
  const uint64_t above = upto - std::min(upto, applied);
  findings_.report.unchecked_acknowledged += std::min(upto, above + missing_below);
}

std::optional<Clock> SegmentLog::MinClockAt(JobId job, Lsn version) const {
  if (!KnownUpTo(version)) return std::nullopt;
  const auto clocks = min_clocks_.find(job);
  return clocks == min_clocks_.end() ? 0 : LatestAt(clocks->second, version);
}

std::optional<PartNumber> SegmentLog::AppliedAt(SessionId session, Lsn version) const {
  if (!KnownUpTo(version)) return std::nullopt;
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? 0 : LatestAt(found->second.lines[0].at, version);
}

void SegmentLog::CheckCertificates(std::vector<GivenCertificate> certificates) {
  std::sort(certificates.begin(), certificates.end(), [](const auto& a, const auto& b) {
    return std::pair(a.epoch, a.version) < std::pair(b.epoch, b.version);
  });
  const GivenCertificate* highest = nullptr;  // of smaller versions
  const GivenCertificate* of_this = nullptr;  // of this version
  for (const GivenCertificate& given : certificates) {
    if (of_this != nullptr && (of_this->epoch != given.epoch || of_this->version != given.version)) {
      if (highest == nullptr || of_this->min_clock > highest->min_clock) highest = of_this;
      of_this = nullptr;
    }
    if (of_this == nullptr || given.min_clock > of_this->min_clock) of_this = &given;
    const std::string what = absl::StrCat("the certificate of version ", given.version.v, ", epoch ",
                                          given.epoch.v, ", says min clock ", given.min_clock);
    if (highest != nullptr && given.min_clock < highest->min_clock) {
      Violate("MinClock", given.place,
              absl::StrCat(what, "; that of version ", highest->version.v, ", epoch ", highest->epoch.v,
                           ", said ", highest->min_clock, ": ", findings_.NameOf(highest->place.file),
                           ", byte ", highest->place.offset));
    }
    if (!decided_ || !Survives(given.epoch, given.version)) continue;
    const auto min_clock = MinClockAt(given.job, given.version);
    const auto own = AppliedAt(given.session, given.version);
    if (!min_clock.has_value() || !own.has_value()) {
      ++findings_.report.unchecked_certificates;
      continue;
    }
    if (given.min_clock > *min_clock) {
      Violate("ReadBound", given.place, absl::StrCat(what, "; by the log it is ", *min_clock));
    }
    if (given.own != *own) {
      Violate("OwnWrites", given.place,
              absl::StrCat("the certificate of version ", given.version.v, ", epoch ", given.epoch.v,
                           ", says that parts up to ", given.own, " of session ", given.session.v,
                           " are in it; by the log parts up to ", *own, " are"));
    }
  }
}

}  // namespace paceline::verify
