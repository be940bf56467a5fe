#pragma once

#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/jobs/job_changes.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/placement/drains.h"
#include "services/coordinator/metadata/placement/moves.h"
#include "services/coordinator/metadata/sessions/sessions.h"
#include "services/coordinator/metadata/sessions/workers.h"

namespace paceline::coordinator {

// The name of a state as people see it: "opening", "worker".
std::string StateName(SessionRecord::State state);

// Adds the problems of the cluster to `reply`, one sentence each: those that StatusOf names.
void AddProblems(const Context& context, const Membership& membership, const FanOuts& fan_outs,
                 const Workers& workers, const JobChanges& job_changes, const Moves& moves,
                 const Drains& drains, v1::StatusReply& reply);

// The state of the whole cluster, for people and tools. O(everything).
v1::StatusReply StatusOf(const Context& context, const Membership& membership, const Sessions& sessions,
                         const FanOuts& fan_outs, const Workers& workers, const JobChanges& job_changes,
                         const Moves& moves, const Drains& drains);

}  // namespace paceline::coordinator
