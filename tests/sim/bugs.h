#pragma once

#include <array>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/base/planted.h"

namespace paceline::sim {

// A planted bug, by its name on the command line, and the invariant that it violates first: one "or" another.
struct NamedBug {
  Bug bug;
  absl::string_view name;
  absl::string_view invariant;
  uint64_t seed;  // the first seed that finds it; any change to the workload may change this
};

// Every bug of libs/base/planted.h, except for those that a few hundred seeds do not find
// (docs/simulation.md).
inline constexpr std::array kBugs = {
    NamedBug{Bug::kRetryAckedEarly, "retry_acked_early", "AckLogged", 1},
    NamedBug{Bug::kAckBeforeApply, "ack_before_apply", "AckLogged", 1},
    NamedBug{Bug::kGapAccepted, "gap_accepted", "NumberOrder or Sealed", 2},
    NamedBug{Bug::kDedupForgotten, "dedup_forgotten", "Once", 1},
    NamedBug{Bug::kSessionCollected, "session_collected", "Fenced", 2},
    NamedBug{Bug::kLateOpenAccepted, "late_open_accepted", "Fenced", 1},
    NamedBug{Bug::kJoinBelowMinClock, "join_below_min_clock", "Join", 2},
    NamedBug{Bug::kTickCountedEarly, "tick_counted_early", "Sealed", 1},
    NamedBug{Bug::kFinishedEarly, "finished_early", "Sealed", 1},
    NamedBug{Bug::kUnnamedSealed, "unnamed_sealed", "Sealed", 7},
    NamedBug{Bug::kServedEarly, "served_early", "ReadBound", 1},
    NamedBug{Bug::kOwnPartNotAwaited, "own_part_not_awaited", "OwnWrites", 1},
    NamedBug{Bug::kOwnPartNotNamed, "own_part_not_named", "OwnWrites", 1},
    NamedBug{Bug::kNumbersLostInMove, "numbers_lost_in_move", "AckLogged", 4},
    NamedBug{Bug::kStaleEpochServed, "stale_epoch_served",
             "InSync or LogMatching or OnePrimary or Completeness", 1},
    NamedBug{Bug::kNotSentAgain, "not_sent_again", "Progress", 2},
    NamedBug{Bug::kSealedShort, "sealed_short", "Sealed", 1},
    NamedBug{Bug::kFoldBeforeParts, "fold_before_parts", "Sealed", 1},
    NamedBug{Bug::kStagingOff, "staging_off", "ReadBound", 1},
    NamedBug{Bug::kOwnWriteMissingFromCache, "own_write_missing_from_cache", "OwnWrites", 2},
    NamedBug{Bug::kVoidVersionHandedOut, "void_version_handed_out", "VoidVersions", 33},
    NamedBug{Bug::kChangeNotTold, "change_not_told", "Once or ReadBound", 3},
    NamedBug{Bug::kDroppedTableResurrected, "dropped_table_resurrected", "Dropped", 29},
    NamedBug{Bug::kLateRatesAccepted, "late_rates_accepted", "Rates", 3},
    NamedBug{Bug::kRatesByArrival, "rates_by_arrival", "Rates", 4},
    NamedBug{Bug::kAckedBeforeReplicated, "acked_before_replicated", "InSync or Completeness or ReadBound",
             1},
    NamedBug{Bug::kAddedBeforeAwaited, "added_before_awaited", "InSync or Completeness or OnePrimary", 1},
    NamedBug{Bug::kLeaseOneSided, "lease_one_sided", "NoOverlap", 1},
    NamedBug{Bug::kFenceSkipped, "fence_skipped", "NoOverlap", 648},
    NamedBug{Bug::kRestartKeptInSync, "restart_kept_in_sync",
             "Completeness or LogMatching or Durable or Progress", 13},
    NamedBug{Bug::kDivergedSuffixKept, "diverged_suffix_kept", "LogMatching", 11},
    NamedBug{Bug::kStaleEpochAccepted, "stale_epoch_accepted",
             "Stranger or Stale or InSync or OnePrimary or LogMatching or NoOverlap or Progress", 1},
    NamedBug{Bug::kPageBeforeLog, "page_before_log", "Durable", 187},
    NamedBug{Bug::kPageAheadOfLog, "page_ahead_of_log", "Durable", 115},
    NamedBug{Bug::kLogCutEarly, "log_cut_early", "Cut", 5},
    NamedBug{Bug::kAckedBeforeSynced, "acked_before_synced", "Durable", 10},
    NamedBug{Bug::kCutCopiedLate, "cut_copied_late", "Cut", 40},
    NamedBug{Bug::kCutNotCommitted, "cut_not_committed", "Cut", 102},
    NamedBug{Bug::kCutTakenOver, "cut_taken_over", "Cut", 44},
    NamedBug{Bug::kRowNotPutAside, "row_not_put_aside", "Cut", 34},
    NamedBug{Bug::kPagesNotAwaited, "pages_not_awaited", "InSync", 17},
    NamedBug{Bug::kRecordsAmidImage, "records_amid_image", "InSync or Progress", 4},
    NamedBug{Bug::kFoldBySession, "fold_by_session", "Once", 20},
    NamedBug{Bug::kMeanOfPushers, "mean_of_pushers", "Once", 1},
    NamedBug{Bug::kCutLoggedLate, "cut_logged_late", "Cut", 133},
    NamedBug{Bug::kBaseNotAwaited, "base_not_awaited", "Durable", 10},
    NamedBug{Bug::kShownBeforeHeld, "shown_before_held", "AckLogged", 1},
    NamedBug{Bug::kReadWithoutLease, "read_without_lease", "NoOverlap", 353},
    NamedBug{Bug::kRepeatAckedEarly, "repeat_acked_early", "AckLogged", 4},
    NamedBug{Bug::kUnnamedFollowed, "unnamed_followed", "Stranger or LogMatching or OnePrimary", 1},
    NamedBug{Bug::kOldMapObeyed, "old_map_obeyed", "Stale", 3},
    NamedBug{Bug::kStaleWishGranted, "stale_wish_granted", "InSync or Completeness", 9},
    NamedBug{Bug::kTokenNotAsked, "token_not_asked", "Stranger or Once", 1},
    NamedBug{Bug::kDroppedBeforeSwap, "dropped_before_swap",
             "NoOverlap or OnePrimary or InSync or Completeness or LogMatching or Owned", 2},
    NamedBug{Bug::kDrainedEarly, "drained_early", "Progress or InSync or Completeness or Owned", 10},
    NamedBug{Bug::kLateDrainObeyed, "late_drain_obeyed", "Meant", 34},
    NamedBug{Bug::kOldCopyServed, "old_copy_served", "NoOverlap or OnePrimary or LogMatching or Completeness",
             5},
    NamedBug{Bug::kDeleteByName, "delete_by_name", "Meant", 3},
    NamedBug{Bug::kGrantForgotten, "grant_forgotten", "Progress", 24},
    NamedBug{Bug::kGrantsAddedUp, "grants_added_up", "Bounded", 1},
    NamedBug{Bug::kChangeOutOfNumber, "change_out_of_number", "ChangeOrder", 6},
    NamedBug{Bug::kFloorForgotten, "floor_forgotten", "ChangeOrder", 10},
    NamedBug{Bug::kDeposedObeyed, "deposed_obeyed", "Stale", 112},
    NamedBug{Bug::kDeltaOnWrongBase, "delta_on_wrong_base", "Owned", 1},
    NamedBug{Bug::kLoadMovesEarly, "load_moves_early", "ByLoad", 26},
    NamedBug{Bug::kLoadMovesAgain, "load_moves_again", "ByLoad", 15},
    NamedBug{Bug::kLoadNotAwaited, "load_not_awaited", "ByLoad", 1},
    NamedBug{Bug::kWorkHandedEarly, "work_handed_early", "Work", 1441},
    NamedBug{Bug::kUpdateBeforeCommit, "update_before_commit", "Told or VoidVersions", 16},
    NamedBug{Bug::kUpdateClockTooNew, "update_clock_too_new", "Told or ReadBound", 13},
    NamedBug{Bug::kUpdateOverGap, "update_over_gap", "Once or ReadBound or OwnWrites", 54},
    NamedBug{Bug::kOverflowNotTold, "overflow_not_told", "Once or ReadBound", 54},
    NamedBug{Bug::kSlicesOfTwoEpochs, "slices_of_two_epochs", "Once", 4},
    NamedBug{Bug::kSeenUnconfirmed, "seen_unconfirmed", "ValueBound", 4},
    NamedBug{Bug::kOlderHandedOut, "older_handed_out", "ValueBound", 27},
    NamedBug{Bug::kSeenWhenCommitted, "seen_when_committed", "ValueBound", 4},
    NamedBug{Bug::kWorkMarkedEarly, "work_marked_early", "Work", 9},
    NamedBug{Bug::kWorkOutOfOrder, "work_out_of_order", "Work", 74},
    NamedBug{Bug::kLeftOutCalledFresh, "left_out_called_fresh", "Once or ReadBound", 117},
    NamedBug{Bug::kBoundToldEarly, "bound_told_early", "Bound or Rates", 94},
    NamedBug{Bug::kLargerBoundKept, "larger_bound_kept", "Bound", 6},
    NamedBug{Bug::kOldRatesInCache, "old_rates_in_cache", "Rates", 889},
    NamedBug{Bug::kNumberedTwice, "numbered_twice", "Once or NumberOrder", 26},
    NamedBug{Bug::kTickBeforeNumbers, "tick_before_numbers", "Progress or Sealed", 24},
    NamedBug{Bug::kHeldNotFlushed, "held_not_flushed", "Held", 2},
    NamedBug{Bug::kFilteredTwice, "filtered_twice", "Once", 10},
    NamedBug{Bug::kListByChecksum, "list_by_checksum", "Progress or Once", 1},
    NamedBug{Bug::kLentNotAwaited, "lent_not_awaited", "Once", 4},
    NamedBug{Bug::kLentNeverBroken, "lent_never_broken", "Progress", 592},
    NamedBug{Bug::kListsOutliveStream, "lists_outlive_stream", "Wire", 5},
};

}  // namespace paceline::sim
