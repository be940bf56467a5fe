#pragma once

#include <cstdint>
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

// Splits such a sequence; the returned Cords share its memory. INVALID_ARGUMENT unless it is exactly `count`
// records.
absl::StatusOr<std::vector<absl::Cord>> SplitRecords(const absl::Cord& body, uint32_t count);

}  // namespace paceline::log
