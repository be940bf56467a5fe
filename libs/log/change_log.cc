#include "libs/log/change_log.h"

#include <algorithm>

namespace paceline::log {

void ChangeLog::Add(Lsn version, uint64_t key) {
  entries_.push_back({.version = version, .key = key});
  if (entries_.size() <= entries_max_) return;
  from_ = entries_.front().version;  // it knows all changes of a record, or none
  while (!entries_.empty() && entries_.front().version == from_) entries_.pop_front();
}

std::optional<std::vector<uint64_t>> ChangeLog::Since(Lsn since, uint64_t max) const {
  if (since < from_) return std::nullopt;
  std::vector<uint64_t> keys;
  for (auto it = entries_.rbegin(); it != entries_.rend() && it->version > since; ++it) {
    keys.push_back(it->key);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  if (keys.size() > max) return std::nullopt;
  return keys;
}

}  // namespace paceline::log
