#pragma once

#include <array>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "libs/base/ids.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::sdk {

// What the ticks of one push stream have to say. A tick names segments and how many parts they are sealed at:
// all of the shard's segments in the first tick of a stream, later only what changed. A segment is spoken for
// without being named only while the shard stays its primary, so one that came back is named anew.
//
// Once a segment has gone its count is told elsewhere, and that a tick leaves it out no longer means that it
// has not changed. The shard cannot know: it may hear the last tick that named the segment only after it got
// it back. So the next tick names all anew, and says that what was named before is void.
class TickTeller {
 public:
  // How many parts of clocks < `clock` there are on a line of a segment.
  using SealedAt = absl::FunctionRef<PartNumber(SegmentId segment, Line line, Clock clock)>;

  // The segments the shard is primary of. Those not heard of before have to be named; if one that was named
  // has gone, all are.
  void SetSegments(absl::Span<const SegmentId> segments);
  // A new stream: it has heard nothing.
  void NewStream();
  // The shard may have lost the segment and got it again.
  void Forget(SegmentId segment);
  // The latest tick may not have been heard: the next one names all anew.
  void ForgetAll();

  // Is there something to tell if the worker is at `clock`?
  bool Due(Clock clock) const;
  // Not told yet, or told and not answered.
  bool Unanswered() const { return told_.has_value() && !answered_; }

  v1::Tick Tell(Clock clock, SealedAt sealed);

  // The answer to a tick: the segments it did not speak for. True: another tick of the same clock is due.
  // False also if the shard asks for a segment again that the tick before it had named: it is not the names
  // that are missing, and asking and telling must not chase each other. ForgetAll then, after a pause.
  bool OnAck(Clock clock, absl::Span<const SegmentId> unspoken);

 private:
  struct Named {
    bool named = false;                   // and with these numbers, as far as is known
    bool told = false;                    // this stream has named it, whatever became of that
    std::array<PartNumber, 2> numbers{};  // by line
  };

  absl::btree_map<SegmentId, Named> segments_;  // in the order of the wire
  std::optional<Clock> told_;                   // clock of the latest tick of the stream
  bool answered_ = false;
  bool incomplete_ = false;  // a segment has to be named whatever the clock
  bool asked_again_ = false;
  bool anew_ = false;  // what this stream has named is void: a segment has gone, or the word that one has
};

}  // namespace paceline::sdk
