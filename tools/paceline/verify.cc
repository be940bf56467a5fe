#include "tools/paceline/verify.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "tools/paceline/say.h"
#include "tools/verify/verifier.h"

namespace paceline::tool {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& name) {
  std::ifstream file(name, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(absl::StrCat(name, ": there is no such file, or it cannot be read"));
  std::string bytes(static_cast<size_t>(file.tellg()), '\0');
  file.seekg(0);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    return absl::UnavailableError(absl::StrCat(name, ": cannot be read"));
  }
  return bytes;
}

}  // namespace

CLI::App* AddVerify(CLI::App& app, VerifyOptions& options) {
  CLI::App* verify = app.add_subcommand(
      "verify", "Prove from history files that no update was lost or doubled, and no read too old");
  verify->footer(
      "Shards and clients write history files with --record or PACELINE_RECORD. Name those of all shards and "
      "clients of a cluster:\nmissing ones are named, and not guessed. Exits with 1 if there was a "
      "violation, naming the first, or nothing to check.");
  verify->add_option("FILE", options.files, "History files")->required();
  verify->add_option("--json", options.json, "Write the report to this file");
  return verify;
}

absl::StatusOr<verify::Report> VerifyFiles(const std::vector<std::string>& files) {
  verify::Verifier verifier;
  for (const std::string& name : files) {
    ABSL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(name));
    verifier.AddFile(name, bytes);
  }
  return verifier.Finish();
}

int Verify(const VerifyOptions& options) {
  const absl::StatusOr<verify::Report> report = VerifyFiles(options.files);
  if (!report.ok()) {
    return Complain(absl::StrCat("verify: ", report.status().message()));
  }
  (void)Print(verify::ToText(*report));
  if (!options.json.empty() && !(std::ofstream(options.json) << verify::ToJson(*report).dump(2) << "\n")) {
    return Complain(absl::StrCat("verify: cannot write ", options.json));
  }
  return report->violations.empty() && !report->checked_nothing() ? 0 : 1;
}

}  // namespace paceline::tool
