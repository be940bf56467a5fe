#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "libs/log/record.h"

// Records as bytes. Each is a v1::LogRecord whose two big fields, the keys and values of an update, bypass
// Protobuf (libs/wire/frame.h has the reason). Equal records have equal bytes. Pure; safe to call from any
// thread.
namespace paceline::log {

// Costs the serialisation of a header. Copies the keys and values of an update only if they are short, less
// than 16 KiB: otherwise the Cord borrows them and holds Update::owner until its last user is gone.
absl::Cord EncodeRecord(const Record& record);

// Safe for hostile bytes: INVALID_ARGUMENT names the wrong field. A returned record is consistent in itself:
// schemas, rules and forms are valid and lengths agree. CheckApplies says whether a segment can apply it
// (record_check.h).
//
// The views of an update point into the memory of `bytes` where each field is contiguous there, otherwise
// into a copy. Update::owner keeps either alive.
absl::StatusOr<Record> DecodeRecord(const absl::Cord& bytes);

// Appends an encoded record to a sequence in one Cord (ReplicateRequest.body), after its length as a varint.
// Shares the record's memory.
void AppendRecord(const absl::Cord& record, absl::Cord* body);

// Splits such a sequence. The records share the memory of `body`: each keeps the frame it came in.
// INVALID_ARGUMENT unless it is exactly `count` records.
absl::StatusOr<std::vector<absl::Cord>> SplitRecords(const absl::Cord& body, uint32_t count);

// A record that a member applies, with its bytes for replicas and disk. These are made once: a primary
// encodes the record when the first of them asks, a follower keeps what it received. Refers to the record.
class AppliedRecord {
 public:
  explicit AppliedRecord(const Record& record, absl::Cord received = {})
      : record_(record), received_(!received.empty()), bytes_(std::move(received)) {}

  const Record& record() const { return record_; }
  // True at a follower; false at the primary, which wrote the record.
  bool received() const { return received_; }
  const absl::Cord& bytes() const { return bytes_.empty() ? bytes_ = EncodeRecord(record_) : bytes_; }

 private:
  const Record& record_;
  const bool received_;
  mutable absl::Cord bytes_;  // empty: not made yet, as no record has no bytes
};

}  // namespace paceline::log
