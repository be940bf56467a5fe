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

void FanOuts::Start(v1::Change change) {
  const Subject subject = Subject::Of(change);
  FanOut& fan_out = fan_outs_[subject];
  fan_out = FanOut();
  fan_out.change = std::move(change);
  fan_out.start = ++last_start_;
  fan_out.since = context_.now;
  for (uint32_t s = 0; s < context_.facts.SegmentCount(); ++s) fan_out.missing.insert(s);
  if (taken_up_) PumpOne(subject);
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
  if (fan_out.missing.empty()) {
    if (fan_out.next_told > context_.now) return;
    fan_out.next_told = context_.now + kTellAgain;
    listener_.OnNamedEverywhere(subject);
    return;
  }
  if (fan_out.map_version != context_.facts.map_version()) Group(fan_out);
  for (auto& [shard, target] : fan_out.targets) {
    if (target.missing.empty() || target.under_way || target.next_try > context_.now) continue;
    if (calls_[shard] < context_.options.limits.calls_per_shard) Send(fan_out, shard, target);
  }
}

void FanOuts::Group(FanOut& fan_out) const {
  fan_out.map_version = context_.facts.map_version();
  fan_out.lost.clear();
  for (auto& [shard, target] : fan_out.targets) target.missing.clear();
  for (const uint32_t segment : fan_out.missing) {
    if (membership_.IsLost(segment)) {
      fan_out.lost.insert(segment);
      continue;
    }
    const uint32_t shard = context_.facts.map()->segments(static_cast<int>(segment)).primary().shard();
    fan_out.targets[shard].missing.insert(segment);
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
  uint64_t floor = context_.facts.counters().change();
  for (const auto& [subject, fan_out] : fan_outs_) {
    const uint64_t number = fan_out.change.number();  // 0: it was committed by an older release
    if (number != 0) floor = std::min(floor, number - 1);
  }
  return floor;
}

void FanOuts::OnAnswer(const v1::Change& change, uint64_t start, uint32_t shard,
                       const absl::StatusOr<v1::ChangeReply>& reply) {
  const bool was_full = calls_[shard] >= context_.options.limits.calls_per_shard;
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
  PumpOne(subject);
  if (was_full) Pump();
  membership_.Pump();
}

void FanOuts::Take(FanOut& fan_out, uint32_t shard, const absl::StatusOr<v1::ChangeReply>& reply,
                   uint64_t map_version) {
  Target& target = fan_out.targets[shard];
  target.under_way = false;
  if (reply.ok()) {
    for (const uint32_t segment : reply->committed()) {
      if (fan_out.missing.erase(segment) == 0) continue;
      fan_out.lost.erase(segment);
      for (auto& [other, of_other] : fan_out.targets) of_other.missing.erase(segment);
    }
    if (target.missing.empty()) return;
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
    if (fan_out.missing.empty()) next = std::min(next, fan_out.next_told);
    for (const auto& [shard, target] : fan_out.targets) {
      const auto calls = calls_.find(shard);
      const bool full = calls != calls_.end() && calls->second >= context_.options.limits.calls_per_shard;
      if (!target.missing.empty() && !target.under_way && !full) next = std::min(next, target.next_try);
    }
  }
  return next;
}

std::string FanOuts::Waits(Subject subject) const {
  const auto it = fan_outs_.find(subject);
  if (it == fan_outs_.end()) return "";
  std::vector<std::string> waits;
  for (const auto& [shard, target] : it->second.targets) {
    if (target.missing.empty()) continue;
    std::string why = target.why.empty() ? "no answer yet" : target.why;
    if (!membership_.Alive(shard)) {
      why = absl::StrCat("silent for ", Seconds(membership_.Silence(shard)), "; ", why);
    }
    waits.push_back(
        absl::StrCat(context_.facts.ShardName(shard), " for segments ", Ranges(target.missing), ": ", why));
  }
  if (!it->second.lost.empty())
    waits.push_back(absl::StrCat("segments ", Ranges(it->second.lost), ", which are lost"));
  if (waits.empty() && it->second.missing.empty()) return "the coordinator's own store";
  return absl::StrJoin(waits, "; ");
}

bool FanOuts::Hopeless(Subject subject) const {
  const auto it = fan_outs_.find(subject);
  return it != fan_outs_.end() && !it->second.lost.empty() && it->second.lost == it->second.missing;
}

absl::Time FanOuts::Since(Subject subject) const {
  const auto it = fan_outs_.find(subject);
  return it == fan_outs_.end() ? context_.now : it->second.since;
}

}  // namespace paceline::coordinator
