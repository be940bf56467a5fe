#include "services/coordinator/metadata/placement/stops.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace paceline::coordinator {

std::optional<uint32_t> OrdinalOf(absl::string_view pod, absl::string_view name) {
  if (!absl::ConsumePrefix(&pod, name) || !absl::ConsumePrefix(&pod, "-")) return std::nullopt;
  uint32_t ordinal = 0;
  // As Kubernetes writes it, so that no two pods have one number.
  if (!absl::SimpleAtoi(pod, &ordinal) || absl::StrCat(ordinal) != pod) return std::nullopt;
  return ordinal;
}

absl::StatusOr<Ticket> Stops::Stop(const v1::StopShardRequest& request, absl::Time deadline,
                                   const Done<v1::StopShardReply>& done) {
  const ShardRecord* shard = context_.facts.FindShard(request.shard());
  if (shard == nullptr) {
    return absl::NotFoundError(absl::StrCat("shard: '", request.shard(),
                                            "' is not of this cluster; `paceline status` lists its shards"));
  }
  if (context_.options.wanted_shards == nullptr && shard->draining_unwanted()) {
    return waiters_.Tell(done, {LetItDrain(request.shard(), "it drains already")});
  }
  if (context_.options.wanted_shards == nullptr) {
    return waiters_.Tell(done, {HandOver("the coordinator does not know how many shards are wanted: it was "
                                         "started without --statefulset")});
  }
  auto wanted = std::make_shared<absl::StatusOr<uint32_t>>(
      absl::DeadlineExceededError("how many shards are wanted was not read in time"));
  const auto answer = [this, wanted, done, name = request.shard()](const absl::Status& status) {
    if (!status.ok()) return (void)waiters_.Tell(done, {status});
    waiters_.Tell(done, {Decide(name, *wanted)});
  };
  absl::StatusOr<Ticket> ticket = waiters_.Await({.subject = Subject::Shard(shard->info().shard()),
                                                  .deadline = deadline,
                                                  .answer = answer,
                                                  .expired = [] { return absl::OkStatus(); }});
  if (!ticket.ok()) return ticket;
  context_.options.wanted_shards->Read(AsVisit<absl::StatusOr<uint32_t>>(
      context_, [this, wanted, number = *ticket](const absl::StatusOr<uint32_t>& read) {
        *wanted = read;
        waiters_.AnswerOne(number, absl::OkStatus());
      }));
  return ticket;
}

v1::StopShardReply Stops::HandOver(const std::string& why) {
  v1::StopShardReply reply;
  reply.set_why(why);
  return reply;
}

v1::StopShardReply Stops::CannotDrain(const std::string& why) {
  problem_ = why;
  problem_since_ = context_.now;
  return HandOver(why);
}

bool Stops::DrainsAlready(const std::string& shard) const {
  const ShardRecord* known = context_.facts.FindShard(shard);
  return known != nullptr && known->draining_unwanted();
}

bool Stops::PodStops(uint32_t shard) const {
  const auto it = stopping_.find(shard);
  const ShardRecord* known = context_.facts.FindShard(shard);
  return it != stopping_.end() && known != nullptr && it->second == known->info().incarnation();
}

v1::StopShardReply Stops::LetItDrain(const std::string& shard, const std::string& why) {
  if (const ShardRecord* known = context_.facts.FindShard(shard)) {
    stopping_[known->info().shard()] = known->info().incarnation();
  }
  v1::StopShardReply reply;
  reply.set_drains(true);
  reply.set_why(why);
  return reply;
}

std::vector<std::string> Stops::Problems() const {
  std::vector<std::string> problems;
  if (!problem_.empty() && context_.now - problem_since_ < kProblemLasts) problems.push_back(problem_);
  for (const auto& [id, shard] : context_.facts.shards()) {
    if (!shard.draining_unwanted()) continue;
    const std::string why = context_.options.wanted_shards == nullptr
                                ? "the coordinator was started without --statefulset"
                                : not_read_;
    if (drains_.Lives(id) && !why.empty()) {
      problems.push_back(absl::StrCat(shard.info().name(),
                                      " drains as it was not wanted, and whether it is wanted "
                                      "again is not known (",
                                      why, "): if it is, `paceline drain --cancel ", shard.info().name(),
                                      "` ends the drain"));
    }
    if (drains_.Lives(id)) continue;
    const auto drain = drains_.StatusOf(id);
    // What it waits for is a problem of its own (Drains), and then nothing is copied.
    if (!drain.has_value() || drain->segments_left() == 0 || !drain->waits_for().empty()) continue;
    problems.push_back(absl::StrCat(shard.info().name(),
                                    " was stopped before it was empty, as any stop: ", drain->segments_left(),
                                    " segments are copied from others; it is forgotten when that is done"));
  }
  return problems;
}

