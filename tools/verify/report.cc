#include "tools/verify/report.h"

#include "absl/strings/str_cat.h"

namespace paceline::verify {

std::string ToText(const Report& r) {
  std::string out;
  if (!r.violations.empty()) {
    const Violation& first = r.violations.front();
    absl::StrAppend(&out, "VIOLATION ", first.rule, ": ", first.file, ", byte ", first.offset, ": ",
                    first.why, "\n");
    if (r.violations_found > 1) absl::StrAppend(&out, r.violations_found - 1, " more violations\n");
  } else if (r.checked_nothing()) {
    absl::StrAppend(&out, "nothing was checked: no part, acknowledgement or certificate is in ", r.files,
                    " files\n");
  } else {
    absl::StrAppend(&out, "OK\n");
  }
  absl::StrAppend(&out, r.files, " files of ", r.clients, " clients and ", r.shards, " shards, ", r.events,
                  " events\n");
  absl::StrAppend(&out, r.segments, " segments, ", r.epochs, " epochs with a primary, ", r.records,
                  " records at their members\n");
  absl::StrAppend(&out, r.parts_logged, " parts in the logs, ", r.parts_void,
                  " in what did not survive a change of primary\n");
  absl::StrAppend(&out, r.parts_acknowledged, " parts acknowledged, ", r.unchecked_acknowledged,
                  " of them not checked\n");
  absl::StrAppend(&out, r.certificates, " certificates, ", r.unchecked_certificates,
                  " of them not compared with a log; ", r.cache_hits, " from caches\n");
  for (const std::string& missing : r.missing) absl::StrAppend(&out, "missing: ", missing, "\n");
  return out;
}

nlohmann::json ToJson(const Report& r) {
  nlohmann::json violations = nlohmann::json::array();
  for (const Violation& v : r.violations) {
    violations.push_back({{"rule", v.rule}, {"file", v.file}, {"offset", v.offset}, {"why", v.why}});
  }
  return {{"ok", r.violations.empty() && !r.checked_nothing()},
          {"violations_found", r.violations_found},
          {"violations", violations},
          {"missing", r.missing},
          {"files", r.files},
          {"clients", r.clients},
          {"shards", r.shards},
          {"events", r.events},
          {"segments", r.segments},
          {"epochs", r.epochs},
          {"records", r.records},
          {"parts_logged", r.parts_logged},
          {"parts_void", r.parts_void},
          {"parts_acknowledged", r.parts_acknowledged},
          {"unchecked_acknowledged", r.unchecked_acknowledged},
          {"certificates", r.certificates},
          {"unchecked_certificates", r.unchecked_certificates},
          {"cache_hits", r.cache_hits}};
}

}  // namespace paceline::verify
