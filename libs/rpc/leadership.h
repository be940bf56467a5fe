#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>

namespace paceline::rpc {

// Whether a coordinator leads. Each coordinator states it in the trailing metadata of every error. An error
// without that metadata comes from the connection, not from a coordinator.
struct Leadership {
  bool leads = false;
  std::string leader;  // host:port of the leader; empty: not known
};

inline constexpr char kLeadershipKey[] = "paceline-standing";
inline constexpr char kLeaderKey[] = "paceline-leader";

template <class ServerContext>
void TellLeadership(ServerContext& context, const Leadership& leadership) {
  context.AddTrailingMetadata(kLeadershipKey, leadership.leads ? "leads" : "stands-by");
  if (!leadership.leader.empty()) context.AddTrailingMetadata(kLeaderKey, leadership.leader);
}

// nullopt: no coordinator stated it. REQUIRES: the call has ended.
std::optional<Leadership> LeadershipIn(const grpc::ClientContext& context);

}  // namespace paceline::rpc
