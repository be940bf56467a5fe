#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libs/base/ids.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/push/batch.h"
#include "sdk/cpp/src/session/context.h"

namespace paceline::sim {

// Each session adds to a column of its own of the counting table, as long as there are columns: so a value
// shows what it holds of each session.
inline constexpr uint32_t kColumns = 12;
// All sessions share the columns of the table of means.
inline constexpr uint32_t kMeanColumns = 2;

// Rows of the table that is reduced: some blocks of each segment, however many segments there are. Its keys
// are so far apart that most blocks have some.
inline constexpr uint64_t kWideRows = 704;
inline constexpr uint64_t kWideStep = 16;
// The value bound of users that have one. It is more than a push adds to one row.
inline constexpr double kValueBound = 12;

// A part as a user made it.
struct TruePart {
  Clock clock = 0;
  TableId table;
  std::string keys;
  std::string values;
  bool ranges = false;        // `keys` are pairs: a first key and a count
  uint64_t push = 0;          // Truth::now() when it was made
  bool valid = true;          // false: its content must be refused, or was
  bool may_be_empty = false;  // its user knows that its content may have been refused
  bool acked = false;         // its client was told that it is committed

  // Of each row.
  std::vector<uint64_t> Keys() const;
};

// Rows by key.
using TableRows = std::map<uint64_t, std::vector<float>>;

// Adds the part's update, or assigns it.
void AddTo(TableRows& rows, const TruePart& part, uint32_t dim, bool assign);

using SegmentAndLine = std::pair<uint32_t, Line>;

// A table's purpose for its users.
enum class Purpose : uint8_t {
  kCounts,   // adds
  kAssigns,  // assigns
  kFolded,   // adds, and is aggregated
  kScratch,  // adds, and is dropped and created again
  kRates,    // is decreased by the rate times the pushed value; the rate changes
  kMeans,    // is aggregated by the mean of values whose sum depends on their order
};

// The truth about one table.
struct TrueTable {
  TableId id;
  JobId job;
  Purpose purpose = Purpose::kCounts;
  bool mean = false;
};

// The truth about one session, whatever the cluster believes.
struct TrueSession {
  SessionId id;
  JobId job;
  std::string client;
  uint32_t column = 0;
  bool worker = false;
  bool bounded = false;  // uses the counting table under kValueBound, or less
  Clock start = 0;
  bool closing = false;                                   // the coordinator has decided its end
  bool finished = false;                                  // the coordinator has seen its last tick everywhere
  std::map<SegmentAndLine, std::vector<TruePart>> parts;  // number n is at n - 1
  // Without a number yet: by priority, in the order in which they were pushed.
  std::map<SegmentAndLine, std::multimap<uint32_t, TruePart>> late;

  // The number of parts of clocks < `clock` on the line of the segment.
  PartNumber SealedAt(SegmentAndLine where, Clock clock) const;
  PartNumber Last(SegmentAndLine where) const;
};

// The share of one session in one key's value, at least and at most: sums for the counting table, the last
// value for the table of assignments.
struct Bounds {
  float own = 0;    // the reader's own pushes
  float acked = 0;  // updates acknowledged before the read
  float clock = 0;  // updates that the model promises
  float most = 0;   // all updates pushed so far
};

// A read as its user made it.
struct TrueRead {
  SessionId reader;
  bool own_writes = false;
  Clock min_clock = 0;  // the model promises updates of smaller clocks
  bool exact = false;   // … and no others
  TableId table;
  std::vector<uint64_t> keys;
  uint64_t made = 0;                               // Truth::now() when it was made
  uint64_t changes_known = 0;                      // of the table's rates: the newest that the reader knew
  std::map<uint64_t, sdk::CachedRow> cached = {};  // by key: rows from the reader's cache
  // Truth::now() when the values were handed out; unset: not under a value bound. A pull that takes longer
  // than a round is handed out by piece: then that of a key is its own.
  std::optional<uint64_t> bounded_at = std::nullopt;
  std::map<uint64_t, uint64_t> handed_at = {};

  // What of `values`, which have the rows of the keys, is not -1 any more was handed out by `now`.
  void NotePieces(const std::vector<float>& values, uint64_t now);
};

// Everything that the users of a simulated cluster did and were told. The invariants judge the cluster by it.
class Truth {
 public:
  TrueSession& Add(SessionId id, JobId job, const std::string& client);
  TrueSession* Find(SessionId id);
  const std::map<SessionId, TrueSession>& sessions() const { return sessions_; }

