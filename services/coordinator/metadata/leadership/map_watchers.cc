#include "services/coordinator/metadata/leadership/map_watchers.h"

#include <utility>

#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {

absl::StatusOr<WatchId> MapWatchers::Add(uint64_t known_version, OnMapFunction on_map) {
  const size_t limit = context_.options.limits.watchers;
  if (watchers_.size() >= limit) return TooMany("watchers of the map", limit, "share one between clients");
  watchers_[++last_id_] = {.known = known_version, .on_map = std::move(on_map)};
  Notify();
  return last_id_;
}

void MapWatchers::Notify() {
  for (auto& [id, watcher] : watchers_) {
    if (watcher.known >= context_.facts.map_version()) continue;
    watcher.known = context_.facts.map_version();
    context_.outbox.Add([this, id = id, map = context_.facts.map()] {
      if (const auto it = watchers_.find(id); it != watchers_.end()) {
        const OnMapFunction on_map = it->second.on_map;  // it may remove itself
        on_map(map);
      }
    });
  }
}

}  // namespace paceline::coordinator
