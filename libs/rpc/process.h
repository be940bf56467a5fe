#pragma once

#include <csignal>
#include <string>

#include "absl/status/status.h"

// What every server's process has in common.
namespace paceline::rpc {

// The signals that ask the process to end, SIGINT and SIGTERM. They are blocked from now on in this thread
// and in all that it starts, and come to whoever waits for them with sigwait. SIGPIPE is ignored: that a peer
// has gone is told by the call that wrote to it.
sigset_t BlockEndSignals();

// Keeps gRPC up until the process has ended. Otherwise it goes down with the last of its objects, and waits
// for a thread that it starts when a write does not fit the socket's buffer, which polls for ten seconds: a
// server that has answered large pulls would end so much later. Call it after BlockEndSignals: it starts
// threads.
void KeepGrpcUp();

// From now on gRPC reads into buffers of up to a megabyte, as the channels' arguments say (channel.cc),
// where it would otherwise take many of 64 KiB: what arrives in one piece need not be copied into one. An
// environment variable, and so of the whole process: GRPC_EXPERIMENTS, which is left as it is if it is set
// already. Call it before anything of gRPC, and before there are threads. Nothing where gRPC is of a version
// without the choice.
void ReadIntoLargeBuffers();

// Lets the process have as many descriptors as it is allowed to: the soft limit becomes the hard one. Each
// connection takes one, and each file.
void RaiseDescriptorLimit();

// Writes `address` and a newline to the file `path`, whole or not at all: readers wait for it to appear.
// UNAVAILABLE naming --port-file if it cannot be written. Nothing if `path` is empty.
absl::Status WritePortFile(const std::string& path, const std::string& address);

}  // namespace paceline::rpc
