#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace paceline::verify {

// Where a finding is: a file, and the byte in it at which the event begins.
struct Place {
  uint32_t file = 0;
  uint64_t offset = 0;
};

// A broken rule.
struct Violation {
  std::string rule;  // by the name that docs/record.md explains
  std::string file;
  uint64_t offset = 0;
  std::string why;
};

// The findings of a verification.
struct Report {
  // -- counts of checks --
  uint64_t files = 0;
  uint64_t clients = 0;
  uint64_t shards = 0;  // starts of one
  uint64_t events = 0;
  uint64_t records = 0;       // in logs, counted at each member
  uint64_t segments = 0;      // with a log
  uint64_t epochs = 0;        // of segments, with a primary that is known
  uint64_t parts_logged = 0;  // in the logs that survived
  uint64_t parts_void = 0;    // in records that did not survive a change of primary
  uint64_t parts_acknowledged = 0;
  uint64_t certificates = 0;
  uint64_t cache_hits = 0;  // rows of one certificate count once
  // -- what could not be checked, because the necessary events are in no file --
  uint64_t unchecked_acknowledged = 0;
  uint64_t unchecked_certificates = 0;
  std::vector<std::string> missing;  // in words: files that end early, gaps

  std::vector<Violation> violations;  // at most kViolationsMax, as they were found
  uint64_t violations_found = 0;      // all of them
  static constexpr size_t kViolationsMax = 100;

  bool checked_nothing() const {
    return parts_logged + parts_acknowledged - unchecked_acknowledged + certificates + cache_hits == 0;
  }
};

// As text: the first violation, or the counts of checks; and the missing files.
std::string ToText(const Report& report);
nlohmann::json ToJson(const Report& report);

}  // namespace paceline::verify
