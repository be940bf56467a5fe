#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "libs/base/ids.h"
#include "libs/history/event.h"
#include "libs/ring/segment_map.h"
#include "tools/verify/client_history.h"
#include "tools/verify/findings.h"

namespace paceline::verify {

// One record as one member applied it.
struct Entry {
  Lsn lsn;
  Epoch epoch;
  Epoch before;  // of the member's record before it; 0: not known
  Place place;
  history::RecordKind kind = history::RecordKind::kOther;
  uint32_t hash = 0;
  JobId job;
  Clock min_clock = 0;
  SessionId session;
  Line line = Line::kArrival;
  PartNumber number = 0;
  uint32_t count = 0;
  uint32_t content = 0;
  uint32_t numbers = 0;  // of a fold: which of the log's
};

// The log of one segment that survived all changes of primary, assembled from the records of its members and
// clients, and the checks of it.
class SegmentLog {
 public:
  using ClientOf = std::map<SessionId, const ClientHistory*>;

  SegmentLog(Findings& findings, SegmentId segment) : findings_(findings), segment_(segment) {}

  // -- the log --
  void Add(const history::Logged& event, Epoch before, Place place);
  // `member` is primary of `epoch`.
  void AddPrimary(Epoch epoch, ring::Member member, Place place);
  void AddBegan(Epoch epoch, Lsn began, Place place);
  // The file of the member that wrote `epoch` ends before the process did: there may be more events.
  void AddOpenEnd(Epoch epoch) { open_ends_.push_back(epoch); }

  // -- checks: once, when everything is added --
  void Check(const ClientOf& clients);
  // After Check.
  void CheckAcknowledged(const ClientHistory& client, Line line, const PushedLine& pushed);
  // All of this segment and one job.
  void CheckCertificates(std::vector<GivenCertificate> certificates);

 private:
  struct EpochInfo {
    std::optional<Lsn> began;
    Place began_at;
    std::optional<ring::Member> primary;
    Place primary_at;
  };
  // The surviving log's content of one session's line.
  struct LoggedLine {
    PartNumber applied = 0;
    Place applied_at;
    uint64_t seen = 0;                           // numbers up to `applied` that are present
    uint64_t holes_before = 0;                   // holes of the log before the newest of them
    std::vector<std::pair<Lsn, PartNumber>> at;  // arrival line: applied up to the number since that LSN
  };
  struct LoggedSession {
    bool opened = false;
    bool closed = false;
    std::array<LoggedLine, 2> lines;
  };

  void CheckMatching();
  void FindSurvivors();
  void CheckHole(const Entry& entry);
  void Take(const Entry& entry, const ClientOf& clients);
  void TakePart(const Entry& entry, LoggedSession& session, const ClientOf& clients);
  void TakeFold(const Entry& entry);
  void TakeMinClock(const Entry& entry);
  void CheckContent(const Entry& entry, const ClientOf& clients);
  bool Survives(Epoch epoch, Lsn lsn) const;
  // The min clock in the log as of `version`; nullopt: some of the log up to there is not known.
  std::optional<Clock> MinClockAt(JobId job, Lsn version) const;
  std::optional<PartNumber> AppliedAt(SessionId session, Lsn version) const;
  bool KnownUpTo(Lsn version) const { return version <= known_; }
  std::string Name() const;
  void Violate(std::string_view rule, Place place, std::string why);

  Findings& findings_;
  const SegmentId segment_;
  std::vector<Entry> entries_;
  std::vector<std::vector<std::pair<SessionId, PartNumber>>> numbers_;
  std::map<Epoch, EpochInfo> epochs_;
  std::vector<Epoch> open_ends_;

  // Of the surviving log:
  bool decided_ = true;    // it is known which records survived
  bool open_end_ = false;  // there may be more than is known
  uint64_t holes_ = 0;
  Lsn last_;                       // the newest known
  Lsn known_;                      // up to here none is missing
  std::vector<size_t> survivors_;  // in entries_, by LSN
  std::map<SessionId, LoggedSession> sessions_;
  std::map<JobId, std::vector<std::pair<Lsn, Clock>>> min_clocks_;  // since which LSN
};

}  // namespace paceline::verify
