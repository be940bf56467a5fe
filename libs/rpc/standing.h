#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>

namespace paceline::rpc {

// Whether a coordinator leads. Each coordinator states it in the trailing metadata of every error. An error
// without that metadata comes from the connection, not from a coordinator.
struct Standing {
  bool leads = false;
  std::string leader;  // host:port of the leader; empty: not known
};

inline constexpr char kStandingKey[] = "paceline-standing";
inline constexpr char kLeaderKey[] = "paceline-leader";

template <class ServerContext>
void TellStanding(ServerContext& context, const Standing& standing) {
  context.AddTrailingMetadata(kStandingKey, standing.leads ? "leads" : "stands-by");
  if (!standing.leader.empty()) context.AddTrailingMetadata(kLeaderKey, standing.leader);
}

// nullopt: no coordinator stated it. REQUIRES: the call has ended.
std::optional<Standing> StandingIn(const grpc::ClientContext& context);

}  // namespace paceline::rpc
