#include "services/coordinator/metadata/status.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/version.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

uint64_t InMs(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Milliseconds(duration)));
}

// How many segments each shard is primary of, and replica of in sync.
struct Roles {
  std::map<uint32_t, uint32_t> primaries;
  std::map<uint32_t, uint32_t> replicas;
};

Roles RolesOf(const Context& context, const Membership& membership) {
  Roles roles;
  if (context.facts.map() == nullptr) return roles;
  for (const v1::SegmentConfig& config : context.facts.map()->segments()) {
    if (membership.Current(config.primary())) roles.primaries[config.primary().shard()] += 1;
    for (const v1::Member& replica : config.replicas()) {
      if (membership.Current(replica)) roles.replicas[replica.shard()] += 1;
    }
  }
  return roles;
}

// The problem of the shard's disk; empty: it has none.
std::string DiskText(const v1::BeatRequest& beat) {
  const v1::DiskHealth& disk = beat.disk();
  const std::string since = absl::StrCat(Seconds(absl::Milliseconds(disk.for_ms())), ": ", disk.why());
  const absl::string_view then =
      beat.durable() ? "it has handed over what another shard can serve; the rest is read-only"
                     : "it serves from memory, until too much waits to be written";
  switch (disk.state()) {
    case v1::DiskHealth::FULL:
      return absl::StrCat("has been full for ", since, "; ", then);
    case v1::DiskHealth::FAILS:
      return absl::StrCat("has failed for ", since, "; ", then, "; see its log, and replace the disk");
    case v1::DiskHealth::SLOW:
      return absl::StrCat("is slow: one write or sync took ", since, "; see what else uses it");
    default:
      return "";
  }
}

void AddShards(const Context& context, const Membership& membership, const Moves& moves, const Drains& drains,
               v1::StatusReply& reply) {
  Roles roles = RolesOf(context, membership);
  std::map<uint32_t, int> learners = moves.Learners();
  for (const auto& [id, shard] : context.facts.shards()) {
    v1::ShardStatus& status = *reply.add_shards();
    *status.mutable_info() = shard.info();
    status.set_alive(membership.Alive(id));
    status.set_silent_ms(InMs(membership.Silence(id)));
    status.set_metrics_address(shard.metrics_address());
    status.set_primaries(roles.primaries[id]);
    status.set_replicas(roles.replicas[id]);
    status.set_learners(static_cast<uint32_t>(learners[id]));
    if (const v1::BeatRequest* last = membership.LastBeat(id)) *status.mutable_last() = *last;
    if (auto drain = drains.StatusOf(id)) *status.mutable_drain() = *std::move(drain);
  }
  reply.set_drains(context.facts.counters().drains());
  if (auto under_way = moves.Status()) *reply.mutable_moves() = *std::move(under_way);
}

// The smallest min clock of the job that primaries report; a primary that does not name the job has it at 0.
uint64_t MinClock(const Context& context, const Membership& membership, uint32_t job) {
  if (context.facts.map() == nullptr) return 0;
  std::set<uint32_t> primaries;
  for (const auto& segment : context.facts.map()->segments()) primaries.insert(segment.primary().shard());
  uint64_t smallest = UINT64_MAX;
  for (const uint32_t shard : primaries) {
    uint64_t reported = 0;
    if (const v1::BeatRequest* last = membership.LastBeat(shard)) {
      for (const v1::JobClock& clock : last->jobs()) {
        if (clock.job() == job) reported = clock.min_clock();
      }
    }
    smallest = std::min(smallest, reported);
  }
  return smallest;
}

// Adds what the shards hold of the job, by their last beats.
void AddHeld(const Context& context, const Membership& membership, v1::JobStatus& status) {
  for (const auto& [id, shard] : context.facts.shards()) {
    const v1::BeatRequest* last = membership.LastBeat(id);
    if (last == nullptr) continue;
    for (const v1::JobClock& job : last->jobs()) {
      if (job.job() != status.job()) continue;
      status.set_rows(status.rows() + job.rows());
      status.set_bytes(status.bytes() + job.bytes());
    }
  }
}

// The workers' clocks as counted by shards: the largest that any shard reports.
std::map<uint64_t, uint64_t> CountedClocks(const Context& context, const Membership& membership) {
  std::map<uint64_t, uint64_t> clocks;
  for (const auto& [id, shard] : context.facts.shards()) {
    const v1::BeatRequest* last = membership.LastBeat(id);
    if (last == nullptr) continue;
    for (const v1::WorkerClock& worker : last->workers()) {
      clocks[worker.session()] = std::max(clocks[worker.session()], worker.clock());
    }
  }
  return clocks;
}

