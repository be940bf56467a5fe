// The process that answers what the machine's limits are measured with.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "bench/grpc_limit.h"
#include "bench/peers/echo.h"
#include "bench/peers/machine_systems.h"
#include "bench/peers/processes.h"

namespace paceline::bench::peers {

int ServePeersLimits(const std::string& control) {
  const absl::StatusOr<EchoListener> tcp = EchoListener::Open();
  const absl::StatusOr<std::unique_ptr<BareStream>> grpc = BareStream::Open();
  for (const absl::Status& status : {tcp.status(), grpc.status()}) {
    if (status.ok()) continue;
    std::fprintf(stderr, "paceline-bench: %s\n", status.ToString().c_str());
    return 1;
  }
  const absl::StatusOr<ControlEnd> end = ControlEnd::Connect(control);
  const absl::Status said =
      end.ok() ? end->Send(absl::StrCat(tcp->port(), " ", (*grpc)->port())) : end.status();
  if (!said.ok()) {
    std::fprintf(stderr, "paceline-bench: --control: %s\n", said.ToString().c_str());
    return 1;
  }
  tcp->Serve();
  return 1;
}

}  // namespace paceline::bench::peers
