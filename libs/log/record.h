#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/base/ids.h"
#include "libs/clock/job_clock.h"
#include "libs/table/schema.h"

// Every change of a segment is a record in its log. All members apply it, in LSN order. To apply a record
// reads no clock and draws no random number, so equal logs make equal segments.
namespace paceline::log {

// A table as records and requests know it.
struct TableInfo {
  TableId id;
  JobId job;
  std::string name;  // for messages
  table::Schema schema;
};

// Written before the first record that needs the table.
struct OpenTable {
  std::shared_ptr<const TableInfo> table;
};

// Ends the table: its rows are freed, and later records do not name it.
struct DropTable {
  TableId table;
};

// Changes the rates of the table's rule, for updates of `clock` and later ones; and the bound of its readers
// that follow one, for reads at `clock` and later ones.
struct ChangeRule {
  std::shared_ptr<const TableInfo> table;
  uint64_t number = 0;  // of the table's changes, from 1
  table::Rule rule;
  Clock clock = 0;
  bool at_once = false;  // for all updates from now on; `clock` is the present min clock
  uint32_t bound = 0;    // in clocks; 0: the first one (clock::kFirstBound)
};

// Ends a job: its tables are dropped and its clocks forgotten. Its sessions were closed before.
struct CloseJob {
  JobId job;
  std::vector<TableId> tables;
};

struct OpenSession {
  SessionId session;
  JobId job;
  // Every id up to this one that is not open stays closed, so the segment need not list the ids it closed.
  SessionId closed_floor;
  std::string secret_sha256 = {};  // of the session's secret; empty: anybody may use it (feature level 1)
};

// The session becomes a worker: a member of its job's clocks.
struct Join {
  SessionId session;
  Clock start = 0;
  uint32_t rank = 0;
};

// The worker's last tick, written once its parts are applied and folded: the worker no longer counts in the
// min clock.
struct Finish {
  SessionId session;
  Clock clock = 0;  // it has ended every clock before this one
};

// Closes the session for good. A worker no longer counts in the min clock.
struct Evict {
  SessionId session;
  // Its parts of aggregated tables count if their clock is smaller than this one; the others are dropped.
  Clock counts_below = 0;
  bool data_lost = false;  // because acknowledged data of it is gone (feature level 2)
};

// The min clock of a job advances.
struct Advance {
  JobId job;
  Clock min_clock = 0;
};

enum class KeyForm : uint8_t {
  kKeys = 0,    // u64 each
  kRanges = 1,  // u64 first, u64 count; ranged tables
};

// One part. With `count` 0 it changes no row and only takes its number.
struct Update {
  SessionId session;
  Line line = Line::kArrival;
  PartNumber number = 0;
  TableId table;
  Clock clock = 0;
  KeyForm form = KeyForm::kKeys;
  uint32_t count = 0;                 // entries of `keys`
  absl::string_view keys;             // as on the wire
  absl::string_view values;           // f32, little-endian, dim a row
  std::shared_ptr<const void> owner;  // keeps the memory behind the two views
};

// The updates of one clock of one aggregated table, folded: one row of sums, or means, for each key.
struct FoldedRows {
  TableId table;
  std::vector<uint64_t> keys;  // each once
  std::vector<float> values;   // dim a key
};

// Folds a complete clock of a job's aggregated tables: all its updates are applied at once, and the min clock
// becomes clock + 1.
struct Fold {
  JobId job;
  Clock clock = 0;
  std::vector<FoldedRows> tables;
  // For every session with parts of this clock: its last number, which counts as applied after the record.
  std::vector<std::pair<SessionId, PartNumber>> numbers;
};

// The first record of an epoch: the records after it were written by that epoch's primary.
struct BeginEpoch {
  Epoch epoch;
};

// The job's state up to this record, in this segment, belongs to a snapshot; later records do not. Changes
// nothing else.
struct Cut {
  uint64_t id = 0;  // issued by the coordinator, growing, never reused
  JobId job;
  Clock clock = 0;  // the job's min clock here
};

// Rows of a snapshot, with their slots, replace the present ones. Written while no session is open in the
// job, so it may be written again.
struct Load {
  TableId table;
  std::vector<uint64_t> keys;
  std::vector<float> rows;  // of each key its values, then its slots
};

// All rows of the snapshot are loaded: the job's clocks begin at `clock`.
struct EndLoad {
  uint64_t id = 0;  // of the load, from the same numbers as cuts
  JobId job;
  Clock clock = 0;
};

// What a change of the coordinator is about. Of a subject one change is under way; a newer one supersedes it.
struct Subject {
  enum class Kind : uint8_t { kSession = 1, kTable = 2, kJob = 3 };
  Kind kind = Kind::kSession;
  uint64_t id = 0;

  friend auto operator<=>(const Subject&, const Subject&) = default;
};

// The coordinator's change `number` of `subject` begins here: smaller numbers of the subject are late from
// now on. Written before the record of the change, so that whoever has that knows the number too (feature
// level 2).
struct BeginChange {
  Subject subject;
  uint64_t number = 0;  // growing over all changes of the cluster; 0: only the floor rises
  uint64_t floor = 0;   // no change up to this number is under way any more: all of them are late

  friend bool operator==(const BeginChange&, const BeginChange&) = default;
};

using Record = std::variant<OpenTable, OpenSession, Join, Finish, Evict, Advance, Update, Fold, DropTable,
                            ChangeRule, CloseJob, BeginEpoch, Cut, Load, EndLoad, BeginChange>;

// The id (of a session, table, job, cut, load or subject) under which the coordinator asks whether this
// record is committed; nullopt for a record that it never asks about. Once told so it does not ask again, so
// the record must be on disks before the answer (docs/persistence.md).
std::optional<uint64_t> AskedAboutAs(const Record& record);

}  // namespace paceline::log
