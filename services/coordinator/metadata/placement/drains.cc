#include "services/coordinator/metadata/placement/drains.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/nonces.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/placement/map_plan.h"

namespace paceline::coordinator {
namespace {

// A shard whose answer is lost is asked again to mark its folder.
constexpr absl::Duration kEmptyAgain = absl::Milliseconds(500);
// Of those that were refused. A number far ahead would leave none to others.
constexpr uint64_t kNumbersSkippedMax = 1'000'000;

std::string Names(const Facts& facts, const std::set<uint32_t>& shards) {
  return absl::StrJoin(shards, ", ", [&](std::string* out, uint32_t shard) {
    absl::StrAppend(out, facts.FindShard(shard)->info().name());
  });
}

}  // namespace

absl::StatusOr<std::set<uint32_t>> Drains::Named(const v1::DrainShardsRequest& request) const {
  if (request.shards().empty()) {
    return absl::InvalidArgumentError("shards: none; expected at least one name");
  }
  std::set<uint32_t> named;
  for (const std::string& name : request.shards()) {
    const ShardRecord* known = context_.facts.FindShard(name);
    if (known == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          "shards: '", name, "' is not of this cluster; `paceline shard list` shows those that are"));
    }
    named.insert(known->info().shard());
  }
  return named;
}

absl::StatusOr<v1::DrainShardsReply> Drains::Drain(const v1::DrainShardsRequest& request, bool unwanted) {
  if (!Planted(Bug::kLateDrainObeyed)) {
    if (FindNonce(context_.facts.nonces(), request.nonce()) != nullptr) return ReplyOf(request);
    ABSL_RETURN_IF_ERROR(CheckNumber(request));
  }
  ABSL_ASSIGN_OR_RETURN(const std::set<uint32_t> named, Named(request));
  if (context_.facts.map() == nullptr) return absl::FailedPreconditionError("the cluster has no map yet");
  Changes changes;
  std::set<uint32_t> draining;
  bool some_begin = false;
  for (const auto& [id, shard] : context_.facts.shards()) {
    const bool drains = named.contains(id) ? !request.cancel() : shard.draining();
    if (drains) draining.insert(id);
    some_begin |= drains && !shard.draining();
    // What a person asks for lasts, also where the shard drains already as it is not wanted.
    const bool now_a_persons = drains && !unwanted && named.contains(id) && shard.draining_unwanted();
    if (drains == shard.draining() && !now_a_persons) continue;
    changes.shards.push_back(shard);
    changes.shards.back().set_draining(drains);
    changes.shards.back().set_draining_unwanted(drains && unwanted);
  }
  if (some_begin) ABSL_RETURN_IF_ERROR(CheckRoom(draining));
  // Also of a request that changes nothing: one before it that comes later must not. One that has no number
  // takes the next if it changes something.
  const uint64_t taken = context_.facts.counters().drains();
  const uint64_t number = request.number() != 0 || changes.shards.empty() ? request.number() : taken + 1;
  if (number > taken) {
    changes.counters = context_.facts.counters();
    changes.counters->set_drains(number);
  }
  if (request.nonce() != 0) changes.nonces = With(context_.facts.nonces(), request.nonce(), /*job=*/0);
  if (!changes.shards.empty() || changes.counters.has_value() || changes.nonces.has_value()) {
    ABSL_RETURN_IF_ERROR(context_.Commit(changes));
  }
  if (!changes.shards.empty()) moves_.PlanAnew();
  return ReplyOf(request);
}

absl::Status Drains::CheckNumber(const v1::DrainShardsRequest& request) const {
  const uint64_t taken = context_.facts.counters().drains();
  if (request.number() == 0) return absl::OkStatus();
  if (request.number() <= taken) {
    return absl::AbortedError(absl::StrCat("number: this is request ", request.number(),
                                           " to drain shards, and request ", taken,
                                           " was taken already; it changes nothing: if it is still wanted, "
                                           "look at `paceline shard list` and ask again"));
  }
  if (request.number() - taken <= kNumbersSkippedMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("number: ", request.number(),
                                                 "; the last one that was taken is ", taken,
                                                 ": expected the next, StatusReply.drains + 1"));
}

v1::DrainShardsReply Drains::ReplyOf(const v1::DrainShardsRequest& request) const {
  v1::DrainShardsReply reply;
  for (const std::string& name : request.shards()) {
    v1::DrainShardsReply::Shard& one = *reply.add_shards();
    one.set_shard(name);
    const ShardRecord* known = context_.facts.FindShard(name);
    if (known == nullptr) {
      one.mutable_drain()->set_may_go(true);
    } else if (auto status = StatusOf(known->info().shard())) {
      *one.mutable_drain() = *std::move(status);
    }
  }
  return reply;
}

