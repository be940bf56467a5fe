#pragma once

#include <csignal>
#include <string>

#include "absl/status/status.h"

// Set-up that every server's process shares.
namespace paceline::rpc {

// Blocks SIGINT and SIGTERM, the signals that ask the process to end, in this thread and all threads that it
// starts; receive them with sigwait. Ignores SIGPIPE: the call that writes to a closed connection reports the
// error.
sigset_t BlockEndSignals();

// Keeps gRPC initialised until the process ends. Otherwise gRPC shuts down with the last of its objects, and
// then waits for a thread that it starts when a write does not fit the socket's buffer, and that polls for
// ten seconds: a server that has answered large pulls would end that much later. Starts threads: call it
// after BlockEndSignals.
void KeepGrpcUp();

// Makes gRPC read into buffers of up to a megabyte, as the channels' arguments ask (channel.cc), instead of
// many of 64 KiB: a message that arrives in one buffer need not be copied into one. Sets an environment
// variable, GRPC_EXPERIMENTS, and so acts on the whole process; a value that is already set stays. Call it
// before anything of gRPC and before any thread starts. Does nothing for gRPC versions without this option.
void ReadIntoLargeBuffers();

// Raises the soft limit of descriptors to the hard limit. Each connection and each file takes one.
void RaiseDescriptorLimit();

// Writes `address` and a newline to the file `path`, whole or not at all: readers wait for the file to
// appear. UNAVAILABLE naming --port-file if it cannot be written. Does nothing if `path` is empty.
absl::Status WritePortFile(const std::string& path, const std::string& address);

}  // namespace paceline::rpc
