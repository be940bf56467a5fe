#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

// The keys of the coordinator's store. Numbers have leading zeros, so that listings are in numeric order.
// Values are Protobuf messages, except the term, a decimal number, and the number of the last commit, two of
// them.
//
//   cluster             ClusterRecord     written once
//   term                decimal           how many coordinators have led so far
//   commit              TERM/NUMBER       the last commit: its term, and the number of commits in that term
//   leader              LeaderRecord      rewritten all the time by the leader; absent: it has resigned
//   counters            CountersRecord
//   map                 v1.Map            absent until the first shards have joined; from feature level 2 on
//   without its segments, which are in
//   map_chunk/00000001  MapChunkRecord
//   nonces              NoncesRecord
//   shard/0000000002    ShardRecord
//   job/0000000001      JobRecord
//   session/…20 digits  SessionRecord     until the session is closed and every smaller one is
//   table/0000000001    v1.Table
//   drop/0000000001     TableDropRecord   until the table's rows are freed everywhere
//   rule/0000000001     RuleChangeRecord  until the change is logged everywhere
//   work/0000000001     WorkQueueRecord   until its job is gone
//   held/…20 digits     WorkHeldRecord    by session, until that is closed everywhere and its work is given
//   back
namespace paceline::coordinator::keys {

inline constexpr absl::string_view kCluster = "cluster";
inline constexpr absl::string_view kTerm = "term";
inline constexpr absl::string_view kCommit = "commit";
inline constexpr absl::string_view kLeader = "leader";
inline constexpr absl::string_view kCounters = "counters";
inline constexpr absl::string_view kMap = "map";
inline constexpr absl::string_view kMapChunks = "map_chunk/";
inline constexpr absl::string_view kNonces = "nonces";
inline constexpr absl::string_view kShards = "shard/";
inline constexpr absl::string_view kJobs = "job/";
inline constexpr absl::string_view kSessions = "session/";
inline constexpr absl::string_view kTables = "table/";
inline constexpr absl::string_view kDrops = "drop/";
inline constexpr absl::string_view kRuleChanges = "rule/";
inline constexpr absl::string_view kWorkQueues = "work/";
inline constexpr absl::string_view kWorkHeld = "held/";

// The key of the record with this id, of those with the prefix.
std::string Of(absl::string_view prefix, uint32_t id);
std::string Of(absl::string_view prefix, uint64_t id);
std::string MapChunk(uint32_t number);

}  // namespace paceline::coordinator::keys
