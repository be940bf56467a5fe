#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/ids.h"
#include "sdk/cpp/src/batch.h"
#include "sdk/cpp/src/context.h"

namespace paceline::sim {

// Each session adds to a column of its own of the counting table, as long as there are columns: so what a
// value holds of one session can be told from the value.
inline constexpr uint32_t kColumns = 12;

// A part as a user made it.
struct TruePart {
  Clock clock = 0;
  TableId table;
  std::string keys;
  std::string values;
  bool valid = true;   // false: its content is to be refused
  bool acked = false;  // its client was told that it is committed
};

// What is true of one session, whatever the cluster believes.
struct TrueSession {
  SessionId id;
  std::string client;
  uint32_t column = 0;
  bool worker = false;
  Clock start = 0;
  bool closing = false;                             // the coordinator has decided its end
  bool finished = false;                            // the coordinator has seen its last tick everywhere
  std::map<uint32_t, std::vector<TruePart>> parts;  // by segment; number n is at n - 1

  // How many parts of clocks < `clock` there are in the segment.
  PartNumber SealedAt(uint32_t segment, Clock clock) const;
  PartNumber Last(uint32_t segment) const;
};

// What one key's value holds of one session, at least and at most. For the counting table sums, for the table
// of assignments the last value.
struct Bounds {
  float own = 0;    // the reader's own pushes
  float acked = 0;  // what was acknowledged before the read
  float clock = 0;  // what the model promises
  float most = 0;   // everything pushed so far
};

// A read as its user made it.
struct TrueRead {
  SessionId reader;
  bool own_writes = false;
  Clock min_clock = 0;  // updates of smaller clocks are promised
  TableId table;
  std::vector<uint64_t> keys;
  uint64_t made = 0;  // Truth::now() when it was made
};

// What the users of a simulated cluster did and were told. The cluster is judged by it.
class Truth {
 public:
  TrueSession& Add(SessionId id, const std::string& client);
  TrueSession* Find(SessionId id);
  const std::map<SessionId, TrueSession>& sessions() const { return sessions_; }

  // Numbers the parts as the client does: by piece, in order.
  void OnPush(SessionId session, Clock clock, const sdk::TableInfo& table, const sdk::Batch& batch,
              bool valid);
  // The client was told. REQUIRES: the parts exist.
  void OnAcked(SessionId session, SegmentId segment, PartNumber upto);

  // What `key`'s value in `column` holds, for a read that has ended now. Of the table of assignments the
  // column is 0.
  Bounds BoundsOf(const TrueRead& read, uint64_t key, uint32_t column) const;
  // Counts pushes and acknowledgements.
  uint64_t now() const { return now_; }
  uint64_t parts() const { return parts_; }
  uint64_t parts_acked() const { return parts_acked_; }

  TableId counts;
  TableId assigns;

 private:
  // One part's update of one key.
  struct Update {
    SessionId session;
    uint32_t segment = 0;
    PartNumber number = 0;
    Clock clock = 0;
    uint32_t column = 0;
    float value = 0;
    uint64_t pushed = 0;
    uint64_t acked = UINT64_MAX;
  };

  std::map<SessionId, TrueSession> sessions_;
  std::map<std::pair<TableId, uint64_t>, std::vector<Update>> updates_;  // by table and key
  uint64_t now_ = 0;
  uint64_t parts_ = 0;
  uint64_t parts_acked_ = 0;
};

}  // namespace paceline::sim
