#include "sdk/cpp/src/complete_options.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/status.h"
#include "libs/rpc/coordinators.h"
#include "sdk/cpp/src/session/routes.h"

namespace paceline::sdk {
namespace {

std::string Environment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

void SayOnStandardError(const std::string& text) {
  std::fputs(absl::StrCat("paceline: ", text, "\n").c_str(), stderr);
}

absl::Status CheckTimes(const ClientOptions& options) {
  for (const auto& [name, time] :
       {std::pair("timeout", options.timeout), std::pair("start_timeout", options.start_timeout),
        std::pair("retry.initial_backoff", options.retry.initial_backoff),
        std::pair("retry.max_backoff", options.retry.max_backoff)}) {
    if (time > absl::ZeroDuration()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", absl::FormatDuration(time), "; expected more than 0"));
  }
  if (options.retry.max_backoff >= options.retry.initial_backoff) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("retry.max_backoff: ", absl::FormatDuration(options.retry.max_backoff),
                   "; expected no less than retry.initial_backoff, which is ",
                   absl::FormatDuration(options.retry.initial_backoff)));
}

absl::Status CheckRank(const ClientOptions& options) {
  if (!options.rank.has_value() || *options.rank < options.workers) return absl::OkStatus();
  if (options.workers == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank: ", *options.rank, " for a client without a clock; set ClientOptions::workers too"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rank: ", *options.rank, "; expected less than workers, ", options.workers));
}

}  // namespace

absl::StatusOr<ClientOptions> CompleteOptions(ClientOptions options) {
  if (!options.on_notice) options.on_notice = SayOnStandardError;
  if (options.coordinator.empty()) options.coordinator = Environment("PACELINE_COORDINATOR");
  if (options.record.empty()) options.record = Environment("PACELINE_RECORD");
  if (options.socket_dir.empty()) options.socket_dir = Environment("PACELINE_SOCKET_DIR");
  if (!options.direct_streams.has_value()) {
    options.direct_streams = Environment("PACELINE_DIRECT_STREAMS") != "0";
  }
  if (options.coordinator.empty()) {
    return absl::InvalidArgumentError(
        "coordinator: not given; set ClientOptions::coordinator or PACELINE_COORDINATOR to host:port");
  }
  ABSL_RETURN_IF_ERROR(rpc::CheckCoordinators(options.coordinator));
  ABSL_RETURN_IF_ERROR(CheckTimes(options));
  ABSL_RETURN_IF_ERROR(CheckRank(options));
  if (options.unacknowledged_bytes_max == 0) {
    return absl::InvalidArgumentError(
        "unacknowledged_bytes_max: 0; expected room for at least one push, as 64 MiB");
  }
  constexpr uint64_t kSliceBytesMin = 4096;
  if (options.slice_bytes < kSliceBytesMin || options.slice_bytes > kFrameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("slice_bytes: ", options.slice_bytes, "; expected ",
                                                   kSliceBytesMin, " to ", kFrameBytes));
  }
  if (options.job.empty()) {
    return absl::InvalidArgumentError("job: empty; set ClientOptions::job to the job's name");
  }
  if (options.client_name.empty()) {
    char host[256] = "unknown";
    gethostname(host, sizeof(host) - 1);
    options.client_name = absl::StrCat(host, ":", getpid());
  }
  return options;
}

}  // namespace paceline::sdk
