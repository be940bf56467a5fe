#pragma once

// Conventions that the commands share.
namespace paceline::tool {

inline constexpr int kCoordinatorPort = 7070;
// Environment variable: host:port of the coordinator that commands talk to.
inline constexpr char kCoordinatorVariable[] = "PACELINE_COORDINATOR";

// Environment variable: the folder of sockets for shared memory, of clients and shards.
inline constexpr char kSocketDirVariable[] = "PACELINE_SOCKET_DIR";

inline constexpr int kUsageError = 2;  // exit code

}  // namespace paceline::tool
