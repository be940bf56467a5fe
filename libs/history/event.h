#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "libs/base/ids.h"

// The events of a process's history file: a history of what the process was asked, told and did. From it one
// can later prove that nothing was lost or doubled. docs/record.md is the reference of the format.
//
// Each event is a struct with the number of its kind and its fields, to which Fields returns references in
// the order of encoding. Kinds and the order of fields never change. New fields go at the end; files that
// lack them read as their default.
namespace paceline::history {

enum class Program : uint8_t { kClient = 1, kShard = 2 };

// The first event of a file.
struct Start {
  static constexpr uint64_t kKind = 1;
  Program program = Program::kClient;
  std::string name = {};     // of the client or the shard
  uint64_t unix_micros = 0;  // when it started
  static auto Fields(auto& e) { return std::tie(e.program, e.name, e.unix_micros); }
};

// The last event of a process that ended in order. A file without it belongs to a process that was killed,
// and its last events may be missing.
struct End {
  static constexpr uint64_t kKind = 2;
  static auto Fields(auto&) { return std::tie(); }
};

// Events are missing here: the disk refused them.
struct Gap {
  static constexpr uint64_t kKind = 3;
  uint64_t events = 0;
  std::string why = {};
  static auto Fields(auto& e) { return std::tie(e.events, e.why); }
};

// -- of a client --

// The session is open; a worker has joined its job's clocks.
struct SessionOpened {
  static constexpr uint64_t kKind = 16;
  JobId job = {};
  SessionId session = {};
  bool worker = false;
  uint32_t rank = 0;
  Clock start = 0;  // the clock a worker begins at
  static auto Fields(auto& e) { return std::tie(e.job, e.session, e.worker, e.rank, e.start); }
};

enum class Model : uint8_t { kSsp = 1, kAsp = 2, kBsp = 3 };

// From now on the client reads and pushes this table, under this model.
struct TableOpened {
  static constexpr uint64_t kKind = 17;
  TableId table = {};
  std::string name = {};
  Model model = Model::kSsp;
  Clock staleness = 0;      // SSP
  bool own_writes = false;  // a read holds every push the client made before
  bool aggregated = false;
  bool additive = false;  // pushes are applied to cached rows
  static auto Fields(auto& e) {
    return std::tie(e.table, e.name, e.model, e.staleness, e.own_writes, e.aggregated, e.additive);
  }
};

// A part was made: its number and content are fixed.
struct Pushed {
  static constexpr uint64_t kKind = 18;
  SegmentId segment = {};
  Line line = Line::kArrival;
  PartNumber number = 0;
  Clock clock = 0;
  TableId table = {};
  uint32_t count = 0;    // of keys, or ranges of keys
  uint32_t content = 0;  // CRC-32C of the keys and then the values, as they travel
  static auto Fields(auto& e) {
    return std::tie(e.segment, e.line, e.number, e.clock, e.table, e.count, e.content);
  }
};

// A shard refused the content of a part; the client sends an empty part in its place.
struct Emptied {
  static constexpr uint64_t kKind = 19;
  SegmentId segment = {};
  Line line = Line::kArrival;
  PartNumber number = 0;
  static auto Fields(auto& e) { return std::tie(e.segment, e.line, e.number); }
};

// The client was told that parts up to `number` are committed.
struct Acknowledged {
  static constexpr uint64_t kKind = 20;
  SegmentId segment = {};
  Line line = Line::kArrival;
  PartNumber number = 0;
  static auto Fields(auto& e) { return std::tie(e.segment, e.line, e.number); }
};

// A read was begun. If the table promises own writes its result must contain the pushes before this event.
struct ReadBegun {
  static constexpr uint64_t kKind = 21;
  uint64_t read = 0;  // counts the client's reads; other events refer to it
  TableId table = {};
  Clock reader = 0;  // the reader's clock
  bool bounded = false;
  Clock min_clock = 0;  // if bounded: the min clock that the caller asked for, instead of the table's model
  static auto Fields(auto& e) { return std::tie(e.read, e.table, e.reader, e.bounded, e.min_clock); }
};

// Rows of one segment were handed to the user, as a shard served them.
struct Certified {
  static constexpr uint64_t kKind = 22;
  uint64_t read = 0;
  SegmentId segment = {};
  Epoch epoch = {};
  Lsn began = {};
  Lsn version = {};
  Clock min_clock = 0;
  PartNumber own = 0;  // parts of the reader's arrival line that are in them
  uint32_t rows = 0;
  static auto Fields(auto& e) {
    return std::tie(e.read, e.segment, e.epoch, e.began, e.version, e.min_clock, e.own, e.rows);
  }
};

// Rows of one segment, under one certificate, were handed to the user from the client's cache.
struct CacheHit {
  static constexpr uint64_t kKind = 23;
  uint64_t read = 0;
  SegmentId segment = {};
  Epoch epoch = {};
  Lsn version = {};
  Clock min_clock = 0;
  PartNumber own = 0;
  PartNumber pushed = 0;  // the newest part of the client that touched one of the rows
  uint32_t rows = 0;
  static auto Fields(auto& e) {
    return std::tie(e.read, e.segment, e.epoch, e.version, e.min_clock, e.own, e.pushed, e.rows);
  }
};

// From now on the client knows of this epoch, and maybe of its beginning: versions of earlier epochs beyond
// that are void.
struct EpochKnown {
  static constexpr uint64_t kKind = 24;
  SegmentId segment = {};
  Epoch epoch = {};
  bool began_known = false;
  Lsn began = {};
  static auto Fields(auto& e) { return std::tie(e.segment, e.epoch, e.began_known, e.began); }
};

// The worker is at this clock from now on.
struct Ticked {
  static constexpr uint64_t kKind = 25;
  Clock clock = 0;
  static auto Fields(auto& e) { return std::tie(e.clock); }
};

// The worker is about to leave the clocks (true), or stays after all.
struct Finishing {
  static constexpr uint64_t kKind = 26;
  bool leaves = false;
  static auto Fields(auto& e) { return std::tie(e.leaves); }
};

// The client has failed for good.
struct Failed {
  static constexpr uint64_t kKind = 27;
  uint32_t code = 0;  // of absl::StatusCode
  std::string why = {};
  static auto Fields(auto& e) { return std::tie(e.code, e.why); }
};

// -- of a shard --

// The shard's identity in its cluster.
struct Identified {
  static constexpr uint64_t kKind = 32;
  ShardId shard = {};
  Incarnation incarnation = {};
  uint64_t cluster = 0;
  static auto Fields(auto& e) { return std::tie(e.shard, e.incarnation, e.cluster); }
};

enum class Role : uint8_t { kNone = 0, kPrimary = 1, kReplica = 2, kLearner = 3 };

// From now on the shard has this role in the segment.
struct RoleTaken {
  static constexpr uint64_t kKind = 33;
  SegmentId segment = {};
  Epoch epoch = {};
  Role role = Role::kNone;
  Lsn lsn = {};  // the last record it holds; of a primary: where its epoch begins
  static auto Fields(auto& e) { return std::tie(e.segment, e.epoch, e.role, e.lsn); }
};

// Numbers are those of the alternatives of log::Record, from 1.
enum class RecordKind : uint8_t {
  kOther = 0,
  kOpenTable = 1,
  kOpenSession = 2,
  kJoin = 3,
  kFinish = 4,
  kEvict = 5,
  kAdvance = 6,
  kUpdate = 7,
  kFold = 8,
  kDropTable = 9,
  kChangeRule = 10,
  kCloseJob = 11,
  kBeginEpoch = 12,
  kCut = 13,
  kLoad = 14,
  kEndLoad = 15,
  kBeginChange = 16,
};

// The shard applied a record: written by itself as the primary, or received as a replica or learner.
struct Logged {
  static constexpr uint64_t kKind = 34;
  SegmentId segment = {};
  Epoch epoch = {};  // in which the record was written
  Lsn lsn = {};
  RecordKind kind = RecordKind::kOther;
  bool primary = false;    // this shard wrote it
  uint32_t hash = 0;       // of the whole record; equal records have equal hashes
  JobId job = {};          // the job whose clocks it may move; 0: none
  Clock min_clock = 0;     // of that job, after the record
  SessionId session = {};  // of OpenSession, Join, Finish, Evict, Update
  // Of Update:
  Line line = Line::kArrival;
  PartNumber number = 0;
  Clock clock = 0;
  TableId table = {};
  uint32_t count = 0;
  uint32_t content = 0;  // as Pushed has it
  // Of Fold: for every session with parts of the clock, the last of their numbers.
  std::vector<std::pair<SessionId, PartNumber>> numbers = {};
  static auto Fields(auto& e) {
    return std::tie(e.segment, e.epoch, e.lsn, e.kind, e.primary, e.hash, e.job, e.min_clock, e.session,
                    e.line, e.number, e.clock, e.table, e.count, e.content, e.numbers);
  }
};

// The shard dropped its copy of the segment. It now holds an image of this version, or the state its disk
// had at the start. LSN 0: nothing.
struct Installed {
  static constexpr uint64_t kKind = 35;
  SegmentId segment = {};
  Epoch epoch = {};
  Lsn lsn = {};
  static auto Fields(auto& e) { return std::tie(e.segment, e.epoch, e.lsn); }
};

template <class E>
requires requires {
  E::kKind;
}
bool operator==(const E& a, const E& b) {
  return E::Fields(a) == E::Fields(b);
}

using Event = std::variant<Start, End, Gap, SessionOpened, TableOpened, Pushed, Emptied, Acknowledged,
                           ReadBegun, Certified, CacheHit, EpochKnown, Ticked, Finishing, Failed, Identified,
                           RoleTaken, Logged, Installed>;

// The receiver of events. Implementations say whether they are thread-safe and what they do when full.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void Record(const Event& event) = 0;
};

}  // namespace paceline::history
