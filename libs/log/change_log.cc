#include "libs/log/change_log.h"

#include <algorithm>

namespace paceline::log {
namespace {

// So many entries more than rows do no harm.
constexpr size_t kPastMax = 64;

}  // namespace

void ChangeLog::Add(Lsn version, uint64_t key, float moved) {
  Last& last = last_[key];
  if (last.version <= settled_) last.moved = 0;
  last = {.version = version, .moved = last.moved + moved};
  entries_.push_back({.version = version, .key = key});
  if (last_.size() > rows_max_) ForgetOldest();
  // A row that changes again and again must not make the log long.
  if (entries_.size() <= 2 * last_.size() + kPastMax) return;
  std::erase_if(entries_, [this](const Entry& entry) { return IsPast(entry); });
}

float ChangeLog::Moved(uint64_t key) const {
  const auto last = last_.find(key);
  return last == last_.end() ? 0 : last->second.moved;
}

// It knows all changes of a record, or none.
void ChangeLog::ForgetOldest() {
  while (IsPast(entries_.front())) entries_.pop_front();
  from_ = entries_.front().version;
  for (; !entries_.empty() && entries_.front().version == from_; entries_.pop_front()) {
    if (!IsPast(entries_.front())) last_.erase(entries_.front().key);
  }
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
