#include "services/coordinator/metadata/placement/promotions.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "services/coordinator/metadata/changes/call_shard.h"
#include "services/coordinator/metadata/placement/config_wishes.h"

namespace paceline::coordinator {
namespace {

// How long ready attempts wait for others, so that one commit serves them all.
constexpr absl::Duration kGather = absl::Milliseconds(5);
// The pause between two attempts that no replica wished for.
constexpr absl::Duration kBeginAgain = absl::Milliseconds(200);

// How many segments each shard is primary of.
std::map<uint32_t, int> Primaries(const v1::Map& map) {
  std::map<uint32_t, int> count;
  for (const v1::SegmentConfig& segment : map.segments()) count[segment.primary().shard()] += 1;
  return count;
}

}  // namespace

const v1::SegmentConfig& Promotions::ConfigOf(uint32_t segment) const {
  return context_.facts.map()->segments(static_cast<int>(segment));
}

void Promotions::Wish(uint32_t segment, const v1::Member& by) {
  const uint64_t epoch = ConfigOf(segment).epoch();
  const auto [it, begun] = attempts_.try_emplace(segment);
  Attempt& attempt = it->second;
  if (begun || attempt.epoch != epoch) {
    attempt = Attempt();
    attempt.number = ++last_number_;
    attempt.epoch = epoch;
  }
  const bool known = std::ranges::count(attempt.wishing, by.shard()) > 0 || attempt.first == by.shard();
  if (!known) attempt.wishing.push_back(by.shard());
}

std::set<uint32_t> Promotions::UnderWay() const {
  std::set<uint32_t> segments;
  for (const auto& [segment, attempt] : attempts_) segments.insert(segment);
  return segments;
}

void Promotions::Pump() {
  if (context_.facts.map() == nullptr) return;
  DropOutdated();
  BeginTakeovers();
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    Attempt& attempt = it->second;
    const bool idle = !attempt.others_asked && !attempt.first.has_value();
    it = idle && !AskFirst(it->first, attempt) ? attempts_.erase(it) : std::next(it);
  }
  PassDeadlines();
  Send();
  CommitReady();
}

// -- beginning --

void Promotions::DropOutdated() {
  std::erase_if(attempts_,
                [this](const auto& entry) { return entry.second.epoch != ConfigOf(entry.first).epoch(); });
  const std::set<uint32_t>& due = membership_.to_take_over();
  std::erase_if(next_begin_, [&due](const auto& entry) { return !due.contains(entry.first); });
}

void Promotions::BeginTakeovers() {
  if (!membership_.CheckMayMakeMaps().ok()) return;
  for (const uint32_t segment : membership_.to_take_over()) {
    const auto it = attempts_.find(segment);
    if (it != attempts_.end() && it->second.primary_over) continue;
    const auto pause = next_begin_.find(segment);
    if (pause != next_begin_.end() && pause->second > context_.now) continue;
    next_begin_[segment] = context_.now + kBeginAgain;
    Attempt& attempt = attempts_[segment];
    attempt = Attempt();
    attempt.number = ++last_number_;
    attempt.epoch = ConfigOf(segment).epoch();
    attempt.primary_over = true;
    AskOthers(segment, attempt);
  }
}

bool Promotions::AskFirst(uint32_t segment, Attempt& attempt) {
  while (!attempt.wishing.empty()) {
    attempt.first = attempt.wishing.front();
    attempt.wishing.pop_front();
    attempt.deadline = context_.now + context_.options.fence_wait;
    Ask(segment, attempt, *attempt.first, /*only_if_silent=*/true);
    if (attempt.awaited.contains(*attempt.first)) return true;
  }
  attempt.first.reset();
  return false;
}

void Promotions::AskOthers(uint32_t segment, Attempt& attempt) {
  attempt.others_asked = true;
  attempt.deadline = context_.now + context_.options.fence_wait;
  for (const v1::Member& replica : ConfigOf(segment).replicas()) {
    if (!attempt.fenced.contains(replica.shard())) {
      Ask(segment, attempt, replica.shard(), /*only_if_silent=*/false);
    }
  }
}

// Asks only replicas that are the newest start of their shard: an earlier one has ended, and would not be in
// the next epoch.
void Promotions::Ask(uint32_t segment, Attempt& attempt, uint32_t shard, bool only_if_silent) {
  const v1::SegmentConfig& config = ConfigOf(segment);
  const auto replica =
      std::ranges::find_if(config.replicas(), [shard](const auto& r) { return r.shard() == shard; });
  if (replica == config.replicas().end() || !membership_.Current(*replica)) return;
  Call& call = calls_[shard];
  *call.request.mutable_target() = *replica;
  v1::FenceRequest::Segment& of_segment = *call.request.add_segments();
  of_segment.set_segment(segment);
  of_segment.set_epoch(attempt.epoch + 1);
  of_segment.set_only_if_silent(only_if_silent);
  call.asked.push_back({.segment = segment, .number = attempt.number});
  attempt.awaited.insert(shard);
}

// -- calls --

void Promotions::Send() {
  for (auto& [shard, call] : std::exchange(calls_, {})) {
    const v1::ShardInfo& info = context_.facts.FindShard(shard)->info();
    call.request.set_cluster(context_.facts.cluster());
    CallShard(
        context_, info, &ShardCaller::Fence, std::move(call.request),
        [this, shard = shard, incarnation = info.incarnation(), asked = std::move(call.asked)](
            const absl::StatusOr<v1::FenceReply>& reply) { OnAnswer(shard, incarnation, asked, reply); });
  }
}

