#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/ids.h"
#include "libs/engine/engine.h"

// The layout of segments in a database of ordered keys: docs/formats.md. Pure. Safe for hostile bytes:
// kDataLoss names the fault.
namespace paceline::engine {

// 2: there is a mark beside the database (synced_mark.h); otherwise as 1.
inline constexpr uint64_t kFormat = 2;

// Keys sort as the numbers they are made of.
std::string GroupKey(uint64_t group);
std::string SegmentKey(SegmentId segment);
std::string PageKeyBytes(SegmentId segment, const PageKey& key);
absl::StatusOr<uint64_t> ParseGroupKey(absl::string_view bytes);
absl::StatusOr<SegmentId> ParseSegmentKey(absl::string_view bytes);
absl::StatusOr<std::pair<SegmentId, PageKey>> ParsePageKey(absl::string_view bytes);

// A group holds the records that were written together. Each is a head and the record; the head has its
// checksum.
inline constexpr size_t kEntryHeadBytes = 32;
std::string EntryHead(const LogEntry& entry);
// Calls `visit` for each record of a group.
absl::Status ParseGroup(absl::string_view bytes, absl::FunctionRef<absl::Status(LogEntry)> visit);

// The beginning of a segment: only groups from `first_group` on are its own, and of their records only those
// after `lsn`.
struct SegmentHead {
  uint64_t first_group = 0;
  bool has_base = false;
  Lsn lsn;           // 0 without a base
  std::string base;  // empty without one
};
std::string EncodeSegmentHead(const SegmentHead& head);
absl::StatusOr<SegmentHead> DecodeSegmentHead(absl::string_view bytes);

// Puts a checksum before the bytes.
std::string Checked(absl::string_view bytes);
absl::StatusOr<absl::string_view> Unchecked(absl::string_view bytes, absl::string_view what);

}  // namespace paceline::engine
