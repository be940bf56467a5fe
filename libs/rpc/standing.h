#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>

namespace paceline::rpc {

// Whether a coordinator leads, as it says in the trailing metadata of every answer that is an error. What has
// no such metadata was not said by a coordinator but by the connection to it.
struct Standing {
  bool leads = false;
  std::string leader;  // host:port of the one that does, empty: not known
};

inline constexpr char kStandingKey[] = "paceline-standing";
inline constexpr char kLeaderKey[] = "paceline-leader";

template <class ServerContext>
void TellStanding(ServerContext& context, const Standing& standing) {
  context.AddTrailingMetadata(kStandingKey, standing.leads ? "leads" : "stands-by");
  if (!standing.leader.empty()) context.AddTrailingMetadata(kLeaderKey, standing.leader);
}

// nullopt: nobody said so. REQUIRES: the call has ended.
std::optional<Standing> StandingIn(const grpc::ClientContext& context);

}  // namespace paceline::rpc
