#include "services/coordinator/metadata/placement/recoveries.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/coordinator/metadata/changes/call_shard.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kAskFencedEvery = absl::Milliseconds(200);
// A call is answered within 2 s; one without an answer after this was lost.
constexpr absl::Duration kLost = absl::Milliseconds(2500);
// A job's text about data given up grows no more once it is longer than this: the earliest losses stay.
constexpr size_t kLossText = 1000;

// True if the operator who accepted the loss knew of every shard that is awaited now.
bool GivesUp(const v1::RecoverSegmentsRequest::Segment& loss,
             const v1::RecoverSegmentsReply::Segment& waiting) {
  return loss.given_up().empty() ||
         std::ranges::all_of(waiting.awaited_incarnations(), [&](uint64_t incarnation) {
           return std::ranges::count(loss.given_up(), incarnation) > 0;
         });
}

}  // namespace

const v1::SegmentConfig& Recoveries::ConfigOf(uint32_t segment) const {
  return context_.facts.map()->segments(static_cast<int>(segment));
}

Recoveries::Progress Recoveries::Attempt::Best() const {
  Progress best;
  for (const auto& [shard, progress] : found) best = std::max(best, progress);
  return best;
}

std::optional<uint64_t> Recoveries::Attempt::Asked(uint32_t shard) const {
  if (const auto it = members.find(shard); it != members.end()) return it->second;
  if (!others.has_value()) return std::nullopt;
  const auto it = others->find(shard);
  return it == others->end() ? std::nullopt : std::optional(it->second);
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
    const v1::ShardInfo& newest = context_.facts.FindShard(member.shard())->info();
    if (CanBeAsked(member)) {
      waiting.add_restarted(newest.name());
    } else {
      waiting.add_awaited(newest.name());
      waiting.add_awaited_incarnations(newest.incarnation());
    }
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

// Only shards awaited now are given up; one that falls silent later is not.
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
    if (waiting.has_value() && waiting->epoch() == loss.epoch() && GivesUp(loss, *waiting)) {
      Accept(loss.segment());
    }
  }
  Pump();
  for (uint32_t s = 0; s < context_.facts.SegmentCount(); ++s) {
    if (auto waiting = Waiting(s)) *reply.add_waiting() = *std::move(waiting);
  }
  return reply;
}

void Recoveries::Renew() {
  // The awaited shards may have come back meanwhile: then nothing need be lost.
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
    if (attempt.found.size() == attempt.members.size() && !attempt.others.has_value()) continue;
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
    const auto ask = [&, segment = segment](uint32_t shard, uint64_t incarnation, bool left_over) {
      if (attempt.found.contains(shard) || attempt.under_way.contains(shard)) return;
      if (context_.facts.FindShard(shard) == nullptr) return;  // the shard was removed
      attempt.under_way.insert(shard);
      attempt.next_ask = context_.now + kAskFencedEvery;
      attempt.lost_at = context_.now + kLost;
      v1::FenceRequest& request = calls[shard];
      request.set_cluster(context_.facts.cluster());
      request.mutable_target()->set_shard(shard);
      request.mutable_target()->set_incarnation(incarnation);
      v1::FenceRequest::Segment& one = *request.add_segments();
      one.set_segment(segment);
      one.set_epoch(attempt.epoch + 1);
      one.set_restored(true);
      one.set_left_over(left_over);
      asked[shard].push_back(segment);
    };
    for (const auto& [shard, incarnation] : attempt.members) ask(shard, incarnation, false);
    if (!attempt.others.has_value()) continue;
    for (const auto& [shard, incarnation] : *attempt.others) ask(shard, incarnation, true);
  }
  for (auto& [shard, request] : calls) {
    const v1::ShardInfo& info = context_.facts.FindShard(shard)->info();
    CallShard(
        context_, info, &ShardCaller::Fence, std::move(request),
        [this, shard = shard, incarnation = info.incarnation(), segments = std::move(asked[shard])](
            const absl::StatusOr<v1::FenceReply>& reply) { OnAnswer(shard, incarnation, segments, reply); });
  }
}

void Recoveries::OnAnswer(uint32_t shard, uint64_t incarnation, const std::vector<uint32_t>& asked,
                          const absl::StatusOr<v1::FenceReply>& reply) {
  const ShardRecord* known = context_.facts.FindShard(shard);
  if (known == nullptr) return;  // the shard was removed
  const v1::ShardInfo& info = known->info();
  if (!reply.ok()) context_.probe.CallRepeated(info, absl::StrCat("Fence: ", reply.status().ToString()));
  for (const uint32_t segment : asked) {
    const auto it = attempts_.find(segment);
    if (it == attempts_.end()) continue;
    if (it->second.Asked(shard) != incarnation) continue;
    it->second.under_way.erase(shard);
    if (!reply.ok()) continue;
    for (const v1::FenceReply::Segment& answer : reply->segments()) {
      if (answer.segment() != segment) continue;
      // A shard that was no member, and makes no promise, has nothing to offer.
      const bool other = !it->second.members.contains(shard);
      if (answer.fenced() || other) it->second.found[shard] = ProgressOf(answer);
    }
  }
  Pump();
}

// Data that was given up for lost does not come back with a disk that heard of it too late.
Recoveries::Progress Recoveries::ProgressOf(const v1::FenceReply::Segment& answer) const {
  const bool over = answer.lsn_epoch() < ConfigOf(answer.segment()).emptied_in();
  return over ? Progress() : Progress{answer.lsn_epoch(), answer.lsn()};
}

