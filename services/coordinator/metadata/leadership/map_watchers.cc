#include "services/coordinator/metadata/leadership/map_watchers.h"

#include <utility>

#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {

absl::StatusOr<WatchId> MapWatchers::Add(uint64_t known_version, bool takes_deltas, OnMapFunction on_map) {
  const size_t limit = context_.options.limits.watchers;
  if (watchers_.size() >= limit) return TooMany("watchers of the map", limit, "share one between clients");
  watchers_[++last_id_] = {.known = known_version, .takes_deltas = takes_deltas, .on_map = std::move(on_map)};
  Notify();
  return last_id_;
}

void MapWatchers::Notify() {
  for (auto& [id, watcher] : watchers_) {
    if (watcher.known >= context_.facts.map_version()) continue;
    const std::shared_ptr<const v1::Map> news = MapFor(watcher);
    watcher.known = context_.facts.map_version();
    context_.outbox.Add([this, id = id, map = news] {
      if (const auto it = watchers_.find(id); it != watchers_.end()) {
        const OnMapFunction on_map = it->second.on_map;  // it may remove itself
        on_map(map);
      }
    });
  }
}

std::shared_ptr<const v1::Map> MapWatchers::MapFor(const Watcher& watcher) const {
  const Facts& facts = context_.facts;
  const bool delta = watcher.takes_deltas && facts.map()->feature_level() >= 2;
  const auto change = delta ? facts.map_history().Since(watcher.known) : nullptr;
  return change == nullptr ? facts.map() : change;
}

}  // namespace paceline::coordinator
