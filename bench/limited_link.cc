#include "bench/limited_link.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/rpc/channel.h"
#include "paceline/v1/coordinator.grpc.pb.h"

namespace paceline::bench {
namespace {

// `command` is one of this file's own.
absl::Status RunCommand(const std::string& command) {
  if (std::system(absl::StrCat(command, " >/dev/null 2>&1").c_str()) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("it failed: ", command));
}

}  // namespace

absl::Status EnterNetwork() {
  if (geteuid() != 0) return absl::FailedPreconditionError("a limited link needs root");
  for (const char* program : {"ip", "tc"}) {
    if (!RunCommand(absl::StrCat("command -v ", program)).ok()) {
      return absl::FailedPreconditionError(absl::StrCat("a limited link needs `", program, "` (iproute2)"));
    }
  }
  if (unshare(CLONE_NEWNET) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("no network namespace: ", std::strerror(errno)));
  }
  ABSL_RETURN_IF_ERROR(RunCommand("ip link set lo mtu 1500 up"));
  // Otherwise megabytes wait in sockets, where nothing overtakes them (docs/priorities.md).
  std::ofstream("/proc/sys/net/ipv4/tcp_notsent_lowat") << 65536 << "\n";
  return absl::OkStatus();
}

absl::Status LimitPort(int port, double bytes_per_second) {
  const auto bits = static_cast<uint64_t>(bytes_per_second * 8);
  ABSL_RETURN_IF_ERROR(
      RunCommand("tc qdisc replace dev lo root handle 1: prio bands 3 priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2"));
  for (const auto& [band, match] : {std::pair{1, "dport"}, std::pair{2, "sport"}}) {
    ABSL_RETURN_IF_ERROR(RunCommand(absl::StrCat("tc qdisc add dev lo parent 1:", band, " tbf rate ", bits,
                                          "bit burst 128kb limit 512kb")));
    ABSL_RETURN_IF_ERROR(RunCommand(absl::StrCat("tc filter add dev lo parent 1: protocol ip u32 match ip ", match,
                                          " ", port, " 0xffff flowid 1:", band)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> PortOfShard(const std::string& coordinator) {
  const auto stub = v1::Coordinator::NewStub(grpc::CreateCustomChannel(
      coordinator, grpc::InsecureChannelCredentials(), rpc::ControlPlaneArguments()));
  grpc::ClientContext context;
  v1::StatusReply reply;
  const grpc::Status status = stub->Status(&context, {}, &reply);
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("bench: the coordinator at ", coordinator, ": ", status.error_message()));
  }
  if (reply.shards_size() != 1) {
    return absl::FailedPreconditionError(absl::StrCat("bench: ", reply.shards_size(), " shards; expected one"));
  }
  const std::string& address = reply.shards(0).info().address();
  int port = 0;
  if (!absl::SimpleAtoi(absl::string_view(address).substr(address.rfind(':') + 1), &port)) {
    return absl::InternalError(absl::StrCat("bench: a shard at '", address, "'; expected HOST:PORT"));
  }
  return port;
}

}  // namespace paceline::bench
