#include "services/coordinator/metadata/facts/keys.h"

#include "absl/strings/str_cat.h"

namespace paceline::coordinator::keys {

std::string MapChunk(uint32_t number) {
  return absl::StrCat(kMapChunks, absl::Dec(number, absl::kZeroPad10));
}
std::string Shard(uint32_t id) {
  return absl::StrCat(kShards, absl::Dec(id, absl::kZeroPad10));
}
std::string Job(uint32_t id) {
  return absl::StrCat(kJobs, absl::Dec(id, absl::kZeroPad10));
}
std::string Session(uint64_t id) {
  return absl::StrCat(kSessions, absl::Dec(id, absl::kZeroPad20));
}
std::string Table(uint32_t id) {
  return absl::StrCat(kTables, absl::Dec(id, absl::kZeroPad10));
}
std::string Drop(uint32_t table) {
  return absl::StrCat(kDrops, absl::Dec(table, absl::kZeroPad10));
}
std::string RuleChange(uint32_t table) {
  return absl::StrCat(kRuleChanges, absl::Dec(table, absl::kZeroPad10));
}
std::string WorkQueue(uint32_t id) {
  return absl::StrCat(kWorkQueues, absl::Dec(id, absl::kZeroPad10));
}
std::string WorkHeld(uint64_t session) {
  return absl::StrCat(kWorkHeld, absl::Dec(session, absl::kZeroPad20));
}

}  // namespace paceline::coordinator::keys
