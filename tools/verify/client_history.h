#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "libs/base/ids.h"
#include "libs/history/event.h"
#include "tools/verify/findings.h"

namespace paceline::verify {

// The parts that one client pushed on one line of a segment, and how many of them it knows to be committed.
struct PushedLine {
  struct Part {
    uint32_t content = 0;
    uint32_t count = 0;
    bool emptied = false;
  };
  std::vector<Part> parts;  // number n is at n - 1
  PartNumber acknowledged = 0;
  Place acknowledged_at;
};

// A certificate that a client received, to be compared with the log.
struct GivenCertificate {
  JobId job;
  SessionId session;
  SegmentId segment;
  Epoch epoch;
  Lsn version;
  Clock min_clock = 0;
  PartNumber own = 0;
  Place place;
};

// The beginning of an epoch, as a client was told.
struct EpochBegan {
  SegmentId segment;
  Epoch epoch;
  Lsn began;
  Place place;
};

// The history of one client, processed event by event in the order of its file. Checks what a client's file
// alone can show: the bounds of its reads, its own writes, void versions.
//
// More than 15 members: what the events so far have said of sessions, tables, pushes and reads; any event may
// be judged by all of it.
class ClientHistory {
 public:
  using LineKey = std::pair<SegmentId, Line>;

  ClientHistory(Findings& findings, uint32_t file) : findings_(findings), file_(file) {}

  void Take(uint64_t offset, const history::Event& event);
  // Events are missing here: state that is no longer known is not checked.
  void OnGap() { complete_ = false; }
  // The file ends. `clean`: with the process.
  void OnEnd(bool clean) {
    complete_ = complete_ && clean;
    reads_.clear();
  }

  SessionId session() const { return session_; }
  // True: the file has everything that the client did.
  bool complete() const { return complete_; }
  const std::map<LineKey, PushedLine>& lines() const { return lines_; }
  const std::vector<GivenCertificate>& certificates() const { return certificates_; }
  const std::vector<EpochBegan>& epochs() const { return epochs_; }

 private:
  struct Read {
    const history::TableOpened* table = nullptr;  // null: not known here
    Clock reader = 0;
    std::optional<Clock> min_clock;  // the bound that the caller asked for
    bool leaves = false;             // the client has begun to leave the clocks
    uint64_t pushes = 0;             // made before it
  };

  void On(const history::SessionOpened& event);
  void On(const history::TableOpened& event) { tables_[event.table] = event; }
  void On(const history::Pushed& event);
  void On(const history::Emptied& event);
  void On(const history::Acknowledged& event);
  void On(const history::ReadBegun& event);
  void On(const history::Certified& event);
  void On(const history::CacheHit& event);
  void On(const history::EpochKnown& event);
  void On(const history::Ticked& event);
  void On(const history::Finishing& event) { leaves_ = event.leaves; }
  void On(const history::Failed& event);
  template <class Other>
  void On(const Other&) {}

  // nullptr: its beginning is missing.
  const Read* FindRead(uint64_t read) const;
  void CheckBound(const Read& read, SegmentId segment, Clock min_clock);
  void CheckVoid(SegmentId segment, Epoch epoch, Lsn version, bool cached);
  // Whether the model promised the reader its own pushes.
  static bool OwnWrites(const Read& read);
  // The number of the client's last part of the read's table on the segment's arrival line, of those that had
  // numbers before the read.
  PartNumber PushedBefore(const Read& read, SegmentId segment) const;
  void Know(SegmentId segment, Epoch epoch, std::optional<Lsn> began);
  Place Here() const { return {.file = file_, .offset = offset_}; }

  Findings& findings_;
  const uint32_t file_;
  uint64_t offset_ = 0;  // of the current event
  bool complete_ = true;

  JobId job_;
  SessionId session_;
  bool worker_ = false;
  Clock clock_ = 0;
  bool leaves_ = false;
  std::map<TableId, history::TableOpened> tables_;
  std::map<LineKey, PushedLine> lines_;
  uint64_t pushes_ = 0;
  struct Made {
    uint64_t pushes = 0;  // count of the client's parts until then
    PartNumber number = 0;
  };
  std::map<std::pair<SegmentId, TableId>, std::vector<Made>> pushed_as_;  // arrival line
  absl::flat_hash_map<uint64_t, Read> reads_;
  std::map<SegmentId, std::map<Epoch, std::optional<Lsn>>> known_;  // where each epoch began
  std::vector<GivenCertificate> certificates_;
  std::vector<EpochBegan> epochs_;
};

}  // namespace paceline::verify
