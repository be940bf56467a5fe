// The command line of Paceline. `paceline --help` says how to use it.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"
#include "libs/base/version.h"
#include "services/coordinator/metadata/facts/options.h"
#include "tools/paceline/admin.h"
#include "tools/paceline/command_line.h"
#include "tools/paceline/defaults.h"
#include "tools/paceline/explain.h"
#include "tools/paceline/health.h"
#include "tools/paceline/reduce.h"
#include "tools/paceline/rows.h"
#include "tools/paceline/say.h"
#include "tools/paceline/snapshot.h"
#include "tools/paceline/status.h"
#include "tools/paceline/top.h"
#include "tools/paceline/up.h"
#include "tools/paceline/verify.h"

namespace paceline::tool {
namespace {

int Main(std::vector<std::string> arguments) {
  UpOptions up_options;
  StatusOptions status_options;
  TopOptions top_options;
  AdminOptions admin_options;
  SnapshotOptions snapshot_options;
  VerifyOptions verify_options;
  HealthOptions health_options;
  ExplainOptions explain_options;
  RowsOptions rows_options;
  ReduceCommand reduce_command;
  CLI::App app("Runs and inspects Paceline, a parameter server.", "paceline");
  app.set_version_flag(
      "--version", absl::StrCat("paceline ", std::string(kVersion), " (feature level ", kFeatureLevel, ")"));
  app.require_subcommand(0, 1);
  CLI::App* up = AddUp(app, up_options);
  CLI::App* status = AddStatus(app, status_options);
  CLI::App* explain = AddExplain(app, explain_options);
  CLI::App* top = AddTop(app, top_options);
  AddAdmin(app, admin_options);
  CLI::App* pull = AddPull(app, rows_options);
  CLI::App* push = AddPush(app, rows_options);
  CLI::App* reduce = AddReduce(app, reduce_command);
  AddSnapshot(app, snapshot_options);
  CLI::App* verify = AddVerify(app, verify_options);
  CLI::App* health = AddHealth(app, health_options);
  CLI::App* completion = AddCompletion(app);

  // The command line after `--` is another program's: the parser must not see it.
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes != arguments.end()) up_options.command.assign(dashes + 1, arguments.end());
  const bool no_command = dashes != arguments.end() && up_options.command.empty();
  arguments.erase(dashes, arguments.end());
  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  try {
    app.parse(arguments);
    if (no_command) throw CLI::ArgumentMismatch("--: no COMMAND follows it");
    if (!up->parsed() && !up_options.command.empty()) throw CLI::ExtrasError({"--"});
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) == 0) return 0;
    if (const std::string meant = DidYouMean(app); !meant.empty()) (void)Complain(meant);
    return kUsageError;
  }
  if (up->parsed()) return Up(up_options);
  if (status->parsed()) return PrintStatus(status_options);
  if (top->parsed()) return Top(top_options);
  if (verify->parsed()) return Verify(verify_options);
  if (health->parsed()) return Health(health_options);
  if (explain->parsed()) return PrintExplanation(explain_options);
  if (pull->parsed()) return PullRows(rows_options);
  if (push->parsed()) return PushRow(rows_options);
  if (reduce->parsed()) return ReduceTable(reduce_command);
  if (completion->parsed()) return Print(BashCompletion(app));
  if (const SnapshotCommand command = ParsedSnapshot(app)) return command(snapshot_options);
  if (const Command admin = ParsedAdmin(app)) return admin(admin_options);
  std::fputs(app.help().c_str(), stderr);
  return kUsageError;
}

}  // namespace
}  // namespace paceline::tool

int main(int argc, char** argv) {
  return paceline::tool::Main({argv + 1, argv + argc});
}
