#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "paceline/v1/types.pb.h"
#include "services/coordinator/metadata/facts/context.h"

namespace paceline::coordinator {

// Identifies a watcher of the map, from 1.
using WatchId = uint64_t;
// Receives maps in the order of their versions; a map is shared and never changes. To a watcher that takes
// deltas it may be what has changed since the one before, or since the version known at first.
using OnMapFunction = std::function<void(std::shared_ptr<const v1::Map>)>;

// The watchers of the map.
class MapWatchers {
 public:
  explicit MapWatchers(Context& context) : context_(context) {}

  // Calls `on_map` at once if the map is newer than `known_version`, and for every later one.
  absl::StatusOr<WatchId> Add(uint64_t known_version, bool takes_deltas, OnMapFunction on_map);
  void Remove(WatchId id) { watchers_.erase(id); }
  // Passes the newest map to the watchers that do not have it.
  void Notify();
  size_t size() const { return watchers_.size(); }

 private:
  struct Watcher {
    uint64_t known = 0;
    bool takes_deltas = false;
    OnMapFunction on_map;
  };

  // The map as the watcher is to receive it.
  std::shared_ptr<const v1::Map> MapFor(const Watcher& watcher) const;

  Context& context_;
  std::map<WatchId, Watcher> watchers_;
  WatchId last_id_ = 0;
};

}  // namespace paceline::coordinator
