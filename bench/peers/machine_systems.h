#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "bench/peers/processes.h"
#include "bench/peers/system.h"
#include "tools/paceline/supervisor.h"

// What the machine does with the same bytes and no store: the limits that all systems are measured beside.
namespace paceline::bench::peers {

// A process, a program of ours (`ServePeersLimits`), that answers raw TCP with any number of connections, and
// a gRPC stream.
struct EchoServer {
  EchoServer(tool::Supervisor& supervisor, const std::filesystem::path& folder)
      : processes(supervisor, folder) {}

  absl::Status Start();

  Processes processes;
  pid_t process = 0;
  int tcp_port = 0;
  int grpc_port = 0;
};

// "raw TCP": the keys and values of a push to a process that drops them and answers with 4 bytes; the keys of
// a pull, answered with as many bytes as its values have. "bare gRPC ping-pong": 8 bytes each way over a
// stream with our settings, beside one key at a time. Both have one EchoServer.
absl::StatusOr<std::vector<std::unique_ptr<System>>> StartEchoes(tool::Supervisor& supervisor,
                                                                 const std::filesystem::path& folder,
                                                                 const Data& data);

// "memcpy": each row of a request copied between its place in an array and a buffer, in this process and its
// one thread.
std::unique_ptr<System> MakeMemcpy(const Data& data);

// `paceline-bench peers-limits`: the server of StartEchoes. Sends its ports to the Unix socket at `control`,
// and serves until it is killed. Returns an exit code.
int ServePeersLimits(const std::string& control);

}  // namespace paceline::bench::peers
