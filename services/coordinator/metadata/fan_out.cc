#include "services/coordinator/metadata/fan_out.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/retry.h"
#include "services/coordinator/metadata/text.h"

namespace paceline::coordinator {
namespace {

// The shard did not answer.
constexpr BackoffPolicy kFailed{
    .initial = absl::Milliseconds(50), .max = absl::Seconds(1), .factor = 2.0, .jitter = 0.0};
// It answered, but not for all: usually parts or a map are on their way.
constexpr BackoffPolicy kIncomplete{
    .initial = absl::Milliseconds(10), .max = absl::Milliseconds(250), .factor = 2.0, .jitter = 0.0};
// What follows could not be committed.
constexpr absl::Duration kTellAgain = absl::Milliseconds(200);

}  // namespace

void FanOuts::Start(v1::SessionChange change) {
  const uint64_t session = change.session();
  FanOut& fan_out = fan_outs_[session];
  fan_out = FanOut();
  fan_out.change = std::move(change);
  fan_out.number = ++last_number_;
  fan_out.since = context_.now;
  for (uint32_t s = 0; s < context_.facts.SegmentCount(); ++s) fan_out.missing.insert(s);
  PumpOne(session);
}

void FanOuts::Pump() {
  // What follows a fan-out's end may start and stop others.
  std::vector<uint64_t> sessions;
  for (const auto& [session, fan_out] : fan_outs_) sessions.push_back(session);
  for (const uint64_t session : sessions) PumpOne(session);
}

void FanOuts::PumpOne(uint64_t session) {
  const auto it = fan_outs_.find(session);
  if (it == fan_outs_.end() || context_.facts.map() == nullptr) return;
  FanOut& fan_out = it->second;
  if (fan_out.missing.empty()) {
    if (fan_out.next_told > context_.now) return;
    fan_out.next_told = context_.now + kTellAgain;
    listener_.OnNamedEverywhere(session);
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
  v1::SessionChange change = fan_out.change;
  change.set_map_version(context_.facts.map_version());
  ShardCaller::ChangeDone done = AsVisit<absl::StatusOr<v1::SessionChangeReply>>(
      context_, [this, change, number = fan_out.number, shard](absl::StatusOr<v1::SessionChangeReply> reply) {
        OnAnswer(change, number, shard, reply);
      });
  const std::string address = context_.facts.FindShard(shard)->info().address();
  context_.outbox.Add(
      [&caller = context_.caller, shard, address, change = std::move(change), done = std::move(done)] {
        caller.ChangeSession(ShardId(shard), address, change, done);
      });
}

void FanOuts::OnAnswer(const v1::SessionChange& change, uint64_t number, uint32_t shard,
                       const absl::StatusOr<v1::SessionChangeReply>& reply) {
  const bool was_full = calls_[shard] >= context_.options.limits.calls_per_shard;
  calls_[shard] -= 1;
  if (reply.ok()) membership_.HasVersions(shard, reply->map_version(), std::nullopt);
  const auto it = fan_outs_.find(change.session());
  if (it != fan_outs_.end() && it->second.number == number) Take(it->second, shard, reply);
  if (reply.ok()) {
    // The largest last, so that what follows from it starts from the latest clock.
    std::vector<std::pair<uint64_t, uint32_t>> refused;
    for (const auto& behind : reply->join_refused())
      refused.emplace_back(behind.min_clock(), behind.segment());
    if (!refused.empty()) {
      const auto& [min_clock, segment] = *std::ranges::max_element(refused);
      listener_.OnJoinRefused(change.session(), change.job(), segment, min_clock);
    }
  }
  PumpOne(change.session());
  if (was_full) Pump();
  membership_.Pump();
}

void FanOuts::Take(FanOut& fan_out, uint32_t shard, const absl::StatusOr<v1::SessionChangeReply>& reply) {
  Target& target = fan_out.targets[shard];
  target.under_way = false;
  if (reply.ok()) {
    for (const uint32_t segment : reply->committed()) {
      if (fan_out.missing.erase(segment) == 0) continue;
      fan_out.lost.erase(segment);
      for (auto& [other, of_other] : fan_out.targets) of_other.missing.erase(segment);
    }
    if (target.missing.empty()) return;
    target.why = absl::StrJoin(reply->waits(), "; ");
    if (target.why.empty()) target.why = "it answered without them";
  } else {
    target.why = reply.status().ToString();
  }
  const BackoffPolicy& policy = reply.ok() ? kIncomplete : kFailed;
  target.next_try = context_.now + policy.Delay(target.failures++, 0);
  context_.probe.CallRepeated(context_.facts.FindShard(shard)->info(),
                              absl::StrCat(v1::SessionChange::Action_Name(fan_out.change.action()),
                                           " of session ", fan_out.change.session(), ": ", target.why));
}

absl::Time FanOuts::NextTry() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [session, fan_out] : fan_outs_) {
    if (fan_out.missing.empty()) next = std::min(next, fan_out.next_told);
    for (const auto& [shard, target] : fan_out.targets) {
      const auto calls = calls_.find(shard);
      const bool full = calls != calls_.end() && calls->second >= context_.options.limits.calls_per_shard;
      if (!target.missing.empty() && !target.under_way && !full) next = std::min(next, target.next_try);
    }
  }
  return next;
}

std::string FanOuts::Waits(uint64_t session) const {
  const auto it = fan_outs_.find(session);
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

bool FanOuts::Hopeless(uint64_t session) const {
  const auto it = fan_outs_.find(session);
  return it != fan_outs_.end() && !it->second.lost.empty() && it->second.lost == it->second.missing;
}

absl::Time FanOuts::Since(uint64_t session) const {
  const auto it = fan_outs_.find(session);
  return it == fan_outs_.end() ? context_.now : it->second.since;
}

}  // namespace paceline::coordinator
