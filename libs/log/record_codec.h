#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "libs/log/record.h"

// Records as bytes: each a v1::LogRecord, whose two big fields, the keys and values of an update, stay out of
// Protobuf's hands (libs/wire/frame.h has the reason). Equal records make equal bytes. Pure; free for any
// thread.
namespace paceline::log {

// Costs a serialised header. The keys and values of an update are not copied unless they are short, less than
// 16 KiB: the Cord borrows them and holds Update::owner for as long as anybody uses it.
absl::Cord EncodeRecord(const Record& record);

// Takes hostile bytes: INVALID_ARGUMENT names the field that is wrong. What it returns is well-formed by
// itself: schemas, rules and forms are valid and lengths agree with each other. Whether
// a segment can apply it is CheckApplies's to say (record_check.h).
//
// The views of an update point into the memory of `bytes` where each is in one piece there, into a copy
// otherwise; Update::owner keeps either.
absl::StatusOr<Record> DecodeRecord(const absl::Cord& bytes);

// A sequence of encoded records in one Cord (ReplicateRequest.body): each after its length, a varint. Shares
// the record's memory.
void AppendRecord(const absl::Cord& record, absl::Cord* body);

// Takes the sequence apart again; the Cords share its memory. INVALID_ARGUMENT unless it is exactly `count`
// records.
absl::StatusOr<std::vector<absl::Cord>> SplitRecords(const absl::Cord& body, uint32_t count);

}  // namespace paceline::log
