#pragma once

#include <string>

#include "paceline/v1/coordinator.pb.h"

// Jobs and tables in columns, and the outcome of commands, as text.
namespace paceline::tool {

std::string JobsText(const v1::StatusReply& status);
// The tables of one job, or of all jobs if `job` is empty.
std::string TablesText(const v1::StatusReply& status, const std::string& job);

// "alive", "silent"; and whether it drains.
std::string StateText(const v1::ShardStatus& shard);
std::string ShardsText(const v1::StatusReply& status);

// How far shards are that drain; one line each.
std::string DrainText(const v1::DrainShardsReply& reply, const v1::MoveStatus& moves);

// The outcome of `paceline handover`.
std::string HandOverText(const std::string& shard, const v1::HandOverShardReply& reply);

// The segments that `paceline recover` has found waiting, for which shards, and the effect of accepting the
// loss. Empty if none waits.
std::string LossText(const v1::RecoverSegmentsReply& reply);

// By name; nullptr: there is none.
const v1::JobStatus* FindJob(const v1::StatusReply& status, const std::string& job);
const v1::Table* FindTable(const v1::StatusReply& status, const std::string& job, const std::string& table);

}  // namespace paceline::tool
