#include "services/coordinator/metadata/changes/fan_out.h"

#include <algorithm>
#include <utility>
#include <vector>

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

Subject SubjectOf(const v1::SessionChange& change) {
  return Subject::Session(change.session());
}
Subject SubjectOf(const v1::JobChange& change) {
  if (change.action() == v1::JobChange::TAKE_CUT) return Subject::Cut(change.job());
  if (change.action() == v1::JobChange::LOAD_JOB) return Subject::Load(change.job());
  return change.has_table() ? Subject::Table(change.table().id()) : Subject::Job(change.job());
}

// "OPEN of session 3", for logs.
std::string Text(const v1::SessionChange& change) {
  return absl::StrCat(v1::SessionChange::Action_Name(change.action()), " of session ", change.session());
}
std::string Text(const v1::JobChange& change) {
  return absl::StrCat(v1::JobChange::Action_Name(change.action()), " of ",
                      change.has_table() ? absl::StrCat("table '", change.table().name(), "'")
                                         : absl::StrCat("job ", change.job()));
}

// The clocks that an answer says are passed, by segment.
std::vector<std::pair<uint64_t, uint32_t>> Passed(const v1::SessionChangeReply& reply) {
  std::vector<std::pair<uint64_t, uint32_t>> passed;
  for (const auto& behind : reply.join_refused()) passed.emplace_back(behind.min_clock(), behind.segment());
  return passed;
}
std::vector<std::pair<uint64_t, uint32_t>> Passed(const v1::JobChangeReply& reply) {
  std::vector<std::pair<uint64_t, uint32_t>> passed;
  for (const auto& one : reply.passed()) passed.emplace_back(one.clock(), one.segment());
  return passed;
}

}  // namespace

void FanOuts::Start(Change change) {
  const Subject subject = std::visit([](const auto& one) { return SubjectOf(one); }, change);
  FanOut& fan_out = fan_outs_[subject];
  fan_out = FanOut();
  fan_out.change = std::move(change);
  fan_out.number = ++last_number_;
  fan_out.since = context_.now;
  for (uint32_t s = 0; s < context_.facts.SegmentCount(); ++s) fan_out.missing.insert(s);
  PumpOne(subject);
}

void FanOuts::Pump() {
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
  if (const auto* session = std::get_if<v1::SessionChange>(&fan_out.change)) {
    Send<v1::SessionChange, v1::SessionChangeReply>(*session, fan_out.number, shard,
                                                    &ShardCaller::ChangeSession);
  } else {
    Send<v1::JobChange, v1::JobChangeReply>(std::get<v1::JobChange>(fan_out.change), fan_out.number, shard,
                                            &ShardCaller::ChangeJob);
  }
}

template <class Reply>
absl::StatusOr<FanOuts::Answer> FanOuts::AnswerOf(const absl::StatusOr<Reply>& reply,
                                                  uint64_t map_version) const {
  if (!reply.ok()) return reply.status();
  return Answer{.committed = {reply->committed().begin(), reply->committed().end()},
                .passed = Passed(*reply),
                .waits = absl::StrJoin(reply->waits(), "; "),
                .overtaken = reply->map_version() > map_version &&
                             reply->map_version() <= context_.facts.map_version()};
}

template <class Request, class Reply, class Call>
void FanOuts::Send(Request change, uint64_t number, uint32_t shard, Call call) {
  const v1::ShardInfo& info = context_.facts.FindShard(shard)->info();
  change.set_map_version(context_.facts.map_version());
  change.set_cluster(context_.facts.cluster());
  change.mutable_target()->set_shard(info.shard());
  change.mutable_target()->set_incarnation(info.incarnation());
  CallShard(context_, info, call, change, [this, change, number, shard](const absl::StatusOr<Reply>& reply) {
    OnAnswer(change, number, shard, reply);
  });
}

template <class Request, class Reply>
void FanOuts::OnAnswer(const Request& change, uint64_t number, uint32_t shard,
                       const absl::StatusOr<Reply>& reply) {
  const bool was_full = calls_[shard] >= context_.options.limits.calls_per_shard;
  calls_[shard] -= 1;
  if (reply.ok()) membership_.HasAnswered(shard, reply->map_version(), std::nullopt);
  const absl::StatusOr<Answer> answer = AnswerOf(reply, change.map_version());
  const Subject subject = SubjectOf(change);
  const auto it = fan_outs_.find(subject);
  if (it != fan_outs_.end() && it->second.number == number) Take(it->second, shard, answer);
  if (reply.ok()) TellReply(change, *reply);
  if (answer.ok() && !answer->passed.empty()) {
    // Reports the largest clock, so that the next proposal starts from it.
    const auto& [clock, segment] = *std::ranges::max_element(answer->passed);
    TellPassed(change, segment, clock);
  }
  PumpOne(subject);
  if (was_full) Pump();
  membership_.Pump();
}

void FanOuts::TellPassed(const v1::SessionChange& change, uint32_t segment, uint64_t clock) {
  listener_.OnJoinRefused(change.session(), change.job(), segment, clock);
}
void FanOuts::TellPassed(const v1::JobChange& change, uint32_t segment, uint64_t clock) {
  listener_.OnClockPassed(change, segment, clock);
}

void FanOuts::TellReply(const v1::JobChange& change, const v1::JobChangeReply& reply) {
  if (change.action() == v1::JobChange::TAKE_CUT || change.action() == v1::JobChange::LOAD_JOB) {
    listener_.OnJobReply(change, reply);
  }
}

void FanOuts::Take(FanOut& fan_out, uint32_t shard, const absl::StatusOr<Answer>& answer) {
  Target& target = fan_out.targets[shard];
  target.under_way = false;
  if (answer.ok()) {
    for (const uint32_t segment : answer->committed) {
      if (fan_out.missing.erase(segment) == 0) continue;
      fan_out.lost.erase(segment);
      for (auto& [other, of_other] : fan_out.targets) of_other.missing.erase(segment);
    }
    if (target.missing.empty()) return;
    target.why = answer->waits.empty() ? "it answered without them" : answer->waits;
    if (answer->overtaken) return;  // again at once, by the newest map: at most once per map
  } else {
    target.why = answer.status().ToString();
  }
  const BackoffPolicy& policy = answer.ok() ? kIncomplete : kFailed;
  target.next_try = context_.now + policy.Delay(target.failures++, 0);
  const std::string what = std::visit([](const auto& change) { return Text(change); }, fan_out.change);
  const ShardRecord* known = context_.facts.FindShard(shard);
  if (known != nullptr) context_.probe.CallRepeated(known->info(), absl::StrCat(what, ": ", target.why));
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
