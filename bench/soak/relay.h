#pragma once

#include <string>

namespace paceline::bench {

struct RelayOptions {
  std::string listen;     // HOST:PORT, port 0 for any
  std::string port_file;  // where the address that was bound is written
  std::string to_file;    // holds the address of the process behind the relay, read anew for each connection
};

// A network link that can be broken: connections to the relay reach the process behind it. Stopping the
// relay's process (SIGSTOP) cuts the link, so that bytes under way come late or, if the process is then
// killed, never; SIGUSR1 makes it slow, SIGUSR2 fast again. Runs until it is told to end (SIGTERM). Returns
// the process's exit code.
int RunRelay(const RelayOptions& options);

}  // namespace paceline::bench
