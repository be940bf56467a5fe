// Hands over everything that a shard is primary of, before the shard is stopped.
#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/text.h"
#include "services/coordinator/metadata/placement/config_wishes.h"
#include "services/coordinator/metadata/placement/moves.h"

namespace paceline::coordinator {
namespace {

// Of a shard that is to end, at a time. Nothing is copied for these, and whoever ends the shard waits for
// them.
constexpr int kHandOversAtATime = 8;

}  // namespace

absl::StatusOr<Ticket> Moves::HandOverShard(const v1::HandOverShardRequest& request, absl::Time deadline,
                                            const Done<v1::HandOverShardReply>& done) {
  const Facts& facts = context_.facts;
  const ShardRecord* shard = facts.FindShard(request.shard());
  if (shard == nullptr) {
    return absl::NotFoundError(absl::StrCat("shard: '", request.shard(),
                                            "' is not of this cluster; `paceline status` lists its shards"));
  }
  const uint32_t id = shard->info().shard();
  if (facts.map() == nullptr) return absl::FailedPreconditionError("the cluster has no map yet");
  if (!membership_.Alive(id)) {
    return absl::FailedPreconditionError(
        absl::StrCat(facts.ShardName(id), " has been silent for ", Seconds(membership_.Silence(id)),
                     "; where it has replicas they take over by themselves"));
  }
  if (request.incarnation() != 0 && request.incarnation() != shard->info().incarnation()) {
    return absl::FailedPreconditionError(absl::StrCat("incarnation: ", request.incarnation(), " of ",
                                                      request.shard(), " is over; the newest is ",
                                                      shard->info().incarnation()));
  }
  const Ticket ticket = waiters_.NewTicket();
  ABSL_RETURN_IF_ERROR(
      waiters_
          .Await(
              {.subject = Subject::Shard(id),
               .deadline = deadline,
               .answer = [this, ticket, done](const absl::Status& status) { Answer(ticket, done, status); },
               .expired = [] { return absl::OkStatus(); }},
              ticket)
          .status());
  Request mine{.shard = {}, .segments = {}, .leave = request.leave()};
  mine.shard.set_shard(id);
  mine.shard.set_incarnation(shard->info().incarnation());
  for (uint32_t s = 0; s < facts.SegmentCount(); ++s) {
    if (Same(ConfigOf(s).primary(), mine.shard) || IsHandedOverTo(mine.shard, s)) mine.segments.insert(s);
  }
  Leaving& leaving = leaving_[id];
  const bool ends = leaving.ends && leaving.incarnation == shard->info().incarnation();
  leaving = {
      .incarnation = shard->info().incarnation(), .since = context_.now, .ends = ends || request.leave()};
  requests_.emplace(ticket, std::move(mine));
  Pump();
  return requests_.contains(ticket) ? ticket : 0;
}

void Moves::Answer(Ticket ticket, const Done<v1::HandOverShardReply>& done, const absl::Status& status) {
  const auto request = requests_.extract(ticket);
  if (!status.ok()) {
    waiters_.Tell(done, {status});
  } else {
    waiters_.Tell(done, {ReplyTo(request.mapped())});
  }
}

void Moves::PumpRequests() {
  std::vector<Ticket> ended;  // answered afterwards: the commit of a map for one of them calls Pump again
  for (auto& [ticket, request] : requests_) {
    if (!Advance(request)) ended.push_back(ticket);
  }
  for (const Ticket ticket : ended) waiters_.AnswerOne(ticket, absl::OkStatus());
}

uint32_t Moves::LetGo(const Request& request) {
  v1::Map map = *context_.facts.map();
  uint32_t count = 0;
  for (uint32_t s = 0; s < context_.facts.SegmentCount(); ++s) {
    v1::SegmentConfig& config = *map.mutable_segments(static_cast<int>(s));
    if (!HasReplica(config, request.shard) || !GoesOnWithout(s, request.shard)) continue;
    Remove(config, request.shard);
    ++count;
  }
  if (count == 0 || !membership_.CommitMap(std::move(map)).ok()) return 0;
  on_map_();
  return count;
}

bool Moves::Advance(Request& request) {
  if (!membership_.Alive(request.shard)) return false;
  for (uint32_t s = 0; s < context_.facts.SegmentCount(); ++s) {  // it may have taken some over since
    if (Same(ConfigOf(s).primary(), request.shard)) request.segments.insert(s);
  }
  int room = kHandOversAtATime;
  for (const auto& [segment, one] : under_way_) {
    const bool its = one.move.kind == MemberMove::Kind::kHandOver && Same(one.move.primary, request.shard);
    if (its) --room;
  }
  bool waits = false;
  for (const uint32_t segment : request.segments) {
    if (Same(ConfigOf(segment).primary(), request.shard)) {
      waits |= Advance(request, segment, room);
    } else {
      waits |= IsHandedOverTo(request.shard, segment);
    }
  }
  if (!request.leave || waits) return waits;
  for (uint32_t s = 0; s < context_.facts.SegmentCount(); ++s) {
    const v1::SegmentConfig& config = ConfigOf(s);
    if (!HasReplica(config, request.shard) || GoesOnWithout(s, request.shard)) continue;
    waits |= promotions_.UnderWay().contains(s) || MayStay(config, request) || WillHaveReplica(s);
  }
  return waits;
}

bool Moves::Stays(const v1::Member& member) const {
  const auto leaving = leaving_.find(member.shard());
  return membership_.Alive(member) && (leaving == leaving_.end() || !leaving->second.ends);
}

bool Moves::MayStay(const v1::SegmentConfig& config, const Request& request) const {
  const auto other = [&](const v1::Member& one) { return !Same(one, request.shard) && Stays(one); };
  return other(config.primary()) || std::ranges::any_of(config.replicas(), other);
}

bool Moves::EnoughStay(uint32_t segment, const v1::Member& leaving) const {
  const auto others = std::ranges::count_if(ConfigOf(segment).replicas(), [&](const v1::Member& replica) {
    return !Same(replica, leaving) && Stays(replica);
  });
  return others + 1 >= static_cast<int64_t>(context_.options.replicas) || !WillHaveReplica(segment);
}

bool Moves::GoesOnWithout(uint32_t segment, const v1::Member& leaving) {
  const v1::Member& primary = ConfigOf(segment).primary();
  if (!EnoughStay(segment, leaving)) return false;
  if (!Stays(primary) || promotions_.UnderWay().contains(segment)) return false;
  return membership_.CheckMayMakeMaps().ok() && roll_call_.Lives(primary);
}

bool Moves::IsHandedOverTo(const v1::Member& shard, uint32_t segment) const {
  const auto it = under_way_.find(segment);
  return it != under_way_.end() && it->second.move.kind == MemberMove::Kind::kHandOver &&
         Same(it->second.move.to, shard);
}

bool Moves::Advance(const Request& request, uint32_t segment, int& room) {
  const auto it = under_way_.find(segment);
  if (it != under_way_.end() && it->second.move.kind == MemberMove::Kind::kHandOver) return true;
  const std::optional<v1::Member> to = BestReplica(ConfigOf(segment));
  if (!to.has_value()) return WillHaveReplica(segment);
  if (room-- > 0) {
    const MemberMove move{MemberMove::Kind::kHandOver, segment, request.shard, *to};
    under_way_[segment] = {.move = move, .since = context_.now};
  }
  return true;
}

// The replica whose shard will be primary of the fewest segments. Takes a shard that should have no primaries
// only if there is no other, and never one that ends too: it might be the last to hold the segment.
std::optional<v1::Member> Moves::BestReplica(const v1::SegmentConfig& config) const {
  const std::map<uint32_t, int> primaries = PrimariesAfter(*context_.facts.map(), MovesUnderWay());
  std::optional<std::tuple<bool, int, uint32_t>> best;
  std::optional<v1::Member> to;
  for (const v1::Member& replica : config.replicas()) {
    if (!Stays(replica)) continue;
    const auto count = primaries.find(replica.shard());
    const bool unfit = leaving_.contains(replica.shard()) || membership_.DiskUseless(replica.shard()) ||
                       context_.facts.FindShard(replica.shard())->draining();
    const std::tuple rank(unfit, count == primaries.end() ? 0 : count->second, replica.shard());
    if (best.has_value() && *best < rank) continue;
    best = rank;
    to = replica;
  }
  return to;
}

bool Moves::WillHaveReplica(uint32_t segment) const {
  if (under_way_.contains(segment)) return true;
  if (context_.options.replicas == 0) return false;
  const v1::SegmentConfig& config = ConfigOf(segment);
  return std::ranges::any_of(context_.facts.map()->shards(), [&](const v1::ShardInfo& info) {
    v1::Member member;
    member.set_shard(info.shard());
    member.set_incarnation(info.incarnation());
    return Stays(member) && !context_.facts.FindShard(info.shard())->draining() &&
           !Same(config.primary(), member) && !HasReplica(config, member);
  });
}

std::string Moves::WhyKept(const Request& request, uint32_t segment) const {
  const v1::SegmentConfig& config = ConfigOf(segment);
  if (!membership_.Alive(request.shard)) {
    return absl::StrCat(context_.facts.ShardName(request.shard.shard()), " does not live any more");
  }
  const auto it = under_way_.find(segment);
  if (it != under_way_.end()) {
    const std::string to = context_.facts.ShardName(it->second.move.to.shard());
    return it->second.move.kind == MemberMove::Kind::kHandOver
               ? absl::StrCat(to, " has not taken over in time; ask again")
               : absl::StrCat("no replica is in sync: ", to, " is catching up; ask again");
  }
  for (const v1::Member& replica : config.replicas()) {
    const std::string name = context_.facts.ShardName(replica.shard());
    if (!membership_.Current(replica))
      return absl::StrCat("no replica is in sync: ", name, " was started again");
    if (membership_.Alive(replica) && !Stays(replica)) {
      return absl::StrCat("its replica, ", name, ", is about to end as well");
    }
    if (!membership_.Alive(replica)) {
      return absl::StrCat("its replica, ", name, ", has been silent for ",
                          Seconds(membership_.Silence(replica.shard())));
    }
  }
  if (!config.replicas().empty()) return "there was no time left; ask again";
  if (context_.options.replicas == 0) {
    return "no replica: the cluster runs with --replicas 0; `paceline drain` moves segments with their rows";
  }
  return absl::StrCat("no replica: ", context_.options.replicas, " wanted, which takes ",
                      context_.options.replicas + 1, " shards, of which ", membership_.AliveCount(), " live");
}

v1::HandOverShardReply Moves::ReplyTo(const Request& request) {
  v1::HandOverShardReply reply;
  if (request.leave && membership_.Alive(request.shard)) reply.set_let_go(LetGo(request));
  std::map<std::string, std::set<uint32_t>> kept;
  for (const uint32_t segment : request.segments) {
    if (Same(ConfigOf(segment).primary(), request.shard)) {
      kept[WhyKept(request, segment)].insert(segment);
    } else {
      reply.set_handed_over(reply.handed_over() + 1);
    }
  }
  for (const auto& [why, segments] : kept)
    reply.add_kept(absl::StrCat("segments ", Ranges(segments), ": ", why));
  return reply;
}

}  // namespace paceline::coordinator
