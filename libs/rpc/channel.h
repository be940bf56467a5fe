#pragma once

#include <memory>
#include <string>

#include "grpcpp/security/credentials.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/channel_arguments.h"

// How both ends of a connection that carries parameters are set up. With gRPC's defaults one stream of 1 MB
// frames reaches about a third of what TCP does on the same machine; with these about two thirds.
namespace paceline::rpc {

// A message of more bytes is refused by gRPC itself, before any of our code sees it. Frames of the data plane
// stay near 1 MB; the limit leaves room for maps of many segments and for other people's clients.
inline constexpr int kMessageBytesMax = 64 << 20;

// A connection on which nothing came for kKeepAliveTime is asked for a sign of life, and given up when there
// is none for kKeepAliveTimeout: so a machine that vanished without closing its connections is noticed.
inline constexpr int kKeepAliveTimeMs = 5'000;
inline constexpr int kKeepAliveTimeoutMs = 5'000;

// For channels to shards. Never through an HTTP proxy. A channel made with these owns its connection, shares
// it with no other channel, and so does not inherit another one's wait before reconnecting.
grpc::ChannelArguments DataPlaneArguments();

// The same for the end that listens, which also has to accept the other's signs of life.
void ApplyDataPlaneArguments(grpc::ServerBuilder& builder, int message_bytes_max = kMessageBytesMax);

// For every server: what strangers may do to it. Streams of a connection, time to say something after
// connecting, idle connections, sizes of headers; threads for calls that wait; and, if it is not 0, memory
// that gRPC may take for connections and messages, beyond which it ends calls. Not for a shard: its logs hold
// the buffers that updates came in, and gRPC would end calls for what is well kept.
void ApplyLimits(grpc::ServerBuilder& builder, int threads_max, size_t memory_max = 0);

// For channels to the coordinator: sign of life as above, no HTTP proxy, gRPC's defaults otherwise.
// Reconnects at least every second.
grpc::ChannelArguments ControlPlaneArguments();

}  // namespace paceline::rpc
