#include "sdk/cpp/src/bound/reading_leases.h"

#include <algorithm>

#include "libs/base/planted.h"

namespace paceline::sdk {

void ReadingLeases::Want(SegmentId id, absl::Time now) {
  Segment& segment = segments_[id];
  segment.used = now;
  if (segment.state == State::kLeaving) segment.state = State::kOut;
  if (segment.state == State::kOut) segment.due = true;
}

ReadingLeases::Verdict ReadingLeases::Judge(const wire::Certificate& certificate, absl::Time now) const {
  const auto found = segments_.find(certificate.segment);
  if (found == segments_.end() || found->second.state != State::kIn) return Verdict::kWaits;
  const Segment& segment = found->second;
  if (now >= segment.until && !Planted(Bug::kLeaseOutlived)) return Verdict::kWaits;
  // The next answer is of that epoch too.
  if (certificate.epoch > segment.epoch) return Verdict::kWaits;
  const bool older = certificate.epoch < segment.epoch || certificate.version < segment.version;
  return older && !Planted(Bug::kOlderHandedOut) ? Verdict::kOlder : Verdict::kFit;
}

void ReadingLeases::Hold(SegmentId id) {
  ++segments_[id].held;
}

void ReadingLeases::Release(SegmentId id) {
  const auto found = segments_.find(id);
  if (found == segments_.end() || found->second.held == 0) return;
  Segment& segment = found->second;
  if (--segment.held == 0 && segment.next != 0) Confirm(segment);
}

void ReadingLeases::Confirm(Segment& segment) {
  segment.round = segment.next;
  segment.version = segment.next_version;
  segment.next = 0;
  segment.due = true;
}

bool ReadingLeases::Take(const wire::Round& round) {
  const auto found = segments_.find(round.segment);
  if (found == segments_.end()) return false;
  Segment& segment = found->second;
  switch (segment.state) {
    case State::kOut:
    case State::kLeaving:
      return false;
    case State::kJoining:
      // What was said before the join says nothing of it.
      if (round.beat < segment.joining) return false;
      if (round.number == 0) {
        segment.state = State::kOut;  // there was no room; the next beat tries again
        return false;
      }
      segment.state = State::kIn;
      segment.epoch = round.epoch;
      segment.version = round.version;
      segment.round = round.number;
      segment.next = 0;
      segment.until = SentAt(round.beat) + kLease;
      return true;
    case State::kIn:
      break;
  }
  if (round.number == 0) {  // it was forgotten
    segment.state = State::kOut;
    segment.due = true;
    return false;
  }
  segment.epoch = std::max(segment.epoch, round.epoch);
  if (round.number > std::max(segment.round, segment.next)) {
    segment.next = round.number;
    segment.next_version = round.version;
    if (segment.held == 0) Confirm(segment);
  }
  if (round.beat != 0) segment.until = std::max(segment.until, SentAt(round.beat) + kLease);
  return true;
}

void ReadingLeases::Lost(SegmentId id) {
  const auto found = segments_.find(id);
  if (found == segments_.end()) return;
  Segment& segment = found->second;
  if (segment.state == State::kLeaving) {
    segments_.erase(found);
    return;
  }
  segment.state = State::kOut;
  segment.next = 0;
  segment.due = true;
}

void ReadingLeases::Due(SegmentId id) {
  if (const auto found = segments_.find(id); found != segments_.end()) found->second.due = true;
}

void ReadingLeases::Beat(absl::Time now) {
  for (auto& [id, segment] : segments_) {
    segment.due = true;
    if (segment.held > 0 || now - segment.used <= kIdle) {
      if (segment.next != 0) Confirm(segment);
      continue;
    }
    segment.state = State::kLeaving;
  }
}

bool ReadingLeases::HasToSay(SegmentId id, absl::Time now) const {
  const auto found = segments_.find(id);
  if (found == segments_.end() || !found->second.due) return false;
  return found->second.state != State::kJoining || now - SentAt(found->second.joining) >= kJoinAgain;
}

std::optional<wire::Reading> ReadingLeases::Say(SegmentId id, absl::Time now, uint64_t beat) {
  if (!HasToSay(id, now)) return std::nullopt;
  Segment& segment = segments_[id];
  segment.due = false;
  wire::Reading reading{.segment = id};
  switch (segment.state) {
    case State::kOut:
    case State::kJoining:
      segment.state = State::kJoining;
      segment.joining = beat;
      reading.kind = wire::Reading::Kind::kJoins;
      break;
    case State::kIn:
      reading.kind = wire::Reading::Kind::kReads;
      reading.round = segment.round;
      break;
    case State::kLeaving:
      segments_.erase(id);
      break;
  }
  return reading;
}

}  // namespace paceline::sdk