absl::Status Drains::CheckRoom(const std::set<uint32_t>& draining) const {
  std::set<uint32_t> rest;
  uint64_t to_move = 0;
  uint64_t held = 0;
  uint64_t budget = 0;
  for (const auto& [id, shard] : context_.facts.shards()) {
    const v1::BeatRequest* last = membership_.LastBeat(id);
    if (draining.contains(id)) {
      to_move += last == nullptr ? 0 : last->bytes();
    } else if (Takes(id)) {
      rest.insert(id);
      held += last == nullptr ? 0 : last->bytes();
      budget += last == nullptr ? 0 : last->bytes_budget();
    }
  }
  const std::string without = absl::StrCat("shards: without ", Names(context_.facts, draining), " ");
  const size_t copies = context_.options.replicas + size_t{1};
  if (rest.size() < copies) {
    return absl::FailedPreconditionError(absl::StrCat(
        without, "there would be ", rest.size(), " that live and take segments, and each segment needs ",
        copies, " (--replicas ", context_.options.replicas, "): start more, or drain fewer"));
  }
  const uint64_t room = budget - std::min(budget, held);
  if (to_move <= room) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(without, "the others would have to take ", to_move, " bytes of rows, and have room for ",
                   room, " (their --memory-budget is ", budget, " together, of which ", held,
                   " are in use): start more shards, raise the budget, or drain fewer"));
}

bool Drains::Takes(uint32_t shard) const {
  return membership_.Alive(shard) && !membership_.DiskUseless(shard) && !membership_.Emptied(shard);
}

bool Drains::HasNothing(uint32_t shard) const {
  std::set<uint32_t> left = SegmentsOf(*context_.facts.map(), shard);
  if (Planted(Bug::kDrainedEarly))
    std::erase_if(left, [&](uint32_t segment) { return moves_.IsMoving(segment); });
  return left.empty() && !moves_.Learners().contains(shard);
}

bool Drains::Pump() {
  if (context_.facts.map() == nullptr) return false;
  std::vector<uint32_t> gone;
  bool asked = false;
  for (const auto& [id, shard] : context_.facts.shards()) {
    if (!shard.draining() || !HasNothing(id)) continue;
    if (!membership_.Alive(id)) {
      gone.push_back(id);
    } else if (!membership_.HasEmptied(id) && next_emptying_ <= context_.now) {
      membership_.EmptyFolderOf(shard);
      asked = true;
    }
  }
  if (asked) next_emptying_ = context_.now + kEmptyAgain;
  // A store that is behind may not know its segments.
  if (gone.empty() || !membership_.CheckMayGiveIds().ok()) return false;
  bool some = false;
  for (const uint32_t id : gone) some |= membership_.Forget(id).ok();
  return some;
}

std::optional<v1::DrainStatus> Drains::StatusOf(uint32_t shard) const {
  const ShardRecord* known = context_.facts.FindShard(shard);
  if (known == nullptr || !known->draining()) return std::nullopt;
  const std::set<uint32_t> segments = SegmentsOf(*context_.facts.map(), shard);
  const v1::BeatRequest* last = membership_.LastBeat(shard);
  v1::DrainStatus status;
  status.set_segments_left(static_cast<uint32_t>(segments.size()));
  if (last != nullptr && !segments.empty()) status.set_bytes_left(last->bytes());
  const bool emptied = membership_.HasEmptied(shard) || Planted(Bug::kDrainedEarly);
  status.set_may_go(HasNothing(shard) && (!membership_.Alive(shard) || emptied));
  status.set_waits_for(WaitsFor(shard, segments));
  return status;
}

std::string Drains::WaitsFor(uint32_t shard, const std::set<uint32_t>& segments) const {
  const std::string name = context_.facts.FindShard(shard)->info().name();
  std::set<uint32_t> lost;
  std::set<uint32_t> only;
  for (const uint32_t segment : segments) {
    const v1::SegmentConfig& config = context_.facts.map()->segments(static_cast<int>(segment));
    if (config.lost()) lost.insert(segment);
    if (config.replicas().empty() && !membership_.Alive(config.primary())) only.insert(segment);
  }
  if (!lost.empty()) {
    return absl::StrCat("segments ", Ranges(lost), " are lost with an earlier start of ", name,
                        ": go on without their data (`paceline recover --accept-loss ", name, "`)");
  }
  if (!only.empty() && !membership_.Alive(shard)) {
    return absl::StrCat(name, " has been silent for ", Seconds(membership_.Silence(shard)),
                        ", and only it has segments ", Ranges(only),
                        ": start it again, or see `paceline recover`");
  }
  size_t others = 0;
  for (const auto& [id, other] : context_.facts.shards()) {
    others += !other.draining() && Takes(id) ? 1 : 0;
  }
  if (segments.empty()) return membership_.Alive(shard) ? membership_.WhyNotEmptied(shard) : "";
  if (others > context_.options.replicas) return "";
  return absl::StrCat(context_.options.replicas + 1,
                      " shards are needed that live and do not drain, and there are ", others,
                      ": start more");
}

bool Drains::AnyUnwantedLives() const {
  return std::ranges::any_of(context_.facts.shards(), [&](const auto& shard) {
    return shard.second.draining_unwanted() && membership_.Alive(shard.first);
  });
}

size_t Drains::size() const {
  return static_cast<size_t>(std::ranges::count_if(
      context_.facts.shards(), [](const auto& shard) { return shard.second.draining(); }));
}

std::vector<std::string> Drains::Problems() const {
  std::vector<std::string> problems;
  for (const auto& [id, shard] : context_.facts.shards()) {
    const auto status = StatusOf(id);
    if (!status.has_value() || status->waits_for().empty()) continue;
    problems.push_back(absl::StrCat(shard.info().name(), " drains and waits: ", status->waits_for()));
  }
  return problems;
}

}  // namespace paceline::coordinator