void Promotions::OnAnswer(uint32_t shard, uint64_t incarnation, const std::vector<Asked>& asked,
                          const absl::StatusOr<v1::FenceReply>& reply) {
  const ShardRecord* known = context_.facts.FindShard(shard);
  if (known == nullptr) return;  // the shard was removed
  const v1::ShardInfo& info = known->info();
  if (info.incarnation() != incarnation) return;  // that start has ended, and is no longer awaited
  if (!reply.ok()) {
    context_.probe.CallRepeated(info, absl::StrCat("Fence: ", reply.status().ToString()));
  }
  std::map<uint32_t, const v1::FenceReply::Segment*> answers;
  if (reply.ok()) {
    for (const auto& segment : reply->segments()) answers[segment.segment()] = &segment;
  }
  for (const Asked& one : asked) {
    const auto it = attempts_.find(one.segment);
    if (it == attempts_.end() || it->second.number != one.number) continue;
    const auto answer = answers.find(one.segment);
    Take(it, shard, answer == answers.end() ? nullptr : answer->second);
  }
  Pump();
}

void Promotions::Take(Attempts::iterator it, uint32_t shard, const v1::FenceReply::Segment* answer) {
  const auto& [segment, attempt] = *it;
  Attempt& mine = it->second;
  if (mine.awaited.erase(shard) == 0) return;  // a repeated or late answer
  const bool fenced = answer != nullptr && answer->fenced();
  if (fenced) mine.fenced[shard] = {answer->lsn_epoch(), answer->lsn()};
  if (attempt.first != shard) return;
  mine.first.reset();
  // The replica is not silent after all, or unreachable: the next Pump may ask another one that wishes.
  if (fenced) AskOthers(segment, mine);
}

void Promotions::PassDeadlines() {
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    Attempt& attempt = it->second;
    const bool late = attempt.deadline <= context_.now && !attempt.awaited.empty();
    if (!late) {
      ++it;
      continue;
    }
    attempt.awaited.clear();
    attempt.first.reset();
    it = !attempt.others_asked && !AskFirst(it->first, attempt) ? attempts_.erase(it) : std::next(it);
  }
}

absl::Time Promotions::NextTry() const {
  absl::Time next = gather_until_;
  for (const auto& [segment, attempt] : attempts_) {
    if (!attempt.awaited.empty()) next = std::min(next, attempt.deadline);
  }
  for (const auto& [segment, begin] : next_begin_) {
    if (!attempts_.contains(segment)) next = std::min(next, begin);
  }
  return next;
}

// -- the end --

void Promotions::CommitReady() {
  std::erase_if(attempts_,
                [](const auto& entry) { return Ready(entry.second) && entry.second.fenced.empty(); });
  const auto ready = std::ranges::count_if(attempts_, [](const auto& entry) { return Ready(entry.second); });
  if (ready == 0) {
    gather_until_ = absl::InfiniteFuture();
    return;
  }
  gather_until_ = std::min(gather_until_, context_.now + kGather);
  if (ready < static_cast<int64_t>(attempts_.size()) && context_.now < gather_until_) return;
  gather_until_ = absl::InfiniteFuture();
  v1::Map map = *context_.facts.map();
  std::map<uint32_t, int> primaries = Primaries(map);
  uint64_t taken = 0;
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    if (!Ready(it->second)) {
      ++it;
      continue;
    }
    if (auto next = NextConfig(it->first, it->second, primaries)) {
      *map.mutable_segments(static_cast<int>(it->first)) = *std::move(next);
      ++taken;
    }
    it = attempts_.erase(it);
  }
  // If the commit fails the replicas wish again.
  if (taken == 0 || !membership_.CommitMap(std::move(map)).ok()) return;
  takeovers_ += taken;
  context_.probe.SegmentsTakenOver(taken);
  on_map_();
}

std::optional<v1::SegmentConfig> Promotions::NextConfig(uint32_t segment, const Attempt& attempt,
                                                        std::map<uint32_t, int>& primaries) const {
  const v1::SegmentConfig& config = ConfigOf(segment);
  if (config.epoch() != attempt.epoch) return std::nullopt;
  v1::SegmentConfig next;
  next.set_epoch(config.epoch() + 1);
  // Takes the most advanced; among equals the one whose shard is primary of the fewest segments.
  std::optional<std::tuple<Progress, int>> best;
  for (const v1::Member& replica : config.replicas()) {
    const auto fenced = attempt.fenced.find(replica.shard());
    if (fenced == attempt.fenced.end() || !membership_.Current(replica)) continue;
    const std::tuple<Progress, int> rank(fenced->second, -primaries[replica.shard()]);
    v1::Member& place = *next.add_replicas() = replica;
    if (best.has_value() && rank <= *best) continue;
    if (best.has_value()) {
      place.Swap(next.mutable_primary());
    } else {
      *next.mutable_primary() = replica;
      next.mutable_replicas()->RemoveLast();
    }
    best = rank;
  }
  if (!best.has_value()) return std::nullopt;
  primaries[config.primary().shard()] -= 1;
  primaries[next.primary().shard()] += 1;
  return next;
}

}  // namespace paceline::coordinator
