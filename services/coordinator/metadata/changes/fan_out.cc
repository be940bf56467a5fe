#include "services/coordinator/metadata/changes/fan_out.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/retry.h"
#include "services/coordinator/metadata/changes/call_shard.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

// After a call that was not answered.
constexpr BackoffPolicy kFailed{
    .initial = absl::Milliseconds(50), .max = absl::Seconds(1), .factor = 2.0, .jitter = 0.0};
// After an answer that did not name all segments: usually parts or a map are on their way.
constexpr BackoffPolicy kIncomplete{
    .initial = absl::Milliseconds(10), .max = absl::Milliseconds(250), .factor = 2.0, .jitter = 0.0};
// After a commit that failed at the end of a fan-out.
constexpr absl::Duration kTellAgain = absl::Milliseconds(200);

// "open of session 3", for logs.
std::string Text(const v1::Change& change) {
  const std::string kind = v1::Subject::Kind_Name(change.subject().kind());
  const auto* action = v1::Change::descriptor()->FindFieldByNumber(change.action_case());
  return absl::StrCat(action == nullptr ? "change" : action->name(), " of ", absl::AsciiStrToLower(kind), " ",
                      change.subject().id());
}

}  // namespace

std::set<uint32_t> FanOuts::FanOut::AskedOf(uint32_t shard) const {
  std::set<uint32_t> segments;
  for (uint32_t s = 0; s < asked_of.size(); ++s) {
    if (asked_of[s] == shard) segments.insert(segments.end(), s);
  }
  return segments;
}

void FanOuts::Start(v1::Change change) {
  const Subject subject = Subject::Of(change);
  Stop(subject);
  FanOut& fan_out = fan_outs_[subject];
  fan_out.change = std::move(change);
  fan_out.start = ++last_start_;
  fan_out.since = context_.now;
  fan_out.asked_of.assign(context_.facts.SegmentCount(), kLost);
  fan_out.missing = fan_out.asked_of.size();
  if (fan_out.change.number() != 0) numbers_.insert(fan_out.change.number());
  if (taken_up_) PumpOne(subject);
}

void FanOuts::Stop(Subject subject) {
  const auto it = fan_outs_.find(subject);
  if (it == fan_outs_.end()) return;
  if (const auto number = numbers_.find(it->second.change.number()); number != numbers_.end()) {
    numbers_.erase(number);
  }
  fan_outs_.erase(it);
}

void FanOuts::Pump() {
  taken_up_ = true;
  // The end of a fan-out may start and stop others.
  std::vector<Subject> subjects;
  for (const auto& [subject, fan_out] : fan_outs_) subjects.push_back(subject);
  for (const Subject& subject : subjects) PumpOne(subject);
}

void FanOuts::PumpOne(Subject subject) {
  const auto it = fan_outs_.find(subject);
  if (it == fan_outs_.end() || context_.facts.map() == nullptr) return;
  FanOut& fan_out = it->second;
  if (fan_out.missing == 0) {
    if (fan_out.next_told > context_.now) return;
    fan_out.next_told = context_.now + kTellAgain;
    listener_.OnNamedEverywhere(subject);
    return;
  }
  if (fan_out.map_version != context_.facts.map_version()) Group(fan_out);
  fan_out.next_try = absl::InfiniteFuture();
  for (auto& [shard, target] : fan_out.targets) SendIfDue(fan_out, shard, target);
}

void FanOuts::PumpShard(uint32_t shard) {
  for (auto& [subject, fan_out] : fan_outs_) {
    const auto target = fan_out.targets.find(shard);
    if (target != fan_out.targets.end()) SendIfDue(fan_out, shard, target->second);
  }
}

void FanOuts::Group(FanOut& fan_out) const {
  const v1::Map& map = *context_.facts.map();
  fan_out.map_version = map.version();
  fan_out.lost = 0;
  for (auto& [shard, target] : fan_out.targets) target.missing = 0;
  for (uint32_t segment = 0; segment < fan_out.asked_of.size(); ++segment) {
    uint32_t& shard = fan_out.asked_of[segment];
    if (shard == kNamed) continue;
    const bool lost = membership_.IsLost(segment);
    shard = lost ? kLost : map.segments(static_cast<int>(segment)).primary().shard();
    (lost ? fan_out.lost : fan_out.targets[shard].missing) += 1;
  }
}

void FanOuts::SendIfDue(FanOut& fan_out, uint32_t shard, Target& target) {
  if (target.missing == 0 || target.under_way) return;
  if (calls_[shard] >= context_.options.limits.calls_per_shard) return;  // the end of one of them sends it
  if (target.next_try > context_.now) {
    fan_out.next_try = std::min(fan_out.next_try, target.next_try);
  } else {
    Send(fan_out, shard, target);
  }
}

void FanOuts::Send(FanOut& fan_out, uint32_t shard, Target& target) {
  target.under_way = true;
  calls_[shard] += 1;
  const v1::ShardInfo& info = context_.facts.FindShard(shard)->info();
  v1::Change change = fan_out.change;
  change.set_map_version(context_.facts.map_version());
  change.set_cluster(context_.facts.cluster());
  change.set_term(context_.facts.term());
  change.mutable_target()->set_shard(info.shard());
  change.mutable_target()->set_incarnation(info.incarnation());
  // Segments log the number, which shards of level 1 cannot read. On an older store it would be given out
  // again.
  if (membership_.Level() >= 2 && membership_.CheckMayGiveIds().ok()) {
    change.set_floor(Floor());
  } else {
    change.clear_number();
  }
  CallShard(context_, info, &ShardCaller::MakeChange, change,
            [this, change, start = fan_out.start, shard](const absl::StatusOr<v1::ChangeReply>& reply) {
              OnAnswer(change, start, shard, reply);
            });
}

