#include "libs/engine/format.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/crc32c.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"

namespace paceline::engine {
namespace {

constexpr size_t kChecksumBytes = 4;
constexpr size_t kHeadBytes = 17;  // of a segment: first group, whether there is a base, its LSN

// Most significant byte first, so that keys sort as numbers.
void AppendBigEndian(uint64_t value, int bytes, std::string& out) {
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t BigEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

absl::Status Wrong(absl::string_view what, size_t bytes, absl::string_view expected) {
  return absl::DataLossError(absl::StrCat(what, ": ", bytes, " bytes; expected ", expected));
}

uint32_t ChecksumOf(absl::string_view head, const absl::Cord& record) {
  uint32_t crc = Crc32c({head.data(), head.size()});
  for (const absl::string_view chunk : record.Chunks()) crc = ExtendCrc32c(crc, {chunk.data(), chunk.size()});
  return crc;
}

}  // namespace

std::string GroupKey(uint64_t group) {
  std::string key;
  AppendBigEndian(group, 8, key);
  return key;
}

std::string SegmentKey(SegmentId segment) {
  std::string key;
  AppendBigEndian(segment.v, 4, key);
  return key;
}

std::string PageKeyBytes(SegmentId segment, const PageKey& key) {
  std::string bytes;
  AppendBigEndian(segment.v, 4, bytes);
  AppendBigEndian(key.table.v, 4, bytes);
  AppendBigEndian(key.start, 8, bytes);
  AppendBigEndian(key.depth, 1, bytes);
  return bytes;
}

absl::StatusOr<uint64_t> ParseGroupKey(absl::string_view bytes) {
  if (bytes.size() != 8) return Wrong("key of a group", bytes.size(), "8");
  return BigEndian(bytes);
}

absl::StatusOr<SegmentId> ParseSegmentKey(absl::string_view bytes) {
  if (bytes.size() != 4) return Wrong("key of a segment", bytes.size(), "4");
  return SegmentId(static_cast<uint32_t>(BigEndian(bytes)));
}

absl::StatusOr<std::pair<SegmentId, PageKey>> ParsePageKey(absl::string_view bytes) {
  if (bytes.size() != 17) return Wrong("key of a page", bytes.size(), "17");
  return std::pair(SegmentId(static_cast<uint32_t>(BigEndian(bytes.substr(0, 4)))),
                   PageKey{.table = TableId(static_cast<uint32_t>(BigEndian(bytes.substr(4, 4)))),
                           .start = BigEndian(bytes.substr(8, 8)),
                           .depth = static_cast<uint32_t>(BigEndian(bytes.substr(16, 1)))});
}

std::string EntryHead(const LogEntry& entry) {
  std::string head(kEntryHeadBytes, '\0');
  StoreU32(entry.segment.v, &head[4]);
  StoreU64(entry.epoch.v, &head[8]);
  StoreU64(entry.lsn.v, &head[16]);
  StoreU64(entry.record.size(), &head[24]);
  StoreU32(ChecksumOf(absl::string_view(head).substr(kChecksumBytes), entry.record), head.data());
  return head;
}

absl::Status ParseGroup(absl::string_view bytes, absl::FunctionRef<absl::Status(LogEntry)> visit) {
  while (!bytes.empty()) {
    if (bytes.size() < kEntryHeadBytes) return Wrong("group", bytes.size(), "a record's head of 32");
    const absl::string_view head = bytes.substr(0, kEntryHeadBytes);
    bytes.remove_prefix(kEntryHeadBytes);
    const uint64_t size = LoadU64(&head[24]);
    if (size > bytes.size()) return Wrong("group", bytes.size(), absl::StrCat("a record of ", size));
    LogEntry entry{.segment = SegmentId(LoadU32(&head[4])),
                   .epoch = Epoch(LoadU64(&head[8])),
                   .lsn = Lsn(LoadU64(&head[16])),
                   // One piece, which its reader need not copy again.
                   .record = absl::Cord(std::string(bytes.substr(0, size)))};
    bytes.remove_prefix(size);
    if (ChecksumOf(head.substr(kChecksumBytes), entry.record) != LoadU32(head.data())) {
      return absl::DataLossError(absl::StrCat("record ", entry.lsn.v, " of segment ", entry.segment.v,
                                              ": its checksum does not match its bytes"));
    }
    ABSL_RETURN_IF_ERROR(visit(std::move(entry)));
  }
  return absl::OkStatus();
}

std::string EncodeSegmentHead(const SegmentHead& head) {
  std::string bytes(kHeadBytes, '\0');
  StoreU64(head.first_group, bytes.data());
  bytes[8] = head.has_base ? 1 : 0;
  StoreU64(head.lsn.v, &bytes[9]);
  return Checked(bytes + head.base);
}

absl::StatusOr<SegmentHead> DecodeSegmentHead(absl::string_view bytes) {
  ABSL_ASSIGN_OR_RETURN(const absl::string_view inner, Unchecked(bytes, "base"));
  if (inner.size() < kHeadBytes || (inner[8] & ~1) != 0) return Wrong("base", inner.size(), "a head of 17");
  return SegmentHead{.first_group = LoadU64(inner.data()),
                     .has_base = inner[8] != 0,
                     .lsn = Lsn(LoadU64(&inner[9])),
                     .base = std::string(inner.substr(kHeadBytes))};
}

std::string Checked(absl::string_view bytes) {
  std::string checked(kChecksumBytes, '\0');
  StoreU32(Crc32c({bytes.data(), bytes.size()}), checked.data());
  checked.append(bytes.data(), bytes.size());
  return checked;
}

absl::StatusOr<absl::string_view> Unchecked(absl::string_view bytes, absl::string_view what) {
  if (bytes.size() < kChecksumBytes) return Wrong(what, bytes.size(), "a checksum of 4 at least");
  const absl::string_view inner = bytes.substr(kChecksumBytes);
  if (Crc32c({inner.data(), inner.size()}) == LoadU32(bytes.data())) return inner;
  return absl::DataLossError(absl::StrCat(what, ": its checksum does not match its bytes"));
}

}  // namespace paceline::engine
