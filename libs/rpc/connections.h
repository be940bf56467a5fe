#pragma once

#include <string>

#include "libs/rpc/listener.h"

// Reports that a server takes no more connections: through its health service, its log and its metrics.
namespace paceline::rpc {

// The health service reports SERVING under this name while connections are accepted.
inline constexpr char kConnectionsHealth[] = "connections";

// Logs a line when a listener begins to refuse connections, and when it accepts them again.
void LogFull(bool full);

// Adds counters to a page, a metrics::Families; `prefix` is "paceline_shard_" or similar.
template <class Families>
void ShowConnections(Families& families, const std::string& prefix, const ConnectionCounts& counts) {
  const auto show = [&](const char* result, uint64_t value) {
    families.Counter(prefix + "connections_total", "Connections, by what became of them.",
                     static_cast<double>(value), {{"result", result}});
  };
  show("taken", counts.accepted);
  show("refused", counts.refused);
}

}  // namespace paceline::rpc
