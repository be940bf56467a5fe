#pragma once

#include <compare>
#include <cstdint>

#include "paceline/v1/control.pb.h"

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
  // What the change is about.
  static Subject Of(const v1::Change& change) {
    if (change.has_cut()) return Cut(change.job());
    if (change.has_load()) return Load(change.job());
    if (change.subject().kind() == v1::Subject::JOB) return Job(change.job());
    const bool session = change.subject().kind() == v1::Subject::SESSION;
    return {session ? Kind::kSession : Kind::kTable, change.subject().id()};
  }
  friend auto operator<=>(const Subject&, const Subject&) = default;
};

// A change of this number, without its action.
inline v1::Change ChangeOf(v1::Subject::Kind kind, uint64_t id, uint32_t job, uint64_t number) {
  v1::Change change;
  change.mutable_subject()->set_kind(kind);
  change.mutable_subject()->set_id(id);
  change.set_job(job);
  change.set_number(number);
  return change;
}

}  // namespace paceline::coordinator
