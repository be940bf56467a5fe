#include "services/coordinator/metadata/recoveries.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "services/coordinator/metadata/text.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kAskAgain = absl::Milliseconds(200);
// Calls are answered within 2 s; one that is not by now was lost.
constexpr absl::Duration kLost = absl::Milliseconds(2500);

}  // namespace

const v1::SegmentConfig& Recoveries::ConfigOf(uint32_t segment) const {
  return context_.facts.map()->segments(static_cast<int>(segment));
}

Recoveries::Progress Recoveries::Attempt::Best() const {
  Progress best;
  for (const auto& [shard, progress] : found) best = std::max(best, progress);
  return best;
}

std::map<uint32_t, uint64_t> Recoveries::MembersNow(uint32_t segment) const {
  std::map<uint32_t, uint64_t> members;
  const auto add = [&](const v1::Member& member) {
    const bool given_up = Accepted(segment) && accepted_.at(segment).given_up.contains(member.shard());
    if (given_up && !CanBeAsked(member)) return;
    members[member.shard()] = context_.facts.FindShard(member.shard())->info().incarnation();
  };
  add(ConfigOf(segment).primary());
  for (const v1::Member& replica : ConfigOf(segment).replicas()) add(replica);
  return members;
}

// -- losses --

std::optional<v1::RecoverSegmentsReply::Segment> Recoveries::Waiting(uint32_t segment) const {
  const v1::SegmentConfig& config = ConfigOf(segment);
  v1::RecoverSegmentsReply::Segment waiting;
  bool serves = false;
  const auto look = [&](const v1::Member& member) {
    serves |= membership_.Alive(member);
    const std::string& name = context_.facts.FindShard(member.shard())->info().name();
    *(CanBeAsked(member) ? waiting.add_restarted() : waiting.add_awaited()) = name;
  };
  look(config.primary());
  for (const v1::Member& replica : config.replicas()) look(replica);
  if (serves) return std::nullopt;  // or a replica takes over
  waiting.set_nothing_found(membership_.IsLost(segment));
  if (waiting.awaited().empty() && !waiting.nothing_found()) return std::nullopt;
  waiting.set_segment(segment);
  waiting.set_epoch(config.epoch());
  waiting.set_accepted(Accepted(segment));
  return waiting;
}

bool Recoveries::Accepted(uint32_t segment) const {
  const auto it = accepted_.find(segment);
  return it != accepted_.end() && it->second.epoch == ConfigOf(segment).epoch();
}

bool Recoveries::CanBeAsked(const v1::Member& member) const {
  return !membership_.Current(member) && membership_.Alive(member.shard());
}

// Who is silent later is not among those that somebody has given up.
void Recoveries::Accept(uint32_t segment) {
  const v1::SegmentConfig& config = ConfigOf(segment);
  Loss& loss = accepted_[segment];
  if (loss.epoch != config.epoch()) loss = {.epoch = config.epoch(), .given_up = {}};
  const auto give_up = [&](const v1::Member& member) {
    if (!CanBeAsked(member)) loss.given_up.insert(member.shard());
  };
  give_up(config.primary());
  for (const v1::Member& replica : config.replicas()) give_up(replica);
}

v1::RecoverSegmentsReply Recoveries::Recover(const v1::RecoverSegmentsRequest& request) {
  v1::RecoverSegmentsReply reply;
  if (context_.facts.map() == nullptr) return reply;
  for (const auto& loss : request.accept_loss()) {
    if (loss.segment() >= context_.facts.SegmentCount()) continue;
    const auto waiting = Waiting(loss.segment());
    if (waiting.has_value() && waiting->epoch() == loss.epoch()) Accept(loss.segment());
  }
  Pump();
  for (uint32_t s = 0; s < context_.facts.SegmentCount(); ++s) {
    if (auto waiting = Waiting(s)) *reply.add_waiting() = *std::move(waiting);
  }
  return reply;
}

void Recoveries::Renew() {
  // Whoever was awaited may be back meanwhile: then nothing need be lost.
  std::erase_if(accepted_, [this](const auto& loss) {
    const auto waiting = Waiting(loss.first);
    return !waiting.has_value() || waiting->epoch() != loss.second.epoch;
  });
  std::set<uint32_t> due = membership_.to_recover();
  for (const auto& [segment, loss] : accepted_) due.insert(segment);
  std::erase_if(attempts_, [&due](const auto& entry) { return !due.contains(entry.first); });
  for (const uint32_t segment : due) {
    Attempt& attempt = attempts_[segment];
    const uint64_t epoch = ConfigOf(segment).epoch();
    std::map<uint32_t, uint64_t> members = MembersNow(segment);
    if (attempt.epoch == epoch && attempt.members == members) continue;
    attempt = Attempt();
    attempt.epoch = epoch;
    attempt.members = std::move(members);
  }
}

void Recoveries::Pump() {
  if (context_.facts.map() == nullptr) return;
  Renew();
  Ask();
  CommitReady();
}

absl::Time Recoveries::NextTry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [segment, attempt] : attempts_) {
    if (attempt.found.size() == attempt.members.size()) continue;
    next = std::min(next, attempt.under_way.empty() ? attempt.next_ask : attempt.lost_at);
  }
  return next;
}