std::set<std::string> Stops::Beyond(uint32_t wanted) const {
  std::set<std::string> beyond;
  for (const auto& [id, shard] : context_.facts.shards()) {
    const auto ordinal = OrdinalOf(shard.info().name(), context_.options.wanted_shards->name());
    if (ordinal.has_value() && *ordinal >= wanted) beyond.insert(shard.info().name());
  }
  return beyond;
}

v1::StopShardReply Stops::Decide(const std::string& shard, const absl::StatusOr<uint32_t>& wanted) {
  const std::string& set = context_.options.wanted_shards->name();
  if (!wanted.ok() && DrainsAlready(shard)) {
    return LetItDrain(shard,
                      absl::StrCat(shard, " drains already; whether it is still unwanted is not known: ",
                                   wanted.status().message()));
  }
  if (!wanted.ok()) {
    return CannotDrain(
        absl::StrCat("whether shards that stop are still wanted is not known, so they are not drained: ",
                     wanted.status().message()));
  }
  problem_.clear();
  not_read_.clear();
  const auto ordinal = OrdinalOf(shard, set);
  if (!ordinal.has_value()) return HandOver(absl::StrCat(shard, " is no pod of the StatefulSet ", set));
  const std::string of = absl::StrCat(*wanted, *wanted == 1 ? " shard is" : " shards are", " wanted");
  // Wanted again, and its pod ends all the same: what it gives away is less to hand over.
  if (*ordinal < *wanted && DrainsAlready(shard) &&
      PodStops(context_.facts.FindShard(shard)->info().shard())) {
    return LetItDrain(shard, absl::StrCat(of, ", ", shard, " among them: it drains until its next start"));
  }
  if (*ordinal < *wanted) {
    if (const ShardRecord* known = context_.facts.FindShard(shard)) moves_.ExpectBack(known->info().shard());
    return HandOver(absl::StrCat(of, ", ", shard, " among them: it comes back"));
  }
  v1::DrainShardsRequest drain;
  for (const std::string& name : Beyond(*wanted)) drain.add_shards(name);
  if (const auto drained = drains_.Drain(drain, /*unwanted=*/true); !drained.ok()) {
    return CannotDrain(absl::StrCat(of, ", and ", absl::StrJoin(drain.shards(), ", "),
                                    " cannot drain: ", drained.status().message()));
  }
  return LetItDrain(shard, absl::StrCat(of, ", and ", absl::StrJoin(drain.shards(), ", "), " beyond these: ",
                                        drain.shards_size() == 1 ? "it drains" : "they drain together"));
}

void Stops::OnTime() {
  if (context_.options.wanted_shards == nullptr || reading_ || context_.now < next_look_) return;
  if (!drains_.AnyUnwantedLives()) return;
  reading_ = true;
  next_look_ = context_.now + kLookAgain;
  context_.options.wanted_shards->Read(AsVisit<absl::StatusOr<uint32_t>>(
      context_, [this](const absl::StatusOr<uint32_t>& wanted) { OnWanted(wanted); }));
}

void Stops::OnWanted(const absl::StatusOr<uint32_t>& wanted) {
  reading_ = false;
  not_read_ = wanted.ok() ? "" : std::string(wanted.status().message());
  if (!wanted.ok()) return;
  std::erase_if(stopping_, [&](const auto& stop) {
    const ShardRecord* known = context_.facts.FindShard(stop.first);
    return known == nullptr || !known->draining_unwanted() || !PodStops(stop.first);
  });
  v1::DrainShardsRequest back;
  back.set_cancel(true);
  const std::set<std::string> beyond = Beyond(*wanted);
  for (const auto& [id, shard] : context_.facts.shards()) {
    if (shard.draining_unwanted() && !beyond.contains(shard.info().name()) && !PodStops(id))
      back.add_shards(shard.info().name());
  }
  if (!back.shards().empty()) (void)drains_.Drain(back);  // tried again at the next look
}

}  // namespace paceline::coordinator