void AddJobs(const Context& context, const Membership& membership, const Sessions& sessions,
             v1::StatusReply& reply) {
  const std::map<uint64_t, uint64_t> counted = CountedClocks(context, membership);
  for (const auto& [id, job] : context.facts.jobs()) {
    v1::JobStatus& status = *reply.add_jobs();
    status.set_job(id);
    status.set_name(job.name());
    status.set_min_clock(MinClock(context, membership, id));
    status.set_deleting(job.deleting());
    status.set_data_lost(job.data_lost());
    AddHeld(context, membership, status);
    for (const auto& [number, session] : context.facts.sessions()) {
      if (session.job() != id || session.state() == SessionRecord::CLOSED) continue;
      v1::SessionStatus& of_session = *status.add_sessions();
      of_session.set_session(number);
      of_session.set_client(session.client());
      of_session.set_state(StateName(session.state()));
      of_session.set_rank(session.rank());
      const auto it = counted.find(number);
      of_session.set_clock(std::max(sessions.Clock(number), it == counted.end() ? 0 : it->second));
      of_session.set_silent_ms(InMs(sessions.Silence(number)));
      if (const v1::WorkerTime* time = sessions.TimeOf(number)) *of_session.mutable_time() = *time;
    }
  }
}

// Adds the problems that shards report.
void AddShardProblems(const Context& context, const Membership& membership, v1::StatusReply& reply) {
  for (const auto& [id, shard] : context.facts.shards()) {
    const v1::BeatRequest* last = membership.LastBeat(id);
    if (last == nullptr || !membership.Alive(id)) continue;
    const std::string name = context.facts.ShardName(id);
    if (const std::string disk = DiskText(*last); !disk.empty())
      reply.add_problems(absl::StrCat("the disk of ", name, " ", disk));
    for (const std::string& what : last->not_serving())
      reply.add_problems(absl::StrCat(name, " does not serve ", what));
  }
}

}  // namespace

void AddProblems(const Context& context, const Membership& membership, const FanOuts& fan_outs,
                 const Workers& workers, const JobChanges& job_changes, const Moves& moves,
                 const Drains& drains, v1::StatusReply& reply) {
  for (const std::string& problem : membership.Problems()) reply.add_problems(problem);
  AddShardProblems(context, membership, reply);
  for (const std::string& problem : moves.Problems()) reply.add_problems(problem);
  for (const std::string& problem : drains.Problems()) reply.add_problems(problem);
  for (const std::string& problem : workers.Problems()) reply.add_problems(problem);
  for (const std::string& problem : job_changes.Problems()) reply.add_problems(problem);
  for (const auto& [id, session] : context.facts.sessions()) {
    const absl::Duration since = context.now - fan_outs.Since(Subject::Session(id));
    if (since < FanOuts::kSlow) continue;
    reply.add_problems(absl::StrCat("session ", id, " of ", context.facts.JobName(session.job()),
                                    " has been ", StateName(session.state()), " for ", Seconds(since),
                                    ": it waits for ", fan_outs.Waits(Subject::Session(id))));
  }
  if (context.facts.deposed()) {
    reply.add_problems("another coordinator has started on the same store and leads now; end this one");
  } else if (!context.facts.store_status().ok()) {
    reply.add_problems(absl::StrCat("the coordinator's store fails: ", context.facts.store_status().message(),
                                    "; nothing can be opened, joined or closed until it recovers"));
  }
}

std::string StateName(SessionRecord::State state) {
  return absl::AsciiStrToLower(SessionRecord::State_Name(state));
}

v1::StatusReply StatusOf(const Context& context, const Membership& membership, const Sessions& sessions,
                         const FanOuts& fan_outs, const Workers& workers, const JobChanges& job_changes,
                         const Moves& moves, const Drains& drains) {
  v1::StatusReply reply;
  reply.set_version(std::string(kVersion));
  reply.set_feature_level(kFeatureLevel);
  reply.set_map_version(context.facts.map_version());
  reply.set_segments(context.facts.SegmentCount());
  reply.set_shards_wanted(context.options.shards);
  reply.set_replicas_wanted(context.options.replicas);
  reply.set_segments_under_replicated(static_cast<uint32_t>(moves.UnderReplicated().size()));
  AddShards(context, membership, moves, drains, reply);
  AddJobs(context, membership, sessions, reply);
  for (const auto& [id, table] : context.facts.tables()) *reply.add_tables() = table;
  AddProblems(context, membership, fan_outs, workers, job_changes, moves, drains, reply);
  return reply;
}

}  // namespace paceline::coordinator
