#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/wire/packed.h"

namespace paceline::sdk {

// What this client has promised the primaries of segments that it reads under a value bound, and for how long
// it may hand out values (libs/log/seen_rounds.h has the other side). A client *joins* a segment before it
// hands out its first value of it. From then on it hands out none that is older than the last round that it
// has confirmed, and none at all once its lease has run out, until another message of it is answered. So what
// was pulled is judged at the moment at which it is handed out.
//
// A value that has come and waits for the rest of its pull is *held*: a new round is confirmed when no older
// value is held, or with the next beat. In the second case such values are pulled again.
//
// By segment. Time is passed in. Single owner.
class ReadingLeases {
 public:
  // By 1 s without a message, or without the confirmation of a round, the primary forgets this client. The
  // rates of their clocks differ by less than 10 %.
  static constexpr absl::Duration kLease = absl::Milliseconds(800);
  // Messages come at least so often, while the segment is read.
  static constexpr absl::Duration kBeat = absl::Milliseconds(200);
  // A join without an answer is repeated after this. Not earlier: only the answer to the last one counts.
  static constexpr absl::Duration kJoinAgain = absl::Seconds(1);
  // A segment that was not read for so long is left.
  static constexpr absl::Duration kIdle = absl::Seconds(5);

  enum class Verdict {
    kFit,
    kWaits,  // not now: the client has not joined, or its lease has run out
    kOlder,  // never: it is to be pulled again
  };

  // A read of the segment begins: the client must be a reader there.
  void Want(SegmentId segment, absl::Time now);
  Verdict Judge(const wire::Certificate& certificate, absl::Time now) const;
  // A value of the segment is held, and is no longer. Calls come in pairs.
  void Hold(SegmentId segment);
  void Release(SegmentId segment);

  // A round, or an answer, of the segment's present primary. True: values that wait may be fit now.
  bool Take(const wire::Round& round);
  // The stream is gone, or the segment has another primary: it joins anew.
  void Lost(SegmentId segment);

  // Something else is to be said of the segment, if it is read.
  void Due(SegmentId segment);
  // A beat: what is to be said to all segments becomes due. Leaves those that are not read any more.
  void Beat(absl::Time now);
  // Takes what is to be said of the segment now, if there is anything, in a message with this beat.
  std::optional<wire::Reading> Say(SegmentId segment, absl::Time now, uint64_t beat);
  bool HasToSay(SegmentId segment, absl::Time now) const;
  // True: the segment is read, or about to be.
  bool Reads(SegmentId segment) const { return segments_.contains(segment); }
  bool empty() const { return segments_.empty(); }
  void ForEach(absl::FunctionRef<void(SegmentId)> call) const {
    for (const auto& [segment, state] : segments_) call(segment);
  }

  // The beat of a message sent now, and when that was.
  static uint64_t BeatAt(absl::Time now) { return static_cast<uint64_t>(absl::ToUnixMicros(now)); }
  static absl::Time SentAt(uint64_t beat) { return absl::FromUnixMicros(static_cast<int64_t>(beat)); }

 private:
  enum class State { kOut, kJoining, kIn, kLeaving };
  struct Segment {
    State state = State::kOut;
    absl::Time used;
    uint64_t joining = 0;  // the beat of the join
    Epoch epoch;
    Lsn version;         // nothing older is handed out
    uint64_t round = 0;  // that was confirmed
    absl::Time until;    // the lease
    uint64_t next = 0;   // a round to be confirmed; 0: none
    Lsn next_version;
    uint32_t held = 0;
    bool due = false;  // something is to be said
  };

  static void Confirm(Segment& segment);

  std::map<SegmentId, Segment> segments_;
};

}  // namespace paceline::sdk
