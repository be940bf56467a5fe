#include "libs/engine/log_runs.h"

#include <algorithm>

namespace paceline::engine {

void LogRuns::Append(uint64_t group, SegmentId segment, Lsn lsn, uint64_t bytes) {
  const bool full = runs_.empty() || (runs_.back().bytes >= kRunBytes && runs_.back().last != group);
  if (full) runs_.emplace_back().first = group;
  Run& run = runs_.back();
  run.last = group;
  run.bytes += bytes;
  run.newest[segment] = lsn;
}

void LogRuns::Cut(SegmentId segment, Lsn lsn) {
  needs_[segment].after = lsn;
}

void LogRuns::Reset(SegmentId segment, uint64_t first_group) {
  // Closes the run: within one, records of the old log would pass for records of the new one.
  if (!runs_.empty()) runs_.back().bytes = std::max(runs_.back().bytes, kRunBytes);
  needs_[segment] = {.after = Lsn(), .from_group = first_group};
}

bool LogRuns::Needed(const Run& run) const {
  return std::any_of(run.newest.begin(), run.newest.end(), [&](const auto& entry) {
    const auto needs = needs_.find(entry.first);
    if (needs == needs_.end()) return true;
    return run.last >= needs->second.from_group && entry.second > needs->second.after;
  });
}

uint64_t LogRuns::OldestNeeded(uint64_t next) {
  while (!runs_.empty() && !Needed(runs_.front())) runs_.pop_front();
  return runs_.empty() ? next : runs_.front().first;
}

}  // namespace paceline::engine
