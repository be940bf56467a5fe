#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "libs/log/record.h"

namespace paceline::log {

// The numbers of the coordinator's changes that a segment has seen: of each subject the last one, and the
// floor, up to which all are late. Part of the replicated state, so a call that was sent long ago is known
// for what it is by every later primary, also where its effect has left no trace. It judges the coordinator's
// calls only. Plain value; O(log n), where n is the number of subjects changed above the floor.
class ChangeNumbers {
 public:
  using Last = std::map<Subject, uint64_t>;

  ChangeNumbers() = default;
  // REQUIRES: every number is above the floor.
  ChangeNumbers(uint64_t floor, Last last) : floor_(floor), last_(std::move(last)) {}

  // True if a newer change of the subject has begun, or the change was over before this segment began.
  bool IsLate(const Subject& subject, uint64_t number) const;
  // True if the change has begun here.
  bool HasBegun(const Subject& subject, uint64_t number) const;
  // Takes the record.
  void Begin(const BeginChange& change);

  uint64_t floor() const { return floor_; }
  const Last& last() const { return last_; }
  uint64_t Highest() const;

 private:
  uint64_t floor_ = 0;
  Last last_;  // those above the floor
};

}  // namespace paceline::log
