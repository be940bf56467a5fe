#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "paceline/v1/types.pb.h"
#include "services/coordinator/metadata/context.h"

namespace paceline::coordinator {

// Names a watcher of the map, from 1.
using WatchId = uint64_t;
// Takes a map. Called in the order of versions; maps are shared and never change.
using OnMapFunction = std::function<void(std::shared_ptr<const v1::Map>)>;

// Those who want to know every map.
class MapWatchers {
 public:
  explicit MapWatchers(Context& context) : context_(context) {}

  // `on_map` hears of the map at once if it is newer than `known_version`, and of every later one.
  absl::StatusOr<WatchId> Add(uint64_t known_version, OnMapFunction on_map);
  void Remove(WatchId id) { watchers_.erase(id); }
  // Tells those who have not heard of the newest map.
  void Notify();
  size_t size() const { return watchers_.size(); }

 private:
  struct Watcher {
    uint64_t known = 0;
    OnMapFunction on_map;
  };

  Context& context_;
  std::map<WatchId, Watcher> watchers_;
  WatchId last_id_ = 0;
};

}  // namespace paceline::coordinator
