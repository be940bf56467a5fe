#pragma once

#include <memory>

#include "bench/peers/redis_protocol.h"
#include "bench/peers/system.h"
#include "tools/paceline/supervisor.h"

namespace paceline::bench::peers {

// A Redis that keeps nothing on disk, as a process, and a client of it on a plain socket in this one;
// requests are pipelined. NOT_FOUND: there is no redis-server in PATH.
absl::StatusOr<std::unique_ptr<System>> StartRedis(tool::Supervisor& supervisor,
                                                   const std::filesystem::path& folder, const Data& data,
                                                   RedisRows rows);

}  // namespace paceline::bench::peers
