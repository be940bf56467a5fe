#pragma once

#include <memory>
#include <string>

#include "grpcpp/security/credentials.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/channel_arguments.h"

// Settings for both ends of a connection that carries parameters. With gRPC's defaults one stream of 1 MB
// frames reaches about a third of TCP's throughput on the same machine; with these settings about two thirds.
namespace paceline::rpc {

// gRPC itself refuses larger messages, before our code sees them. Frames of the data plane stay near 1 MB;
// the limit leaves room for maps of many segments and for third-party clients.
inline constexpr int kMessageBytesMax = 64 << 20;

// After kKeepAliveTimeMs without traffic a connection is pinged; without an answer within kKeepAliveTimeoutMs
// it is closed. This detects a machine that vanished without closing its connections.
inline constexpr int kKeepAliveTimeMs = 5'000;
inline constexpr int kKeepAliveTimeoutMs = 5'000;

// For channels to shards. They never use an HTTP proxy. Each channel owns its connection and shares it with
// no other, so it does not inherit another channel's reconnect back-off.
grpc::ChannelArguments DataPlaneArguments();

// The same for the listening end, which must also accept the peer's pings.
void ApplyDataPlaneArguments(grpc::ServerBuilder& builder, int message_bytes_max = kMessageBytesMax);

// Limits on untrusted clients, for every server: streams per connection, time to send a first byte after
// connecting, idle connections, header sizes; threads for waiting calls; and, if `memory_max` is not 0, the
// memory that gRPC may use for connections and messages, beyond which it ends calls. Pass 0 for a shard: its
// logs hold the buffers that updates came in, and gRPC would end calls because of them.
void ApplyLimits(grpc::ServerBuilder& builder, int threads_max, size_t memory_max = 0);

// For channels to the coordinator: pings as above, no HTTP proxy, gRPC's defaults otherwise. Reconnects at
// least every second.
grpc::ChannelArguments ControlPlaneArguments();

}  // namespace paceline::rpc
