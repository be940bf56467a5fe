#pragma once

#include <atomic>
#include <cstdint>

// Bugs that a test plants to see that the simulator finds them (docs/simulation.md). Each is one line in the
// core that breaks one rule of the protocol while its switch is on. Nothing but tests turns a switch on; off,
// it costs the read of a word that never changes.
namespace paceline {

enum class Bug : uint8_t {
  kNone,
  kRetryAckedEarly,    // a part that comes out of order is acknowledged before its record exists
  kAckBeforeApply,     // a part is acknowledged before its content has been judged
  kGapAccepted,        // a number is taken though the one before it is missing
  kDedupForgotten,     // a repeated part is applied again
  kSessionCollected,   // a session is dropped when another one opens, though its client lives
  kLateOpenAccepted,   // a closed session is opened again by a late call
  kLateJoinAccepted,   // a worker that has finished is made one again by a late call
  kJoinBelowMinClock,  // a worker joins at a clock that is passed already
  kTickCountedEarly,   // a tick counts before the parts it is sealed with are applied
  kFinishedEarly,      // the last tick comes before its parts, and counts
  kUnnamedSealed,      // a tick speaks for a segment that its stream did not name
  kServedEarly,        // a read is served below the min clock it asks for
  kOwnPartNotAwaited,  // a read is served before the reader's own part is applied
  kOwnPartNotNamed,    // the client does not name its own parts in a read
  kNumbersLostInMove,  // a segment moves without its sessions' numbers
  kStaleEpochServed,   // a shard serves an epoch again that it has given up
  kNotSentAgain,       // the client does not send again the frames that were under way on a stream that broke
  kSealedShort,        // the client seals a tick with the parts of the clock before
  kFoldBeforeParts,    // a fold does not wait for the parts of aggregated tables that a tick was sealed with
  kStagingOff,         // parts of aggregated tables are applied on arrival
  kDroppedTableResurrected,   // a table that was dropped is opened again by a late part or read
  kLateRatesAccepted,         // new rates begin at a clock of which there are updates already
  kRatesByArrival,            // an update is applied with the newest rates, whatever its clock
  kOwnWriteMissingFromCache,  // a push does not reach the row that the client has cached
  kAckedBeforeReplicated,     // a record counts as committed before its replicas hold it
  kAddedBeforeAwaited,        // a learner is added that the primary does not wait for yet
  kLeaseOneSided,             // the primary counts on a longer lease than the replica was told of
  kFenceSkipped,              // a replica that was fenced still follows the old primary
  kVoidVersionHandedOut,      // a cached row is handed out though a later epoch began before its version
  kRestartKeptInSync,         // a shard that starts again is taken for the one that it was
  kDivergedSuffixKept,        // a member whose log has diverged goes on from where it stands
  kStaleEpochAccepted,        // records and beacons of an earlier epoch are taken
  kChangeNotTold,             // a reader that asks what has changed is not told of some rows
  kPageBeforeLog,             // pages go to the disk before the records that they hold
  kPageAheadOfLog,            // a page on disk holds more records than its version says
  kLogCutEarly,               // the disk's log is cut before the base that replaces the records
  kAckedBeforeSynced,         // a batch that was written to a disk counts as safe before it is synced
  kCutCopiedLate,             // the rows of a cut are copied when they are asked for, not when it is logged
  kCutNotCommitted,           // the rows of a cut are written though its record is not committed
  kCutTakenOver,              // a shard that was not primary at a cut gives out its own rows for it
  kRowNotPutAside,            // a row that is changed while a copy is made is copied as it is then
  kEarlierAnswerCounts,       // an answer to an earlier exchange is taken for one to this
  kPagesNotAwaited,           // a learner says that it holds an image, and counts, before all pages are there
  kRecordsAmidImage,          // records are taken, and said to be held, before the image is whole
  kFoldBySession,             // a fold adds up workers by their sessions, not by their ranks
  kMeanOfPushers,             // a mean divides by the workers that pushed, not by the members of the clock
  kCutLoggedLate,             // a cut is logged though its clock is passed
  kBaseNotAwaited,            // records on a disk count before the base that they continue
  kEarlierLifeCounts,         // batches synced before a disk's copy was given up count for the next copy
  kSwapForgotten,             // a hand-over that is not answered is given up, and the primary goes on
  kStaleWishGranted,          // a wish to replace an earlier configuration is granted
  kRepeatAckedEarly,          // a part that is there already is acknowledged before it is replicated
  kReadWithoutLease,          // a read is answered though another member may have taken over
  kUnnamedFollowed,           // a member follows any shard that claims to be primary of a newer epoch
  kTokenNotAsked,             // a caller that names a session is taken for its owner
  kImageToMember,             // a diverged member makes room for an image while it counts as a replica
  kOldMapObeyed,              // a shard obeys a coordinator that goes by an older map than its own
  kWorkHandedEarly,           // work of a session is handed out again before it is closed everywhere
  kWorkMarkedEarly,           // a client reports work as done though its updates are not committed
  kDroppedBeforeSwap,         // a segment's primary is dropped as planned before it has handed over
  kDrainedEarly,              // a shard that drains may go while its last segments are still being copied
  kOldCopyServed,             // a start serves its disk's copy of a segment that has moved away since
  kDeleteByName,              // a repeated deletion is taken for one of the job that has the name by then
  kGrantForgotten,            // a stream that had to wait for a grant gets none when there is room again
  kGrantsAddedUp,             // the client adds up grants, each of which counts from the stream's beginning
  kChangeOutOfNumber,    // a call of the coordinator is obeyed though a newer change of its subject has begun
  kFloorForgotten,       // a segment that began empty forgets, with its primary, which calls are of before
  kDeltaOnWrongBase,     // who has missed maps is sent what the last one has changed, as if that were all
  kDeposedObeyed,        // a shard obeys a coordinator though it knows of a later one
  kUpdateBeforeCommit,   // an update of a subscriber's rows leaves before its version is committed
  kUpdateClockTooNew,    // … names the min clock of the moment at which it leaves
  kUpdateOverGap,        // a subscriber applies an update that does not follow the one before
  kOverflowNotTold,      // a subscriber is not told that what has changed is not known
  kLoadMovesEarly,       // segments move by load while a drain goes on or copies are missing
  kLoadMovesAgain,       // a segment that has just moved by load does not rest
  kLoadNotAwaited,       // segments move by load before all their primaries have told it
  kLateHostBeginsEmpty,  // a host that is made late takes a map that names it for the first one, and begins
                         // empty
  kLateDrainObeyed,      // a request to drain, or to cancel that, is obeyed though a later one was taken
  kBoundToldEarly,       // clients are told of rates and bounds that not every segment has logged
  kLargerBoundKept,    // a worker reads by the largest bound that it knows, though a smaller one is in force
  kOldRatesInCache,    // cached rows keep own pushes that were applied at rates that have changed since
  kSlicesOfTwoEpochs,  // a reduction that begins anew at another primary keeps the slices that it had
  kSeenUnconfirmed,    // an update counts as seen by all before all have confirmed it
  kSeenAfterTakeover,  // … before the readers of the primary before have stopped to hand out its values
  kOlderHandedOut,     // a client hands out a value that is older than the round it has confirmed
  kLeaseOutlived,      // … though it may have been forgotten
  kSeenWhenCommitted,  // a push no longer counts against its bound once it is committed
  kWorkOutOfOrder,  // an item is handed out though that of the same examples in the pass before is not done
  kLeftOutCalledFresh,  // a row left out of an update for its budget is not told as left out
  kNumberedTwice,       // a part that was sent gets a second number after its stream has broken
  kTickBeforeNumbers,   // a tick leaves while a part of its clock has no number
  kHeldNotFlushed,      // a flush, or a last tick, leaves behind what filters hold back
  kFilteredTwice,       // what is sent again goes through its filter again
  kListByChecksum,      // a list of keys is taken for another one of the same checksum
  kShownBeforeHeld,     // a primary that takes over serves reads before it knows what the other members hold
  kLentNotAwaited,      // a caller gets back values that it has lent while a frame still shares them
  kLentNeverBroken,     // a stream that may read lent values is not broken when their owner wants them back
  kListsOutliveStream,  // lists of keys that an earlier stream has carried are named on the next
};

inline constinit std::atomic<Bug> planted_bug{Bug::kNone};

inline bool Planted(Bug bug) {
  return planted_bug.load(std::memory_order_relaxed) == bug;
}

}  // namespace paceline
