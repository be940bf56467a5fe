#include "services/shard/segment/segment_role.h"

namespace paceline::shard {
namespace {

bool Follows(Standing standing) {
  return standing.role != Role::kPrimary &&
         (standing.holds == Holds::kPart || standing.holds == Holds::kWhole);
}

Step NamedPrimary(Standing standing) {
  if (standing.role == Role::kPrimary) return {Role::kPrimary, {Action::kBeginEpoch}};
  switch (standing.holds) {
    case Holds::kNothing:
      return {Role::kPrimary, {Action::kBeginFirst}};
    case Holds::kWhole:
      return {Role::kPrimary, {Action::kTakeOver}};
    case Holds::kNoMore:
    case Holds::kPart:
      break;
  }
  return {Role::kLost, {Action::kTellLostHere}};
}

Step NamedReplica(Standing standing, Action follow) {
  if (standing.role == Role::kPrimary) return {Role::kReplica, {Action::kStepDown, Action::kCount}};
  if (Follows(standing)) return {Role::kReplica, {Action::kCount}};
  return {Role::kReplica, {follow, Action::kCount}};
}

Step LeftOut(Standing standing, bool to_earlier_start) {
  if (standing.role == Role::kPrimary) return {Role::kLearner, {Action::kStepDown, Action::kLeaveOut}};
  if (Follows(standing)) return {Role::kLearner, {Action::kLeaveOut}};
  if (to_earlier_start) return {Role::kLost, {Action::kTellLostBefore}};
  return {Role::kElsewhere, {Action::kPointAway}};
}

}  // namespace

Step Next(Standing standing, Event event) {
  const Step as_before{standing.role, {}};
  switch (event) {
    case Event::kRestored:
      if (standing.role != Role::kElsewhere) return as_before;
      return {Role::kLearner, {Action::kRestore}};
    case Event::kNamedPrimary:
      return NamedPrimary(standing);
    case Event::kEmptied:
      return {Role::kPrimary, {Action::kBeginEmpty}};
    case Event::kNamedReplica:
      return NamedReplica(standing, Action::kFollow);
    case Event::kNamedFirstReplica:
      return NamedReplica(standing, Action::kFollowEmpty);
    case Event::kLeftOut:
      return LeftOut(standing, /*to_earlier_start=*/false);
    case Event::kLeftToEarlierStarts:
      return LeftOut(standing, /*to_earlier_start=*/true);
    case Event::kFrame:
      if (Follows(standing)) return as_before;
      return {Role::kLearner, {Action::kFollow}};
    case Event::kOutstayed:
      if (standing.role != Role::kLearner) return as_before;
      return {Role::kElsewhere, {Action::kDrop}};
  }
  return as_before;
}

}  // namespace paceline::shard
