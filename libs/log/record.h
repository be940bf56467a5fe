#pragma once

#include <memory>
#include <string>
#include <variant>

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

struct OpenSession {
  SessionId session;
  JobId job;
  // Every id up to this one that is not open stays closed; the segment forgets which of them it closed.
  SessionId closed_floor;
};

// The session becomes a worker of its job's clocks.
struct Join {
  SessionId session;
  Clock start = 0;
  uint32_t rank = 0;
};

// The worker's last tick, once its parts are applied: it counts as past every clock.
struct Finish {
  SessionId session;
};

// Closes the session for good. A worker leaves the min clock.
struct Evict {
  SessionId session;
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

using Record = std::variant<OpenTable, OpenSession, Join, Finish, Evict, Advance, Update>;

}  // namespace paceline::log
