#pragma once

#include <string>

#include "libs/rpc/listener.h"

// How a server says that it takes no more connections: by its health, its log and its metrics.
namespace paceline::rpc {

// Health says of a service of this name that it serves while connections are taken.
inline constexpr char kConnectionsHealth[] = "connections";

// Writes a line when a listener begins to refuse connections, and when it takes them again.
void LogFull(bool full);

// Adds counters to a page, a metrics::Families; `prefix` is "paceline_shard_" or as that.
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
