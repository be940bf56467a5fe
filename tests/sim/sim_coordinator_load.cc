// Moves by load, as the simulator sees them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_coordinator.h"

namespace paceline::sim {

void SimCoordinator::OnBeat(const v1::BeatRequest& beat) {
  if (beat.has_load()) told_load_[{beat.shard(), beat.incarnation()}] = clock_.Now();
}

// ByLoad: when nothing else is to be moved, by what every primary has told, and no segment again too soon.
void SimCoordinator::MovesByLoad(uint32_t segment, uint32_t from, uint32_t to) {
  world_.marks.Hit(options_.replicas == 0 ? "a segment moves by load" : "a primary is handed over by load");
  world_.Trace(absl::StrCat("segment ", segment, " moves by load from shard ", from, " to ", to));
  const auto violated = [&](const std::string& why) {
    world_.verdict.Violated("ByLoad", absl::StrCat("segment ", segment, " moves by load ", why));
  };
  const auto [last, first] = moved_by_load_.emplace(segment, clock_.Now());
  if (!first && clock_.Now() - last->second <= options_.by_load.rests) violated("again, and has not rested");
  last->second = clock_.Now();
  const v1::Map& map = before_doubt_.has_value() ? *before_doubt_ : map_;  // as its author knows it
  const auto drains = [this](const v1::Member& member) {
    return std::ranges::any_of(draining_, [&](const auto& one) { return one.second == member.shard(); });
  };
  for (const v1::SegmentConfig& config : map.segments()) {
    // One that holds nothing any more only waits until it is taken away.
    if (!drains_in_doubt_ && (drains(config.primary()) || std::ranges::any_of(config.replicas(), drains)))
      return violated("while a shard drains");
    if (config.replicas_size() != static_cast<int>(options_.replicas))
      return violated("while segments have a copy too few or too many");
    const auto told = told_load_.find({config.primary().shard(), config.primary().incarnation()});
    if (told == told_load_.end() || (!before_doubt_.has_value() && told->second < map_at_))
      return violated(absl::StrCat("and the coordinator does not know the load of shard ",
                                   config.primary().shard(), " (incarnation ", config.primary().incarnation(),
                                   ") under the present map, of ", absl::FormatTime(map_at_)));
  }
}

}  // namespace paceline::sim
