#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"

// What a shard is to a segment, and what becomes of that, whatever happens: a pure function. SegmentHost does
// what it says. This is its outline; segment_role_test.cc has all cases, with what is done in each.
//
//                          Elsewhere      Primary        Replica, Learner     Lost
//   kRestored              Learner (a)    -              -                    -
//   kNamedPrimary          Primary (b)    Primary        Primary (c)          (g)
//   kEmptied               Primary (d)    Primary (d)    Primary (d)          Primary (d)
//   kNamedReplica          Replica (e)    Replica (f)    Replica              (g)
//   kNamedFirstReplica     Replica (d)    Replica (f)    Replica              (g)
//   kLeftOut               Elsewhere      Learner (f)    Learner              (g)
//   kLeftToEarlierStart    Lost           Learner (f)    Learner              (g)
//   kFrame                 Learner (e)    (h)            -                    (g)
//   kOutstayed             -              -              Learner: Elsewhere   -
//   kReleased              -              Elsewhere      -                    -
//   kAdopted               Primary (a)    Primary (a)    Primary (a)          Primary (a)
//
//   -    nothing changes
//   (a)  of what comes along
//   (b)  of the empty segment; Lost, if it was here: an empty one would pass for the real one
//   (c)  of what it holds, or could go back to; Lost, if that is only a part
//   (d)  of the empty segment
//   (e)  of nothing yet: the primary sends what is missing
//   (f)  of what it was primary of
//   (g)  as Elsewhere, or, with a part of a copy, as Learner; but a frame leaves it Lost
//   (h)  as Elsewhere; but a primary takes no frames (SegmentHost::Follow)
//
// Not roles: a hand-over that is under way, which is its primary's; a fence, a promise that holds in whatever
// role; copies that were restored, or are awaited, which are learners.

namespace paceline::shard {

enum class Role : uint8_t {
  kElsewhere,
  kPrimary,
  kReplica,  // in sync: it may become primary
  kLearner,  // follows, and no configuration counts on it
  kLost,     // the map gives it to this shard, which had it in its memory once, and has it no more
};

// What it has of the segment.
enum class Holds : uint8_t {
  kNothing,
  kNoMore,  // nothing, though this start was primary, or has promised the coordinator to go on from what it
            // had
  kPart,    // it is in the middle of an image, or before, and there is nothing it could go back to
  kWhole,
};

struct Standing {
  Role role = Role::kElsewhere;
  Holds holds = Holds::kNothing;
};

enum class Event : uint8_t {
  kRestored,  // the disk was found to have the segment
  // A map, or the answer to a wish, that is no older than what is known …
  kNamedPrimary,        // … names this start primary of an epoch that it did not know
  kEmptied,             // … and whatever was held is given up for lost
  kNamedReplica,        // … names it replica
  kNamedFirstReplica,   // … and this shard knew of no configuration before: members of the first one begin
                        // empty
  kLeftOut,             // … names it neither
  kLeftToEarlierStart,  // … but an earlier start of this shard, and nobody else
  kFrame,               // the primary that was named sends something
  kOutstayed,           // what no configuration counts on was kept for long enough
  kReleased,            // the segment leaves, and nothing of it is to stay
  kAdopted,             // it comes from another shard in one step, for tests
};

// Each leaves the shard in the role that comes last in its comment.
enum class Action : uint8_t {
  kRestore,         // what the disk had is kept for now: Learner
  kAdopt,           // what comes along is served: Primary
  kBeginFirst,      // the empty segment is served: Primary
  kBeginEmpty,      // … and what was here is dropped, on the disk too: Primary
  kBeginEpoch,      // it goes on in the next epoch: Primary
  kTakeOver,        // what it followed with is served: Primary
  kStepDown,        // what it served is kept for now: Learner
  kGiveUp,          // what it served is dropped, on the disk too: Elsewhere
  kFollow,          // it takes what comes: Learner
  kFollowEmpty,     // … from the first record on: Learner
  kCount,           // it is counted on, and watches its primary: Replica
  kLeaveOut,        // it is not counted on: Learner
  kDrop,            // what it had is dropped, on the disk too: Elsewhere
  kPointAway,       // clients are told to ask others: Elsewhere
  kTellLostHere,    // … that the data is gone with what this start had: Lost
  kTellLostBefore,  // … with an earlier start: Lost
};

struct Step {
  Role next;
  absl::InlinedVector<Action, 2> actions;  // in this order
};

Step Next(Standing standing, Event event);

}  // namespace paceline::shard
