#include "tools/paceline/status.h"

#include <google/protobuf/util/json_util.h>

#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/defaults.h"
#include "tools/paceline/status_text.h"

namespace paceline::tool {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);

std::string Json(const v1::StatusReply& reply) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails for messages of unknown types only.
  (void)google::protobuf::util::MessageToJsonString(reply, &json, options);
  return json;
}

std::string WhyNot(const absl::Status& status, const std::string& coordinator) {
  if (absl::IsUnavailable(status)) {
    return absl::StrCat("no coordinator answers at ", coordinator, " (", status.message(),
                        "); name another with --coordinator or ", kCoordinatorVariable,
                        ", or start a cluster with `paceline up`");
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::StrCat(coordinator, " gave no answer within ", absl::FormatDuration(kTimeout));
  }
  return absl::StrCat(coordinator, " answers: ", status.message());
}

}  // namespace

CLI::App* AddStatus(CLI::App& app, StatusOptions& options) {
  options.coordinator = absl::StrCat("127.0.0.1:", kCoordinatorPort);
  CLI::App* status = app.add_subcommand(
      "status", "Show a cluster's shards, jobs and tables, and what is wrong with what to do");
  status->add_option("--coordinator", options.coordinator, "The cluster's coordinator")
      ->type_name("HOST:PORT")
      ->envname(kCoordinatorVariable)
      ->capture_default_str();
  status->add_flag("--json", options.json, "As JSON: StatusReply of proto/paceline/v1/coordinator.proto");
  return status;
}

int PrintStatus(const StatusOptions& options) {
  const absl::StatusOr<v1::StatusReply> reply = Coordinator(options.coordinator).Status(kTimeout);
  if (!reply.ok()) {
    std::fputs(absl::StrCat("paceline: ", WhyNot(reply.status(), options.coordinator), "\n").c_str(), stderr);
    return 1;
  }
  std::fputs((options.json ? Json(*reply) : StatusText(*reply, options.coordinator)).c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace paceline::tool
