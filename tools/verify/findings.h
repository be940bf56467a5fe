#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/verify/report.h"

namespace paceline::verify {

// The growing report, and the names of the files.
class Findings {
 public:
  uint32_t AddFile(std::string name) {
    files_.push_back(std::move(name));
    ++report.files;
    return static_cast<uint32_t>(files_.size() - 1);
  }
  const std::string& NameOf(uint32_t file) const { return files_[file]; }

  void Violate(absl::string_view rule, Place place, std::string why) {
    ++report.violations_found;
    if (report.violations.size() == Report::kViolationsMax) return;
    report.violations.push_back({.rule = std::string(rule),
                                 .file = files_[place.file],
                                 .offset = place.offset,
                                 .why = std::move(why)});
  }
  void Miss(std::string what) { report.missing.push_back(std::move(what)); }

  Report report;

 private:
  std::vector<std::string> files_;
};

}  // namespace paceline::verify
