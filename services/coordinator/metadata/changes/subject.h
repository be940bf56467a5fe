#pragma once

#include <compare>
#include <cstdint>

namespace paceline::coordinator {

// The object of a change that goes to every segment, or of a request that waits. Each has at most one such
// change under way.
struct Subject {
  // kCut: a job's snapshot is taken; kLoad: one is loaded into it. Only waited for: kShard, whose primaries
  // are handed over; kFiles, the snapshots' directory.
  enum class Kind : uint8_t { kSession, kTable, kJob, kCut, kLoad, kShard, kFiles };
  Kind kind = Kind::kSession;
  uint64_t id = 0;

  static Subject Session(uint64_t id) { return {Kind::kSession, id}; }
  static Subject Table(uint32_t id) { return {Kind::kTable, id}; }
  static Subject Job(uint32_t id) { return {Kind::kJob, id}; }
  static Subject Cut(uint32_t job) { return {Kind::kCut, job}; }
  static Subject Load(uint32_t job) { return {Kind::kLoad, job}; }
  static Subject Shard(uint32_t id) { return {Kind::kShard, id}; }
  static Subject Files() { return {Kind::kFiles, 0}; }
  friend auto operator<=>(const Subject&, const Subject&) = default;
};

}  // namespace paceline::coordinator
