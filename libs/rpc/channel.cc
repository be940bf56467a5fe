#include "libs/rpc/channel.h"

#include "grpc/grpc.h"
#include "grpcpp/resource_quota.h"

namespace paceline::rpc {
namespace {

struct Setting {
  const char* name;
  int value;
};

// Ordered by gain, each measured with those before it in place.
constexpr Setting kBulk[] = {
    // The window of a connection has no setting of its own: beyond 64 KiB and one message it grows only as
    // the probe of the bandwidth-delay product allows. Without the probe a frame waits for four window
    // updates, each a system call and several wake-ups.
    {GRPC_ARG_HTTP2_BDP_PROBE, 1},
    // The receive window of a stream: room for several frames under way.
    {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20},
    // One HTTP/2 frame per message instead of 64.
    {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20},
    // Big reads: one slice per message instead of 128. While messages are small the buffers shrink with them.
    // They are no larger because a record in a log holds the buffer it came in.
    {GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20},
    {GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, 8 << 10},
    {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 1 << 20},
};

// Members of a cluster are reached directly: an http_proxy in the environment is meant for outside
// connections, and could not resolve the cluster's names and ports.
constexpr Setting kDirect[] = {
    {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
};

constexpr Setting kSignsOfLife[] = {
    {GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveTimeMs},
    {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveTimeoutMs},
    // No limit: gRPC stops after two pings while no data flows, and a parked read is just that case.
    {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
};

// Pings that the listening end must not count as abuse.
constexpr Setting kTolerance[] = {
    {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000},
    {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0},
};

constexpr Setting kLimits[] = {
    // Limits a connection whose client obeys HTTP/2; StreamGate limits the others.
    {GRPC_ARG_MAX_CONCURRENT_STREAMS, 512},
    // Closes a connection that stays silent after connecting.
    {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000},
    // Closes a connection without a call for that long; a channel connects again with its next call.
    {GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60'000},
    // Metadata of our calls takes a few hundred bytes.
    {GRPC_ARG_MAX_METADATA_SIZE, 4 << 10},
};

}  // namespace

grpc::ChannelArguments DataPlaneArguments() {
  grpc::ChannelArguments arguments;
  for (const Setting& s : kBulk) arguments.SetInt(s.name, s.value);
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMessageBytesMax);
  for (const Setting& s : kSignsOfLife) arguments.SetInt(s.name, s.value);
  for (const Setting& s : kDirect) arguments.SetInt(s.name, s.value);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

void ApplyDataPlaneArguments(grpc::ServerBuilder& builder, int message_bytes_max) {
  for (const Setting& s : kBulk) builder.AddChannelArgument(s.name, s.value);
  builder.AddChannelArgument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, message_bytes_max);
  for (const Setting& s : kSignsOfLife) builder.AddChannelArgument(s.name, s.value);
  for (const Setting& s : kTolerance) builder.AddChannelArgument(s.name, s.value);
}

void ApplyLimits(grpc::ServerBuilder& builder, int threads_max, size_t memory_max) {
  for (const Setting& s : kLimits) builder.AddChannelArgument(s.name, s.value);
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(threads_max);
  if (memory_max > 0) quota.Resize(memory_max);
  builder.SetResourceQuota(quota);
}

grpc::ChannelArguments ControlPlaneArguments() {
  grpc::ChannelArguments arguments;
  for (const Setting& s : kSignsOfLife) arguments.SetInt(s.name, s.value);
  for (const Setting& s : kDirect) arguments.SetInt(s.name, s.value);
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

}  // namespace paceline::rpc
