#include "services/coordinator/metadata/placement/loads.h"

#include <algorithm>
#include <utility>

#include "libs/base/planted.h"

namespace paceline::coordinator {
namespace {

// A load that was told earlier is not known any more.
constexpr absl::Duration kKnownFor = absl::Seconds(10);
constexpr int kSegmentsShown = 5;
constexpr int kTooHotMax = 16;

double RowsOf(const v1::SegmentLoad& load) {
  return static_cast<double>(load.pushed_per_s() + load.read_per_s());
}
double RowsOf(const v1::ShardLoad& load) {
  return static_cast<double>(load.pushed_per_s() + load.read_per_s());
}

}  // namespace

void Loads::OnBeat(const v1::BeatRequest& beat) {
  if (!beat.has_load()) return;
  Told& told = told_[beat.shard()];
  const Told before =
      std::exchange(told, {.incarnation = beat.incarnation(), .at = context_.now, .load = beat.load()});
  if (before.incarnation != beat.incarnation() || before.at >= context_.now) return;
  const double busy = static_cast<double>(beat.load().busy_us()) - static_cast<double>(before.load.busy_us());
  const double share = busy / absl::ToDoubleMicroseconds(context_.now - before.at);
  told.load.set_busy_permille(static_cast<uint32_t>(std::max(0.0, 1000 * share)));
}

const Loads::Told* Loads::FindTold(uint32_t shard) const {
  const auto it = told_.find(shard);
  const ShardRecord* record = context_.facts.FindShard(shard);
  if (it == told_.end() || record == nullptr) return nullptr;
  const bool current = it->second.incarnation == record->info().incarnation();
  return current && context_.now - it->second.at <= kKnownFor ? &it->second : nullptr;
}

bool Loads::AllHaveTold() const {
  std::map<uint32_t, bool> has;  // a look at each shard, of many segments
  return std::ranges::all_of(context_.facts.map()->segments(), [&](const v1::SegmentConfig& config) {
    const auto [it, fresh] = has.emplace(config.primary().shard(), false);
    if (!fresh) return it->second;
    const Told* told = FindTold(config.primary().shard());
    it->second = told != nullptr && told->at >= map_since_ && membership_.Current(config.primary());
    return it->second;
  });
}

Loads::Sums Loads::Sum() const {
  Sums sums;
  for (const auto& [id, shard] : context_.facts.shards()) {
    if (!membership_.Alive(id) || shard.draining()) continue;
    ++sums.shards;
    const Told* told = FindTold(id);
    const v1::BeatRequest* last = membership_.LastBeat(id);
    const double rows = told == nullptr ? 0 : RowsOf(told->load);
    const double bytes = last == nullptr ? 0 : static_cast<double>(last->bytes());
    sums.rows += rows;
    sums.rows_most = std::max(sums.rows_most, rows);
    sums.bytes += bytes;
    sums.bytes_most = std::max(sums.bytes_most, bytes);
  }
  return sums;
}

bool Loads::Uneven(const Sums& sums) const {
  const bool rows = sums.MeanRows() >= static_cast<double>(by_load().rows_per_s_min) &&
                    sums.rows_most > by_load().threshold * sums.MeanRows();
  const bool bytes = sums.MeanBytes() >= static_cast<double>(by_load().bytes_min) &&
                     sums.bytes_most > by_load().threshold * sums.MeanBytes();
  return rows || bytes;
}

void Loads::Look(absl::FunctionRef<bool(uint32_t segment)> moving) {
  std::erase_if(told_,
                [this](const auto& entry) { return context_.facts.FindShard(entry.first) == nullptr; });
  if (map_version_ != context_.facts.map_version()) {
    map_version_ = context_.facts.map_version();
    map_since_ = context_.now;
  }
  std::erase_if(moved_, [&](const auto& entry) {
    const auto& [segment, moved] = entry;
    const int replicas = context_.facts.map()->segments(static_cast<int>(segment)).replicas_size();
    const bool done = !moving(segment) && replicas <= static_cast<int>(context_.options.replicas);
    return done && context_.now - moved.at > by_load().rests;
  });
  const bool known = by_load().on && (AllHaveTold() || Planted(Bug::kLoadNotAwaited));
  if (!known || !Uneven(Sum())) {
    uneven_since_ = absl::InfiniteFuture();
  } else {
    uneven_since_ = std::min(uneven_since_, context_.now);
  }
}

LoadInputs Loads::Inputs() const {
  LoadInputs inputs;
  for (const auto& [segment, moved] : moved_) {
    if (moved.relieved.has_value()) inputs.relieves[segment] = *moved.relieved;
    if (context_.now - moved.at <= by_load().rests && !Planted(Bug::kLoadMovesAgain))
      inputs.resting.insert(segment);
  }
  const absl::Duration lasts = Planted(Bug::kLoadMovesEarly) ? absl::ZeroDuration() : by_load().lasts;
  inputs.moves = uneven_since_ != absl::InfiniteFuture() && context_.now - uneven_since_ >= lasts &&
                 context_.now - began_ >= by_load().rests;
  if (!inputs.moves) return inputs;
  const Sums sums = Sum();
  const bool rows = sums.MeanRows() >= static_cast<double>(by_load().rows_per_s_min);
  const bool bytes = sums.MeanBytes() >= static_cast<double>(by_load().bytes_min);
  for (const auto& [id, record] : context_.facts.shards()) {
    const Told* told = FindTold(id);
    if (told == nullptr) continue;
    for (const v1::SegmentLoad& load : told->load.segments()) {
      if (load.segment() >= context_.facts.SegmentCount()) continue;
      if (context_.facts.map()->segments(static_cast<int>(load.segment())).primary().shard() != id) continue;
      inputs.segments[load.segment()] = {.traffic = rows ? RowsOf(load) : 0,
                                         .bytes = bytes ? static_cast<double>(load.bytes()) : 0};
    }
  }
  return inputs;
}

void Loads::OnMove(const MemberMove& move) {
  Moved& moved = moved_[move.segment] = {.at = context_.now};
  if (move.kind == MemberMove::Kind::kRecruit) moved.relieved = move.relieves;
  uneven_since_ = absl::InfiniteFuture();
  ++moves_;
  context_.probe.MovesByLoad(move.segment, *move.relieves, move.to.shard());
}

// A key stays in its segment, so its shard has all that is asked of it: more than it may have of all.
v1::LoadStatus Loads::Status() const {
  v1::LoadStatus status;
  const Sums sums = Sum();
  status.set_rows_per_s(static_cast<uint64_t>(sums.rows));
  if (sums.rows > 0) status.set_peak_percent(static_cast<uint32_t>(100 * sums.rows_most / sums.MeanRows()));
  status.set_balances(by_load().on);
  status.set_moved(moves_);
  const double most = by_load().threshold * sums.MeanRows();
  if (sums.shards < 2 || sums.MeanRows() < static_cast<double>(by_load().rows_per_s_min)) return status;
  for (const auto& [id, record] : context_.facts.shards()) {
    const Told* told = FindTold(id);
    if (told == nullptr) continue;
    for (const v1::SegmentLoad& segment : told->load.segments()) {
      for (const v1::HotKey& key : segment.keys()) {
        if (static_cast<double>(key.rows_per_s()) - static_cast<double>(key.error()) <= most) continue;
        if (status.too_hot_size() >= kTooHotMax) return status;
        v1::LoadStatus::TooHot& hot = *status.add_too_hot();
        hot.set_segment(segment.segment());
        hot.set_shard(id);
        *hot.mutable_key() = key;
      }
    }
  }
  return status;
}

void Loads::AddTo(v1::StatusReply& reply) const {
  *reply.mutable_load() = Status();
  for (v1::ShardStatus& shard : *reply.mutable_shards()) {
    if (shard.has_last()) shard.mutable_last()->clear_load();
    const Told* told = FindTold(shard.info().shard());
    if (told == nullptr) continue;
    *shard.mutable_load() = told->load;
    auto& segments = *shard.mutable_load()->mutable_segments();
    if (segments.size() > kSegmentsShown)
      segments.DeleteSubrange(kSegmentsShown, segments.size() - kSegmentsShown);
  }
}

}  // namespace paceline::coordinator
