#include "tools/paceline/drill.h"

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/world/real_clock.h"

namespace paceline::tool {
namespace {

constexpr absl::Duration kLookForTraining = absl::Milliseconds(100);
constexpr absl::Duration kLookForTakeover = absl::Milliseconds(10);
// From the first rows that are seen to the kill: in the middle of the work.
constexpr absl::Duration kTrains = absl::Milliseconds(500);
constexpr absl::Duration kCallTimeout = absl::Seconds(1);
constexpr absl::Duration kGiveUp = absl::Seconds(30);

void Say(const std::string& text) {
  std::fputs(absl::StrCat("\npaceline: drill: ", text, "\n").c_str(), stderr);
}

}  // namespace

Drill::Drill(Supervisor& supervisor, LocalCluster& cluster)
    : supervisor_(supervisor), cluster_(cluster), next_(world::MonotonicNow() + kLookForTraining) {}

void Drill::Step() {
  victim_ == nullptr ? AwaitTraining() : AwaitTakeover();
}

void Drill::AwaitTraining() {
  next_ = world::MonotonicNow() + kLookForTraining;
  const absl::StatusOr<v1::StatusReply> status = cluster_.coordinator().Status(kCallTimeout);
  if (!status.ok()) return;
  const bool pushed =
      std::any_of(status->shards().begin(), status->shards().end(),
                  [](const v1::ShardStatus& shard) { return shard.last().rows_pushed() > 0; });
  if (!pushed) return;
  if (!pushed_since_.has_value()) pushed_since_ = world::MonotonicNow();
  if (world::MonotonicNow() - *pushed_since_ >= kTrains) Kill();
}

void Drill::Kill() {
  const absl::StatusOr<v1::Map> map = cluster_.coordinator().Map(kCallTimeout);
  const Child* victim = cluster_.AnyShard();
  if (!map.ok() || victim == nullptr) return;
  const auto shard = std::find_if(map->shards().begin(), map->shards().end(),
                                  [&](const v1::ShardInfo& info) { return info.name() == victim->name; });
  if (shard == map->shards().end()) return;
  shard_ = shard->shard();
  segments_ = static_cast<size_t>(
      std::count_if(map->segments().begin(), map->segments().end(),
                    [&](const v1::SegmentConfig& config) { return config.primary().shard() == shard_; }));
  victim_ = victim;
  killed_ = world::MonotonicNow();
  supervisor_.Signal(*victim, SIGKILL);
  Say(absl::StrCat(victim->name, " is killed (SIGKILL), the primary of ", segments_, " of ",
                   map->segments_size(), " segments"));
  next_ = killed_ + kLookForTakeover;
}

void Drill::AwaitTakeover() {
  const absl::StatusOr<v1::Map> map = cluster_.coordinator().Map(kCallTimeout);
  const absl::Time now = world::MonotonicNow();
  next_ = now + kLookForTakeover;
  if (map.ok() && std::none_of(map->segments().begin(), map->segments().end(),
                               [&](const auto& config) { return config.primary().shard() == shard_; })) {
    Say(absl::StrFormat("replicas have taken over all %d segments, %.2f s after the kill", segments_,
                        absl::ToDoubleSeconds(now - killed_)));
    next_ = absl::InfiniteFuture();
  } else if (now - killed_ > kGiveUp) {
    Say(absl::StrCat("after ", absl::FormatDuration(kGiveUp), " segments of ", victim_->name,
                     " still have no new primary; see `paceline status`"));
    next_ = absl::InfiniteFuture();
  }
}

}  // namespace paceline::tool
