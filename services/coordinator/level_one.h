#pragma once

#include "paceline/v1/control.pb.h"

// The calls of feature level 1, by which a shard of an older release makes the coordinator's changes.
namespace paceline::coordinator {

// True if it is a call about a session at level 1, and not one about a job.
bool IsOfSession(const v1::Change& change);
// REQUIRES: it is what the name says. Terms, numbers and floors are left out, since level 1 has none.
v1::SessionChange ToSessionChange(const v1::Change& change);
v1::JobChange ToJobChange(const v1::Change& change);
v1::ChangeReply FromLevelOne(const v1::SessionChangeReply& reply);
v1::ChangeReply FromLevelOne(const v1::JobChangeReply& reply);

}  // namespace paceline::coordinator
