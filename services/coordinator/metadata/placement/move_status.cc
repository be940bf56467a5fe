// How far moves are, and what is left of them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/placement/config_wishes.h"
#include "services/coordinator/metadata/placement/moves.h"

namespace paceline::coordinator {
namespace {

using Kind = MemberMove::Kind;

constexpr int kCountedMax = 4096;  // segments
constexpr absl::Duration kMeasure = absl::Seconds(2);

}  // namespace

void Moves::OnBeat(const v1::BeatRequest& beat) {
  for (const v1::LearnerProgress& progress : beat.learners()) {
    const auto it = under_way_.find(progress.segment());
    if (it == under_way_.end() || it->second.move.kind != Kind::kRecruit) continue;
    UnderWay& one = it->second;
    if (one.move.primary.shard() != beat.shard() || !Same(one.move.to, progress.learner())) continue;
    one.bytes_left = progress.bytes_left();
    if (progress.bytes_moved() == one.bytes_moved) continue;
    // Fewer: its image has begun again, and moves too.
    if (progress.bytes_moved() > one.bytes_moved) measured_bytes_ += progress.bytes_moved() - one.bytes_moved;
    one.bytes_moved = progress.bytes_moved();
    one.moved_at = context_.now;
  }
  const absl::Duration took = context_.now - measured_since_;
  if (took < kMeasure) return;
  bytes_per_s_ =
      took > 2 * kMeasure
          ? 0
          : static_cast<uint64_t>(static_cast<double>(measured_bytes_) / absl::ToDoubleSeconds(took));
  measured_since_ = context_.now;
  measured_bytes_ = 0;
}

// What would be begun if there were no bound.
void Moves::CountCopiesLeft() {
  MoveInputs inputs = Inputs();
  // The whole rest of a large ring takes long to plan, and this is only said to people.
  if (inputs.map.segments_size() <= kCountedMax) inputs.moves_per_shard = INT32_MAX;
  const std::vector<MemberMove> moves = PlanMoves(inputs);
  copies_left_ = static_cast<uint32_t>(std::ranges::count(moves, Kind::kRecruit, &MemberMove::kind));
}

// A copy of which nothing is known is taken for as large as the mean.
std::optional<v1::MoveStatus> Moves::Status() const {
  if (under_way_.empty()) return std::nullopt;
  uint64_t bytes = 0;
  uint64_t copies = 0;
  for (const auto& [id, shard] : context_.facts.shards()) {
    if (const v1::BeatRequest* last = membership_.LastBeat(id)) bytes += last->bytes();
  }
  for (const auto& config : context_.facts.map()->segments()) {
    copies += 1 + static_cast<uint64_t>(config.replicas_size());
  }
  const uint64_t mean = bytes / std::max<uint64_t>(1, copies);
  v1::MoveStatus status;
  status.set_copies_left(copies_left_);
  status.set_bytes_per_s(bytes_per_s_);
  uint64_t left = copies_left_ * mean;
  for (const auto& [segment, one] : under_way_) {
    if (one.move.kind == Kind::kHandOver) {
      status.set_hand_overs(status.hand_overs() + 1);
    } else {
      status.set_copies(status.copies() + 1);
      left += one.bytes_left.value_or(mean);
    }
  }
  status.set_bytes_left(left);
  return status;
}

std::map<uint32_t, int> Moves::Learners() const {
  std::map<uint32_t, int> learners;
  for (const auto& [segment, one] : under_way_) {
    if (one.move.kind == MemberMove::Kind::kRecruit) learners[one.move.to.shard()] += 1;
  }
  return learners;
}

std::set<uint32_t> Moves::UnderReplicated() const {
  std::set<uint32_t> segments;
  if (context_.facts.map() == nullptr) return segments;
  for (uint32_t s = 0; s < context_.facts.SegmentCount(); ++s) {
    const auto live = std::ranges::count_if(
        ConfigOf(s).replicas(), [this](const auto& replica) { return membership_.Current(replica); });
    if (live < static_cast<int64_t>(context_.options.replicas)) segments.insert(s);
  }
  return segments;
}

std::vector<std::string> Moves::Problems() const {
  const std::set<uint32_t> segments = UnderReplicated();
  if (segments.empty()) return {};
  const uint32_t wanted = context_.options.replicas;
  size_t alive = 0;
  size_t draining = 0;
  for (const auto& [id, shard] : context_.facts.shards()) {
    if (membership_.Alive(id)) (shard.draining() ? draining : alive) += 1;
  }
  return {absl::StrCat(
      "segments ", Ranges(segments), " have fewer than the ", wanted, " replicas wanted: ",
      alive > wanted
          ? "they are being copied to other shards"
          : absl::StrCat(wanted + 1, " shards are needed and ", alive, " live",
                         draining == 0 ? "" : absl::StrCat(" that do not drain (", draining, " do)"),
                         "; start more"))};
}

}  // namespace paceline::coordinator
