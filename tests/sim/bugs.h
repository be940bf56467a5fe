#pragma once

#include <array>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/base/planted.h"

namespace paceline::sim {

// A bug as it is named on the command line, and what it breaks first.
struct NamedBug {
  Bug bug;
  absl::string_view name;
  absl::string_view invariant;
};

// Every bug of libs/base/planted.h.
inline constexpr std::array kBugs = {
    NamedBug{Bug::kRetryAckedEarly, "retry_acked_early", "AckLogged"},
    NamedBug{Bug::kAckBeforeApply, "ack_before_apply", "AckLogged"},
    NamedBug{Bug::kGapAccepted, "gap_accepted", "NumberOrder"},
    NamedBug{Bug::kDedupForgotten, "dedup_forgotten", "Once"},
    NamedBug{Bug::kSessionCollected, "session_collected", "Fenced"},
    NamedBug{Bug::kLateOpenAccepted, "late_open_accepted", "Fenced"},
    NamedBug{Bug::kLateJoinAccepted, "late_join_accepted", "Join"},
    NamedBug{Bug::kJoinBelowMinClock, "join_below_min_clock", "Join"},
    NamedBug{Bug::kTickCountedEarly, "tick_counted_early", "Sealed"},
    NamedBug{Bug::kFinishedEarly, "finished_early", "Sealed"},
    NamedBug{Bug::kUnnamedSealed, "unnamed_sealed", "Sealed"},
    NamedBug{Bug::kServedEarly, "served_early", "ReadBound"},
    NamedBug{Bug::kOwnPartNotAwaited, "own_part_not_awaited", "OwnWrites"},
    NamedBug{Bug::kOwnPartNotNamed, "own_part_not_named", "OwnWrites"},
    NamedBug{Bug::kNumbersLostInMove, "numbers_lost_in_move", "AckLogged"},
    NamedBug{Bug::kStaleEpochServed, "stale_epoch_served", "OnePrimary"},
    NamedBug{Bug::kNotSentAgain, "not_sent_again", "Progress"},
    NamedBug{Bug::kSealedShort, "sealed_short", "Sealed"},
};

}  // namespace paceline::sim
