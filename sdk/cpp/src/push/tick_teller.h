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

// The content of the ticks of one push stream. A tick names segments and the number of parts that seals them:
// all of the shard's segments in the first tick of a stream, later only what has changed. A tick speaks for a
// segment that it does not name only while the shard stays its primary, so a segment that came back is named
// anew.
//
// Once a segment has moved away, its count is sent elsewhere, and leaving it out of a tick no longer means
// that it has not changed. The shard cannot know: it may receive the last tick that named the segment only
// after the segment came back. So the next tick names all segments anew, and voids what was named before.
class TickTeller {
 public:
  // How many parts of clocks < `clock` there are on a line of a segment.
  using SealedAt = absl::FunctionRef<PartNumber(SegmentId segment, Line line, Clock clock)>;

  // The segments the shard is primary of. Segments that are new must be named; if one that was named has
  // gone, all must be.
  void SetSegments(absl::Span<const SegmentId> segments);
  // A new stream: the shard has received nothing on it.
  void NewStream();
  // The shard may have lost the segment and got it back.
  void Forget(SegmentId segment);
  // The latest tick may not have arrived: the next one names all segments anew.
  void ForgetAll();

  // True: there is a tick to send if the worker is at `clock`.
  bool Due(Clock clock) const;
  // Not sent yet, or sent and not answered.
  bool Unanswered() const { return told_.has_value() && !answered_; }

  v1::Tick Tell(Clock clock, SealedAt sealed);

  // The answer to a tick: the segments it did not speak for. True: another tick of the same clock is due.
  // False also if the shard asks again for a segment that the tick before had named: then names are not what
  // is missing, and a tick at once would be answered in the same way. Call ForgetAll then, after a pause.
  bool OnAck(Clock clock, absl::Span<const SegmentId> unspoken);

 private:
  struct Named {
    bool named = false;                   // and with these numbers, as far as is known
    bool told = false;                    // this stream has named it, whatever the outcome
    std::array<PartNumber, 2> numbers{};  // by line
  };

  absl::btree_map<SegmentId, Named> segments_;  // in the order of the wire
  std::optional<Clock> told_;                   // clock of the latest tick of the stream
  bool answered_ = false;
  bool incomplete_ = false;  // a segment must be named whatever the clock
  bool asked_again_ = false;
  bool anew_ = false;  // void what this stream has named: a segment has gone, or the message that voids it
                       // may have been lost
};

}  // namespace paceline::sdk
