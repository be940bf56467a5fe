#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/log/record.h"
#include "libs/table/reduction.h"
#include "libs/wire/packed.h"
#include "paceline/v1/shard.pb.h"

// Requests of streams to a primary, and the sinks that receive its answers.
namespace paceline::log {

// Receives the committed marks of a session's parts. Called by the segment's owner; an implementation must
// only take note.
class AckSink {
 public:
  virtual ~AckSink() = default;
  virtual void Committed(wire::Mark mark) = 0;
  // Send the noted marks now: another stream's frame caused them, so this sink's stream has no frame of its
  // own under way that would send them.
  virtual void Wake() {}
};

// How long a read was parked, and why.
struct Wait {
  enum class Cause {
    kStaleness,    // the min clock: a worker was too far behind
    kQueue,        // a part of the reader's own that was not applied yet
    kReplication,  // another member of the segment
  };
  Cause cause = Cause::kStaleness;
  absl::Duration duration;
  std::string for_whom;                             // empty: it did not wait
  std::optional<uint32_t> for_rank = std::nullopt;  // of the worker it waited for, if it was one
};

// Receives the answer to one part of a pull. The segment's owner calls exactly one of Served and Refused,
// once; it may call neither after the read was cancelled.
class ReadSink {
 public:
  virtual ~ReadSink() = default;
  // The values have been written to Read::out.
  virtual void Served(size_t part, const wire::Certificate& certificate, const Wait& wait) = 0;
  virtual void Refused(size_t part, v1::Refusal refusal) = 0;
  // A read that was parked could be answered now. True: the sink takes it back and brings it again, since the
  // answer takes long and others must come in between; the read is forgotten here.
  virtual bool Later(size_t /*part*/, const Wait& /*wait*/) { return false; }
  // True if the answer is no longer wanted: a parked read is dropped. Once true it stays true. Must be
  // cheap.
  virtual bool cancelled() const { return false; }
};

// One part of a push as it reached the primary.
struct Part {
  Update update;
  JobId job;                               // of the session, as its Hello stated
  std::shared_ptr<const TableInfo> table;  // null for an empty part
  std::shared_ptr<AckSink> acks;
  bool keys_known = false;  // that they are of the table, and of this segment
};

// A read that asks which rows have changed, instead of naming keys.
struct ChangesAsked {
  Lsn since;              // wanted: rows changed by records after this one
  uint64_t rows_max = 0;  // the most rows that the answer may have
  // Filled in before the read is served: the number of changed rows or wire::kChangesUnknown; and their keys,
  // u64 each, in memory for rows_max of them. Their rows are written to Read::out.
  uint32_t* count = nullptr;
  std::byte* keys = nullptr;
};

// One part of a pull as it reached the primary.
struct Read {
  SessionId session;
  JobId job;
  std::shared_ptr<const TableInfo> table;
  KeyForm form = KeyForm::kKeys;
  absl::string_view keys;
  bool keys_known = false;                             // that they are of the table, and of this segment
  std::optional<ChangesAsked> changes = std::nullopt;  // given: `form` and `keys` mean nothing
  // Given: `keys` are the cursor of a slice and the epoch in which the first slice was read, 0 for that one
  // (reduced_read.h). Lives as long as the sink.
  const table::ReduceQuery* reduction = nullptr;
  std::byte* out = nullptr;  // room for the part's rows, or for its partial result
  PartNumber own = 0;        // parked until the session's arrival line has reached this number
  Clock min_clock = 0;       // parked until the job's min clock has reached this clock
  absl::Time deadline = absl::InfiniteFuture();
  size_t part = 0;  // repeated in the answer
  std::shared_ptr<ReadSink> sink;
};

}  // namespace paceline::log