std::optional<v1::Member> Recoveries::LeastBusy(const v1::Map& map, const std::set<uint32_t>& among) const {
  std::map<uint32_t, int> primaries;
  for (const v1::SegmentConfig& config : map.segments()) ++primaries[config.primary().shard()];
  std::optional<v1::Member> best;
  for (const v1::ShardInfo& info : map.shards()) {
    const bool may = among.empty() || among.contains(info.shard());
    if (!may || !membership_.Alive(info.shard()) || membership_.MayGo(info.shard())) continue;
    if (best.has_value() && primaries[best->shard()] <= primaries[info.shard()]) continue;
    best.emplace();
    best->set_shard(info.shard());
    best->set_incarnation(info.incarnation());
  }
  return best;
}

bool Recoveries::AskOthers(Attempt& attempt) const {
  if (!attempt.others.has_value()) {
    attempt.others.emplace();
    for (const v1::ShardInfo& info : context_.facts.map()->shards()) {
      if (attempt.members.contains(info.shard()) || !membership_.Alive(info.shard())) continue;
      attempt.others->emplace(info.shard(), info.incarnation());
    }
    attempt.next_ask = absl::InfinitePast();
  }
  return std::ranges::all_of(*attempt.others, [&](const auto& other) {
    v1::Member member;
    member.set_shard(other.first);
    member.set_incarnation(other.second);
    return attempt.found.contains(other.first) || !membership_.Alive(member);
  });
}

void Recoveries::Decide(uint32_t segment, Attempt& attempt, Decisions& decisions) {
  if (std::ranges::any_of(attempt.members, [&](const auto& m) { return !attempt.found.contains(m.first); })) {
    return;
  }
  const bool nothing = attempt.Best() == Progress() || attempt.others.has_value();
  if (nothing && !Accepted(segment)) {
    decisions.map.mutable_segments(static_cast<int>(segment))->set_lost(true);
    ++decisions.nowhere;
    return;
  }
  if (nothing && !AskOthers(attempt)) return;
  const Progress best = attempt.Best();
  std::set<uint32_t> who;
  for (const auto& [shard, progress] : attempt.found) {
    if (progress == best) who.insert(shard);
  }
  const std::optional<v1::Member> primary = LeastBusy(decisions.map, who);
  if (!primary.has_value()) {
    // They are silent, or about to give up what they have: then their answers do not count any more.
    std::erase_if(attempt.found, [&](const auto& one) { return membership_.MayGo(one.first); });
    attempt.next_ask = context_.now + kAskFencedEvery;
    return;
  }
  v1::SegmentConfig& config = *decisions.map.mutable_segments(static_cast<int>(segment));
  const auto members = static_cast<size_t>(1 + config.replicas_size());
  config.set_epoch(attempt.epoch + 1);
  config.clear_replicas();
  *config.mutable_primary() = *primary;
  if (best == Progress()) {
    config.set_emptied_in(config.epoch());
    config.set_change_floor(membership_.ChangeFloor());
    decisions.emptied.insert(segment);
  } else if (nothing) {
    decisions.fell_back.insert(segment);
  } else if (attempt.members.size() < members) {
    decisions.lack.insert(segment);
  }
  ++decisions.ready;
}

void Recoveries::MarkJobs(const Decisions& decisions, Changes& changes) const {
  std::vector<std::string> losses;
  const auto add = [&](const std::set<uint32_t>& segments, absl::string_view what) {
    if (!segments.empty()) losses.push_back(absl::StrCat("segments ", Ranges(segments), " ", what));
  };
  add(decisions.emptied, "began empty");
  add(decisions.fell_back, "went on from the remains of an earlier configuration");
  add(decisions.lack, "went on without shards that were given up");
  if (losses.empty()) return;
  const std::string loss =
      absl::StrCat("since map version ", context_.facts.map_version() + 1,
                   " acknowledged updates may be missing: ", absl::StrJoin(losses, ", "));
  for (const auto& [id, job] : context_.facts.jobs()) {
    if (job.deleting() || job.data_lost().size() > kLossText) continue;
    JobRecord& marked = changes.jobs.emplace_back(job);
    marked.set_data_lost(job.data_lost().empty() ? loss : absl::StrCat(job.data_lost(), "; ", loss));
  }
}

void Recoveries::CommitReady() {
  if (!membership_.CheckMayMakeMaps().ok()) return;
  Decisions decisions;
  decisions.map = *context_.facts.map();
  for (auto& [segment, attempt] : attempts_) Decide(segment, attempt, decisions);
  std::set<uint32_t> gone = decisions.emptied;
  gone.insert(decisions.fell_back.begin(), decisions.fell_back.end());
  if (!gone.empty()) {
    if (!before_loss_().ok()) return;  // again with the next beat, as below
    const absl::Status evicted = sessions_.EvictAll(absl::StrCat(
        "acknowledged data of segments ", Ranges(gone),
        " is gone, which was accepted (paceline recover); start the job again, from its last saved model"));
    if (!evicted.ok()) return;  // again with the next beat, as below
  }
  // If the commit fails it is tried again with the next beat.
  if (decisions.ready + decisions.nowhere == 0) return Ask();  // perhaps other shards
  Changes changes;
  MarkJobs(decisions, changes);
  if (!membership_.CommitMap(std::move(decisions.map), std::move(changes)).ok()) return;
  if (decisions.nowhere > 0) membership_.ReportLost();
  recovered_ += decisions.ready;
  on_map_(!gone.empty());
}

}  // namespace paceline::coordinator
