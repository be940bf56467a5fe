#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "paceline/v1/types.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/jobs/bound_policy.h"
#include "services/coordinator/metadata/jobs/job_changes.h"
#include "services/coordinator/metadata/sessions/sessions.h"

namespace paceline::coordinator {

// The bounds of the tables that workers read by a bound that follows their waiting: gives each table's policy
// what its job's workers have told, and has its choice agreed. The bounds are facts; what policies have
// learned is soft, and a coordinator that begins to lead goes on from the bound in force.
class Bounds {
 public:
  Bounds(Context& context, Sessions& sessions, JobChanges& changes)
      : context_(context), sessions_(sessions), changes_(changes) {}

  void OnTime();

  // Of each such table.
  struct Gauge {
    uint32_t job = 0;
    std::string job_name;
    std::string table;
    uint32_t bound = 0;
  };
  std::vector<Gauge> gauges() const;

 private:
  // Of every worker at work; empty: one of them has told nothing yet.
  std::vector<BoundPolicy::Waits> WaitsOf(const v1::Table& table) const;

  Context& context_;
  Sessions& sessions_;
  JobChanges& changes_;
  std::map<uint32_t, BoundPolicy> policies_;  // by table
};

}  // namespace paceline::coordinator
