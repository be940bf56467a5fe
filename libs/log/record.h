#pragma once

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

// Whatever changes a segment is a record in its log, applied in LSN order by every member: no clock is read
// and no random number drawn while one is applied, so equal logs make equal segments.
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

// Ends the table: its rows are freed, and nothing names it any more.
struct DropTable {
  TableId table;
};

// Other rates of the same rule, for updates of `clock` and later ones.
struct ChangeRule {
  std::shared_ptr<const TableInfo> table;
  uint64_t number = 0;  // of the table's changes, from 1
  table::Rule rule;
  Clock clock = 0;
  bool at_once = false;  // `clock` is the min clock as it is here: whatever comes from now on
};

// Ends a job: its tables are dropped and its clocks forgotten. Its sessions are closed before.
struct CloseJob {
  JobId job;
  std::vector<TableId> tables;
};

struct OpenSession {
  SessionId session;
  JobId job;
  // Every id up to this one that is not open stays closed; the segment forgets which of them it closed.
  SessionId closed_floor;
  std::string secret_sha256 = {};  // of what its owner shows; empty: it is anybody's (feature level 1)
};

// The session becomes a worker of its job's clocks.
struct Join {
  SessionId session;
  Clock start = 0;
  uint32_t rank = 0;
};

// The worker's last tick, once its parts are applied and folded: it leaves the min clock.
struct Finish {
  SessionId session;
  Clock clock = 0;  // it has ended every clock before this one
};

// Closes the session for good. A worker leaves the min clock.
struct Evict {
  SessionId session;
  // Of its parts of aggregated tables those of smaller clocks count, and no others.
  Clock counts_below = 0;
};

// The min clock of a job moves on.
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

// What a clock's updates of one aggregated table come to: one row of sums, or means, for each key.
struct FoldedRows {
  TableId table;
  std::vector<uint64_t> keys;  // each once
  std::vector<float> values;   // dim a key
};

// A clock of a job's aggregated tables is complete: all its updates are applied at once, and the min clock
// becomes clock + 1.
struct Fold {
  JobId job;
  Clock clock = 0;
  std::vector<FoldedRows> tables;
  // Of every session with parts of this clock: the last of their numbers, which is then applied.
  std::vector<std::pair<SessionId, PartNumber>> numbers;
};

// The first record of an epoch: what comes after it was written by that epoch's primary.
struct BeginEpoch {
  Epoch epoch;
};

// The job's state up to here, in this segment, belongs to a snapshot; what comes after it does not. Changes
// nothing but that it was written.
struct Cut {
  uint64_t id = 0;  // given out by the coordinator, growing, never used again
  JobId job;
  Clock clock = 0;  // the job's min clock here
};

// Rows of a snapshot, with their slots, take the place of what is there. Written while nobody has a session
// in the job, so it may be written again.
struct Load {
  TableId table;
  std::vector<uint64_t> keys;
  std::vector<float> rows;  // of each key its values, then its slots
};

// All rows of the snapshot are here: the job's clocks begin at `clock`.
struct EndLoad {
  uint64_t id = 0;  // of the load, as a cut's
  JobId job;
  Clock clock = 0;
};

using Record = std::variant<OpenTable, OpenSession, Join, Finish, Evict, Advance, Update, Fold, DropTable,
                            ChangeRule, CloseJob, BeginEpoch, Cut, Load, EndLoad>;

// The id (of a session, table, job, cut or load) by which the coordinator asks whether this record is
// committed; nothing for a record that it never asks about. Once answered it does not ask again, so the
// record has to be on disks before the answer (docs/persistence.md).
std::optional<uint64_t> AskedAboutAs(const Record& record);

}  // namespace paceline::log
