#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"

// The roles of a shard for a segment, and a pure function that says how each event changes them. SegmentHost
// obeys it. This is its outline; segment_role_test.cc has all cases, with the actions of each.
//
//                          Elsewhere      Primary        Replica, Learner     Lost
//   kRestored              Learner (a)    -              -                    -
//   kNamedPrimary          Primary (b)    Primary        Primary (c)          (g)
//   kEmptied               Primary (d)    Primary (d)    Primary (d)          Primary (d)
//   kNamedReplica          Replica (e)    Replica (f)    Replica              (g)
//   kNamedFirstReplica     Replica (d)    Replica (f)    Replica              (g)
//   kLeftOut               Elsewhere      Learner (f)    Learner              (g)
//   kLeftToEarlierStarts   Lost           Learner (f)    Learner              (g)
//   kFrame                 Learner (e)    (h)            -                    (g)
//   kOutstayed             -              -              Learner: Elsewhere   -
//
//   -    nothing changes
//   (a)  of the disk's copy
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

// The data that it has of the segment.
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
  kRestored,  // the shard found the segment on its disk
  // A map, or the answer to a wish, that is no older than what the shard knows:
  kNamedPrimary,         // it names this start primary of an epoch that the shard did not know
  kEmptied,              // the same, and gives all older data up for lost
  kNamedReplica,         // it names this start replica
  kNamedFirstReplica,    // the same, and this shard knew no configuration before: members of the first one
                         // begin empty
  kLeftOut,              // it names this start neither
  kLeftToEarlierStarts,  // it names an earlier start of this shard, and no other member, or none that has it
  kFrame,                // the named primary sends a frame
  kOutstayed,            // the shard has kept a copy that no configuration counts on for long enough
};

// Each leaves the shard in the role at the end of its comment.
enum class Action : uint8_t {
  kRestore,         // keeps the disk's copy for now: Learner
  kBeginFirst,      // serves the empty segment: Primary
  kBeginEmpty,      // the same, and drops the old copy, on the disk too: Primary
  kBeginEpoch,      // goes on in the next epoch: Primary
  kTakeOver,        // serves the copy that it followed with: Primary
  kStepDown,        // keeps the copy that it served for now: Learner
  kFollow,          // takes what comes: Learner
  kFollowEmpty,     // takes it from the first record on: Learner
  kCount,           // counts, and watches its primary: Replica
  kLeaveOut,        // does not count: Learner
  kDrop,            // drops its copy, on the disk too: Elsewhere
  kPointAway,       // tells clients to ask others: Elsewhere
  kTellLostHere,    // tells them that the data is gone with this start's copy: Lost
  kTellLostBefore,  // tells them that it is gone with an earlier start: Lost
};

struct Step {
  Role next;
  absl::InlinedVector<Action, 2> actions;  // in this order
};

Step Next(Standing standing, Event event);

}  // namespace paceline::shard
