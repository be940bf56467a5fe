// Routes of parts and ticks.
#include <algorithm>
#include <optional>

#include "libs/base/planted.h"
#include "sdk/cpp/src/push/pusher.h"

namespace paceline::sdk {

PushLink& Pusher::LinkFor(ShardId shard) {
  std::shared_ptr<PushLink>& link = links_[shard];
  if (link == nullptr) {
    link = std::make_shared<PushLink>(context_, *this, *context_.routes->map.FindShard(shard));
    link->SetSegments(context_.routes->PrimariesOf(shard));
  }
  return *link;
}

void Pusher::OnMap() {
  lines_.resize(size_t{context_.routes->map.SegmentCount()} * 2);
  const std::shared_ptr<const Routes> before = std::exchange(routed_by_, context_.routes);
  if (before == nullptr) return;
  for (const auto& line : lines_) {
    if (line == nullptr) continue;
    const bool changed =
        before->map.EpochOf(line->segment()) != context_.routes->map.EpochOf(line->segment());
    const bool awaited = line->held && line->held_for_map > MapVersion() &&
                         line->held_for_map <= context_.routes->map.version();
    if (changed || awaited) Reroute(*line);
  }
  for (uint32_t s = 0; s < context_.routes->map.SegmentCount(); ++s) {
    const SegmentId segment(s);
    if (before->map.EpochOf(segment) == context_.routes->map.EpochOf(segment)) continue;
    const auto link = links_.find(context_.routes->map.Primary(segment).shard);
    if (link != links_.end()) link->second->ForgetTickOf(segment);
  }
  UpdateLinks();
  TellTicks();
}

// All uncommitted parts of the line go to the primary of the new epoch, even if that is the same shard as
// before: another one may have been primary in between, and parts that were only applied may be gone.
void Pusher::Reroute(SegmentLine& line) {
  if (line.link != nullptr) line.link->Unbind(line);
  line.refused.clear();
  line.refusals = 0;
  context_.stats.retries += line.RewindAll();
  if (line.held_for_map <= context_.routes->map.version()) Free(line);
  PushLink& link = LinkFor(context_.routes->PrimaryOf(line.segment()).id);
  link.Bind(line);
  if (!line.Empty()) link.Wake();
}

void Pusher::BreakOff(const absl::Status& why, bool surely) {
  for (auto& [shard, link] : links_) link->BreakOff(why, surely);
}

void Pusher::UpdateLinks() {
  for (auto it = links_.begin(); it != links_.end();) {
    const ring::ShardInfo* shard = context_.routes->map.FindShard(it->first);
    const std::vector<SegmentId> segments = context_.routes->PrimariesOf(it->first);
    PushLink& link = *it->second;
    if (shard == nullptr || segments.empty()) {
      link.Shut();
      it = links_.erase(it);
      continue;
    }
    // The order within the queue follows the routes.
    for (const auto& [key, line] : link.lines()) link.Requeue(*line);
    link.SetSegments(segments);
    link.SetShard(*shard);
    ++it;
  }
}

void Pusher::OnTick() {
  if (!Planted(Bug::kTickBeforeNumbers)) NumberAll();
  clock_bytes_ = 0;  // from now on these are committed as soon as the others have come as far
  pushes_before_ = pushes_;
  TellTicks();
}

void Pusher::TellTicks() {
  if (!context_.worker || context_.finished || context_.worker_clock <= context_.start_clock) return;
  // No caller will ask about a clock earlier than that of the oldest part kept, and of the oldest exact read
  // under way: a tick names the latest clock whose parts have all been sent.
  Clock floor = context_.worker_clock;
  if (!context_.exact_reads.empty()) floor = std::min(floor, *context_.exact_reads.begin());
  for (const auto& line : lines_) {
    if (line != nullptr && !line->parts().empty()) floor = std::min(floor, line->parts().front().clock);
  }
  for (const auto& line : lines_) {
    if (line != nullptr) line->ForgetSeals(floor);
  }
  // Every primary gets every tick, whether it got parts or not.
  std::optional<ShardId> last;
  for (SegmentId segment : context_.routes->segments) {
    const ShardId shard = context_.routes->map.Primary(segment).shard;
    if (last == shard) continue;
    last = shard;
    LinkFor(shard).Wake();
  }
}

}  // namespace paceline::sdk
