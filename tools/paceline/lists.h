#pragma once

#include <string>

#include "paceline/v1/coordinator.pb.h"

// Jobs and tables in columns, and what was done, for people.
namespace paceline::tool {

std::string JobsText(const v1::StatusReply& status);
// Those of one job, or of all if `job` is empty.
std::string TablesText(const v1::StatusReply& status, const std::string& job);

std::string ShardsText(const v1::StatusReply& status);

// What became of `paceline handover`.
std::string HandOverText(const std::string& shard, const v1::HandOverShardReply& reply);

// Which segments `paceline recover` has found to wait, for whom, and what accepting the loss means. Empty if
// none does.
std::string LossText(const v1::RecoverSegmentsReply& reply);

// By name; nullptr: there is none.
const v1::JobStatus* FindJob(const v1::StatusReply& status, const std::string& job);
const v1::Table* FindTable(const v1::StatusReply& status, const std::string& job, const std::string& table);

}  // namespace paceline::tool
