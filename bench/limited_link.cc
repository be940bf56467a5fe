#include "bench/limited_link.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::bench {
namespace {

constexpr char kNear[] = "10.9.0.1";
constexpr char kFar[] = "10.9.0.2";
// Otherwise megabytes wait in sockets, where nothing overtakes them (docs/priorities.md).
constexpr char kShortQueues[] = "echo 65536 > /proc/sys/net/ipv4/tcp_notsent_lowat";

// `command` is one of this file's own.
absl::Status RunCommand(const std::string& command) {
  if (std::system(absl::StrCat("{ ", command, "; } >/dev/null 2>&1").c_str()) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("a limited link needs what fails here: ", command));
}

// A network namespace of its own for this thread. Its descriptor keeps the namespace alive.
absl::StatusOr<int> EnterNamespace() {
  const int file = unshare(CLONE_NEWNET) == 0 ? open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC) : -1;
  if (file >= 0) return file;
  return absl::FailedPreconditionError(
      absl::StrCat("a limited link needs a network namespace: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<LimitedLink> EnterLimitedLink(double bytes_per_second) {
  if (geteuid() != 0) return absl::FailedPreconditionError("a limited link needs root");
  for (const char* program : {"ip", "tc", "nsenter"}) {
    if (RunCommand(absl::StrCat("command -v ", program)).ok()) continue;
    return absl::FailedPreconditionError(absl::StrCat("a limited link needs the program ", program));
  }
  ABSL_ASSIGN_OR_RETURN(const int near, EnterNamespace());
  ABSL_ASSIGN_OR_RETURN(const int far, EnterNamespace());
  if (setns(near, CLONE_NEWNET) != 0) {
    return absl::InternalError(absl::StrCat("a network namespace cannot be entered: ", std::strerror(errno)));
  }
  const std::string beyond = absl::StrCat("/proc/", getpid(), "/fd/", far);
  const std::string bucket = absl::StrCat("root tbf rate ", static_cast<uint64_t>(bytes_per_second * 8),
                                          "bit burst 128kb limit 512kb");
  for (const std::string& command :
       {std::string("ip link set lo up && ip link add near mtu 1500 type veth peer name far"),
        absl::StrCat("ip link set far netns ", beyond),
        absl::StrCat("ip addr add ", kNear, "/24 dev near && ip link set near up && ", kShortQueues),
        absl::StrCat("nsenter --net=", beyond, " sh -c 'ip link set lo up && ip addr add ", kFar,
                     "/24 dev far && ip link set far up && ", kShortQueues, "'"),
        absl::StrCat("tc qdisc add dev near ", bucket),
        absl::StrCat("nsenter --net=", beyond, " tc qdisc add dev far ", bucket)}) {
    ABSL_RETURN_IF_ERROR(RunCommand(command));
  }
  return LimitedLink{
      .near = kNear, .far = kFar, .command = {"nsenter", absl::StrCat("--net=", beyond), "--"}};
}

}  // namespace paceline::bench
