#include "tools/paceline/status.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/json.h"
#include "tools/paceline/say.h"
#include "tools/paceline/status_text.h"

namespace paceline::tool {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);

std::string NoAnswer(const absl::Status& status, const std::string& coordinator) {
  if (!absl::IsDeadlineExceeded(status)) return WhyNot(status, coordinator);
  return absl::StrCat(coordinator, " gave no answer within ", absl::FormatDuration(kTimeout));
}

}  // namespace

CLI::App* AddStatus(CLI::App& app, StatusOptions& options) {
  CLI::App* status = app.add_subcommand(
      "status", "Show a cluster's shards, jobs and tables, and each problem with its remedy");
  AddCoordinatorOption(*status, options.coordinator);
  status->add_flag("--json", options.json, "As JSON: StatusReply of proto/paceline/v1/coordinator.proto");
  status->add_flag("--check", options.check,
                   "Exit with 1 if there are problems, or if the coordinator does not answer");
  return status;
}

int PrintStatus(const StatusOptions& options) {
  const absl::StatusOr<v1::StatusReply> reply = Coordinator(options.coordinator).Status(kTimeout);
  if (!reply.ok()) {
    return Complain(NoAnswer(reply.status(), options.coordinator));
  }
  if (Print(options.json ? Json(*reply) : StatusText(*reply, options.coordinator)) != 0) return 1;
  const bool well = reply->problems().empty() && !reply->standby();  // which knows nothing of the cluster
  return options.check && !well ? 1 : 0;
}

}  // namespace paceline::tool
