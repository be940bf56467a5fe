#pragma once

#include <memory>

#include "bench/peers/paceline_client.h"
#include "bench/peers/system.h"
#include "tools/paceline/supervisor.h"

namespace paceline::bench::peers {

// A cluster of one shard, without copies, disks or cache, and a client of it in this process. Rule Add, under
// ASP.
absl::StatusOr<std::unique_ptr<System>> StartPaceline(tool::Supervisor& supervisor, const Data& data,
                                                      Kind kind);

}  // namespace paceline::bench::peers