uint64_t FanOuts::Floor() const {
  const uint64_t newest = context_.facts.counters().change();
  return numbers_.empty() ? newest : std::min(newest, *numbers_.begin() - 1);
}

void FanOuts::OnAnswer(const v1::Change& change, uint64_t start, uint32_t shard,
                       const absl::StatusOr<v1::ChangeReply>& reply) {
  calls_[shard] -= 1;
  if (reply.ok()) membership_.HasAnswered(shard, reply->map_version(), std::nullopt);
  const Subject subject = Subject::Of(change);
  const auto current = [&]() -> FanOut* {
    const auto it = fan_outs_.find(subject);
    return it == fan_outs_.end() || it->second.start != start ? nullptr : &it->second;
  };
  if (FanOut* fan_out = current()) Take(*fan_out, shard, reply, change.map_version());
  if (reply.ok()) listener_.OnReply(change, *reply);
  if (reply.ok() && reply->passed_size() > 0) {
    // Reports the largest clock, so that the next proposal starts from it.
    const auto& largest = *std::ranges::max_element(
        reply->passed(), {}, [](const auto& passed) { return std::pair(passed.clock(), passed.segment()); });
    listener_.OnClockPassed(change, largest.segment(), largest.clock());
  }
  if (reply.ok() && reply->late_size() > 0 && current() != nullptr) listener_.OnLate(subject);
  const FanOut* fan_out = current();
  const bool stale = fan_out != nullptr && fan_out->map_version != context_.facts.map_version();
  const bool ends = fan_out != nullptr && fan_out->missing == 0;
  if (stale || ends) PumpOne(subject);
  PumpShard(shard);
  // What follows may change the tables, of which every shard is told.
  const bool more = ends || (reply.ok() && reply->passed_size() + reply->late_size() > 0);
  more || change.has_cut() || change.has_load() ? membership_.Pump() : membership_.PumpShard(shard);
}

void FanOuts::Take(FanOut& fan_out, uint32_t shard, const absl::StatusOr<v1::ChangeReply>& reply,
                   uint64_t map_version) {
  Target& target = fan_out.targets[shard];
  target.under_way = false;
  if (reply.ok()) {
    for (const uint32_t segment : reply->committed()) {
      if (segment >= fan_out.asked_of.size()) continue;
      const uint32_t asked = std::exchange(fan_out.asked_of[segment], kNamed);
      if (asked == kNamed) continue;
      fan_out.missing -= 1;
      // Before the grouping all of them count as lost.
      if (fan_out.map_version != 0) (asked == kLost ? fan_out.lost : fan_out.targets[asked].missing) -= 1;
    }
    if (target.missing == 0) return;
    const std::string waits = absl::StrJoin(reply->waits(), "; ");
    target.why = waits.empty() ? "it answered without them" : waits;
    // The map has changed during the call, and the shard may have refused the call for that; this coordinator
    // has the newer map. Asks again at once: at most once per map.
    if (reply->map_version() > map_version && reply->map_version() <= context_.facts.map_version()) return;
  } else {
    target.why = reply.status().ToString();
  }
  const BackoffPolicy& policy = reply.ok() ? kIncomplete : kFailed;
  target.next_try = context_.now + policy.Delay(target.failures++, 0);
  const ShardRecord* known = context_.facts.FindShard(shard);
  if (known == nullptr) return;
  context_.probe.CallRepeated(known->info(), absl::StrCat(Text(fan_out.change), ": ", target.why));
}

absl::Time FanOuts::NextTry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [subject, fan_out] : fan_outs_) {
    next = std::min(next, fan_out.missing == 0 ? fan_out.next_told : fan_out.next_try);
  }
  return next;
}

std::string FanOuts::Waits(Subject subject) const {
  const auto it = fan_outs_.find(subject);
  if (it == fan_outs_.end()) return "";
  const FanOut& fan_out = it->second;
  std::vector<std::string> waits;
  for (const auto& [shard, target] : fan_out.targets) {
    if (target.missing == 0) continue;
    std::string why = target.why.empty() ? "no answer yet" : target.why;
    if (!membership_.Alive(shard)) {
      why = absl::StrCat("silent for ", Seconds(membership_.Silence(shard)), "; ", why);
    }
    waits.push_back(absl::StrCat(context_.facts.ShardName(shard), " for segments ",
                                 Ranges(fan_out.AskedOf(shard)), ": ", why));
  }
  if (fan_out.lost > 0) {
    waits.push_back(absl::StrCat("segments ", Ranges(fan_out.AskedOf(kLost)), ", which are lost"));
  }
  if (waits.empty() && fan_out.missing == 0) return "the coordinator's own store";
  return absl::StrJoin(waits, "; ");
}

bool FanOuts::Hopeless(Subject subject) const {
  const auto it = fan_outs_.find(subject);
  return it != fan_outs_.end() && it->second.lost > 0 && it->second.lost == it->second.missing;
}

absl::Time FanOuts::Since(Subject subject) const {
  const auto it = fan_outs_.find(subject);
  return it == fan_outs_.end() ? context_.now : it->second.since;
}

}  // namespace paceline::coordinator