void Recoveries::Ask() {
  std::map<uint32_t, v1::FenceRequest> calls;
  std::map<uint32_t, std::vector<uint32_t>> asked;
  for (auto& [segment, attempt] : attempts_) {
    if (attempt.lost_at <= context_.now) attempt.under_way.clear();
    if (attempt.next_ask > context_.now) continue;
    for (const auto& [shard, incarnation] : attempt.members) {
      if (attempt.found.contains(shard) || attempt.under_way.contains(shard)) continue;
      attempt.under_way.insert(shard);
      attempt.next_ask = context_.now + kAskAgain;
      attempt.lost_at = context_.now + kLost;
      v1::FenceRequest& request = calls[shard];
      request.set_cluster(context_.facts.cluster());
      request.mutable_target()->set_shard(shard);
      request.mutable_target()->set_incarnation(incarnation);
      v1::FenceRequest::Segment& one = *request.add_segments();
      one.set_segment(segment);
      one.set_epoch(attempt.epoch + 1);
      one.set_restored(true);
      asked[shard].push_back(segment);
    }
  }
  for (auto& [shard, request] : calls) {
    const v1::ShardInfo& info = context_.facts.FindShard(shard)->info();
    ShardCaller::FenceDone done = AsVisit<absl::StatusOr<v1::FenceReply>>(
        context_,
        [this, shard = shard, incarnation = info.incarnation(), segments = std::move(asked[shard])](
            absl::StatusOr<v1::FenceReply> reply) { OnAnswer(shard, incarnation, segments, reply); });
    context_.outbox.Add([&caller = context_.caller, shard = shard, address = info.address(),
                         request = std::move(request),
                         done = std::move(done)] { caller.Fence(ShardId(shard), address, request, done); });
  }
}

void Recoveries::OnAnswer(uint32_t shard, uint64_t incarnation, const std::vector<uint32_t>& asked,
                          const absl::StatusOr<v1::FenceReply>& reply) {
  const v1::ShardInfo& info = context_.facts.FindShard(shard)->info();
  if (!reply.ok()) context_.probe.CallRepeated(info, absl::StrCat("Fence: ", reply.status().ToString()));
  for (const uint32_t segment : asked) {
    const auto it = attempts_.find(segment);
    if (it == attempts_.end()) continue;
    const auto member = it->second.members.find(shard);
    if (member == it->second.members.end() || member->second != incarnation) continue;
    it->second.under_way.erase(shard);
    if (!reply.ok()) continue;
    for (const v1::FenceReply::Segment& answer : reply->segments()) {
      if (answer.segment() == segment && answer.fenced()) {
        it->second.found[shard] = {answer.lsn_epoch(), answer.lsn()};
      }
    }
  }
  Pump();
}

std::optional<v1::Member> Recoveries::LeastBusy(const v1::Map& map, const std::set<uint32_t>& among) const {
  std::map<uint32_t, int> primaries;
  for (const v1::SegmentConfig& config : map.segments()) ++primaries[config.primary().shard()];
  std::optional<v1::Member> best;
  for (const v1::ShardInfo& info : map.shards()) {
    const bool may = among.empty() || among.contains(info.shard());
    if (!may || !membership_.Alive(info.shard())) continue;
    if (best.has_value() && primaries[best->shard()] <= primaries[info.shard()]) continue;
    best.emplace();
    best->set_shard(info.shard());
    best->set_incarnation(info.incarnation());
  }
  return best;
}

void Recoveries::CommitReady() {
  v1::Map map = *context_.facts.map();
  std::set<uint32_t> nowhere, emptied;
  uint64_t ready = 0;
  for (const auto& [segment, attempt] : attempts_) {
    if (attempt.found.size() < attempt.members.size()) continue;
    const Progress best = attempt.Best();
    std::set<uint32_t> who;
    for (const auto& [shard, progress] : attempt.found) {
      if (progress == best) who.insert(shard);
    }
    if (best == Progress() && !Accepted(segment)) {
      nowhere.insert(segment);
      continue;
    }
    const std::optional<v1::Member> primary = LeastBusy(map, who);
    if (!primary.has_value()) continue;
    v1::SegmentConfig& config = *map.mutable_segments(static_cast<int>(segment));
    config.set_epoch(attempt.epoch + 1);
    config.clear_replicas();
    *config.mutable_primary() = *primary;
    if (best == Progress()) {
      config.set_emptied_in(config.epoch());
      emptied.insert(segment);
    }
    ++ready;
  }
  if (!nowhere.empty()) {
    membership_.OnNothingFound(nowhere);
    for (const uint32_t segment : nowhere) attempts_.erase(segment);
  }
  if (!emptied.empty()) {
    if (!before_loss_().ok()) return;  // with the next beat, as below
    const absl::Status evicted = sessions_.EvictAll(absl::StrCat(
        "acknowledged data of segments ", Ranges(emptied),
        " is gone, which was accepted (paceline recover); start the job again, from its last saved model"));
    if (!evicted.ok()) return;  // with the next beat, as below
  }
  // If the commit fails it is tried again with the next beat.
  if (ready == 0 || !membership_.CommitMap(std::move(map)).ok()) return;
  recovered_ += ready;
  on_map_(!emptied.empty());
}

}  // namespace paceline::coordinator