  // Numbers the parts as the client does: by piece, in order; those of a late push, of this priority, only
  // when the client says that it has numbered one. Returns the push's number.
  uint64_t OnPush(SessionId session, Clock clock, const sdk::TableInfo& table, const sdk::Batch& batch,
                  bool valid, std::optional<uint32_t> late = std::nullopt);
  // The client has given this number. If it is the next one, and there are late parts, it belongs to the one
  // that goes first.
  void OnNumbered(SessionId session, SegmentAndLine where, PartNumber number);
  // A push of this batch, which is to bring its rows back, comes next: what is late of its table gets
  // numbers.
  void OnRowsWanted(SessionId session, const sdk::TableInfo& table, const sdk::Batch& batch);
  // The user was told that the push was refused: parts of it may never be applied.
  void OnRefused(SessionId session, uint64_t push);
  // An empty part was logged in place of this one: no user may rely on its content.
  void OnEmptied(SessionId session, SegmentAndLine where, PartNumber number);
  void OnBounded(SessionId session) { sessions_.at(session).bounded = true; }
  // The client got the acknowledgement. REQUIRES: the parts exist.
  void OnAcked(SessionId session, SegmentAndLine where, PartNumber upto);

  // The bounds of `key`'s value in `column`, for a read that has ended now. For the table of assignments the
  // column is 0.
  Bounds BoundsOf(const TrueRead& read, uint64_t key, uint32_t column) const;
  // How much of what one live session under a value bound had pushed to `key` in `column`, when the read's
  // values were handed out, is missing in `value`. nullopt: the column has updates of others too.
  std::optional<float> MissingOf(const TrueRead& read, uint64_t key, uint32_t column, float value) const;
  // The value of `key` in `column` that results from the parts for which `holds` returns a place in the log.
  float ValueOf(
      TableId table, uint64_t key, uint32_t column,
      absl::FunctionRef<std::optional<Lsn>(SessionId session, Line line, PartNumber number)> holds) const;
  // The sum of all updates of `key` in `column`, each times what `factor` says; nullopt if it does not know
  // one.
  std::optional<float> SumOf(
      TableId table, uint64_t key, uint32_t column,
      absl::FunctionRef<std::optional<float>(SessionId session, PartNumber number)> factor) const;
  // The value of an exact read, no more and no less. `counts_below` is the clock from which on a session's
  // updates in a segment do not count, because it was evicted.
  using CountsBelow = absl::FunctionRef<Clock(SessionId session, uint32_t segment)>;
  float ExactlyOf(const TrueRead& read, uint64_t key, uint32_t column, CountsBelow counts_below) const;
  // The initial content of a table of a job that was made of a snapshot.
  void OnLoaded(TableId table, TableRows rows) { loaded_[table] = std::move(rows); }
  // nullptr: it began empty.
  const TableRows* Loaded(TableId table) const;
  float LoadedOf(TableId table, uint64_t key, uint32_t column) const;
  // No user has ever worked in the job.
  bool Untouched(JobId job) const;
  // Counts pushes and acknowledgements.
  uint64_t now() const { return now_; }
  uint64_t parts() const { return parts_; }
  uint64_t parts_acked() const { return parts_acked_; }

  // -- jobs and tables --
  void OnTable(TableId id, JobId job, Purpose purpose, bool mean) {
    tables_[id] = {.id = id, .job = job, .purpose = purpose, .mean = mean};
  }
  const std::map<TableId, TrueTable>& tables() const { return tables_; }
  Purpose PurposeOf(TableId id) const;
  bool IsMean(TableId id) const { return tables_.contains(id) && tables_.at(id).mean; }
  // The coordinator has decided the table's end.
  void OnDropDecided(TableId id) { dropped_.insert(id); }
  // … and has reverted the decision, because it did not know that the store had it.
  void OnDropTakenBack(TableId id) { dropped_.erase(id); }
  bool IsDropped(TableId id) const { return dropped_.contains(id); }
  // The newest job of this name; 0: none yet.
  JobId JobNamed(const std::string& name) const;
  void OnJob(JobId id, const std::string& name) { jobs_[name] = std::max(jobs_[name], id); }
  JobId JobOf(SessionId id) const;

 private:
  // One part's update of one key.
  struct Update {
    SessionId session;
    SegmentAndLine where;
    PartNumber number = 0;
    Clock clock = 0;
    uint32_t column = 0;
    float value = 0;
    uint64_t pushed = 0;
    uint64_t acked = UINT64_MAX;
  };

  std::map<SessionId, TrueSession> sessions_;
  std::map<TableId, TrueTable> tables_;
  std::set<TableId> dropped_;
  std::map<TableId, TableRows> loaded_;
  std::map<std::string, JobId> jobs_;
  std::map<std::pair<TableId, uint64_t>, std::vector<Update>> updates_;  // by table and key
  uint64_t now_ = 0;
  uint64_t parts_ = 0;
  uint64_t parts_acked_ = 0;
};

}  // namespace paceline::sim
