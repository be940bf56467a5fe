#include "libs/rpc/connections.h"

#include <spdlog/spdlog.h>

namespace paceline::rpc {

void LogFull(bool full) {
  const DescriptorLimits limits = LimitsNow();
  if (full) {
    spdlog::warn(
        "connections are refused descriptors={} of_them_for_connections={}; raise the limit (ulimit -n), "
        "or close connections that nobody needs",
        limits.all, limits.others);
  } else {
    spdlog::info("connections are taken again");
  }
}

}  // namespace paceline::rpc
