#include "libs/log/parked_reads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/log/refusals.h"

namespace paceline::log {

bool LacksOwnPart(const Read& read, const Segment& segment) {
  const Segment::SessionState* session = segment.FindSession(read.session);
  return session != nullptr && session->applied.At(Line::kArrival) < read.own;
}

void ParkedReads::Sweep(absl::FunctionRef<bool(Parked&)> done) {
  size_t kept = 0;
  for (size_t i = 0; i < reads_.size(); ++i) {
    if (reads_[i].read.sink->cancelled() || done(reads_[i])) continue;
    if (kept != i) reads_[kept] = std::move(reads_[i]);
    ++kept;
  }
  reads_.resize(kept);
}

void ParkedReads::ForEach(absl::FunctionRef<void(const Read&)> visit) const {
  for (const Parked& parked : reads_) {
    if (!parked.read.sink->cancelled()) visit(parked.read);
  }
}

bool ParkedReads::HasRoom() {
  if (reads_.size() >= kMax) Sweep([](const Parked&) { return false; });
  return reads_.size() < kMax;
}

void ParkedReads::Park(Read read, absl::Time now, Wait wait) {
  reads_.push_back({.read = std::move(read), .since = now, .wait = std::move(wait)});
}

void ParkedReads::Wake(absl::Time now, absl::FunctionRef<bool(const Read&, const Wait&)> answered) {
  Sweep([&](Parked& parked) {
    parked.wait.duration = std::max(now - parked.since, absl::ZeroDuration());
    return answered(parked.read, parked.wait);
  });
}

// A part that was committed but is missing here never comes, so the wait for it is short: its reader soon
// learns which number is here.
absl::Time ParkedReads::Until(const Parked& parked, const Segment& segment) {
  if (!LacksOwnPart(parked.read, segment)) return parked.read.deadline;
  return std::min(parked.read.deadline, parked.since + kOwnPartMax);
}

void ParkedReads::OnTime(absl::Time now, const Segment& segment,
                         absl::FunctionRef<Wait(const Read&)> wait_of) {
  Sweep([&](Parked& parked) {
    const Read& read = parked.read;
    if (Until(parked, segment) > now) return false;
    const Wait wait = wait_of(read);
    v1::Refusal refusal =
        RefusalOf(v1::Refusal::DEADLINE, segment.id(),
                  absl::StrCat("a read of table '", read.table->name, "' waited ",
                               absl::FormatDuration(absl::Trunc(now - parked.since, absl::Milliseconds(1))),
                               " in segment ", segment.id().v, " for min clock ", read.min_clock,
                               "; it waits for ", wait.for_whom));
    if (wait.for_rank.has_value()) refusal.set_waits_for_rank_plus_one(*wait.for_rank + 1);
    if (LacksOwnPart(read, segment)) {
      refusal.set_line(v1::LINE_ARRIVAL);
      refusal.set_number(read.own);
      refusal.set_expected(segment.FindSession(read.session)->applied.At(Line::kArrival) + 1);
    }
    read.sink->Refused(read.part, std::move(refusal));
    return true;
  });
}

void ParkedReads::RefuseDropped(const Segment& segment) {
  Sweep([&](const Parked& parked) {
    const Read& read = parked.read;
    if (!segment.IsDropped(read.table->id)) return false;
    read.sink->Refused(read.part, RefusalOf(v1::Refusal::INVALID, segment.id(),
                                            absl::StrCat("table '", read.table->name,
                                                         "' was dropped while its read waited")));
    return true;
  });
}

void ParkedReads::RefuseAll(const v1::Refusal& refusal) {
  for (const Parked& parked : reads_) parked.read.sink->Refused(parked.read.part, refusal);
  reads_.clear();
}

}  // namespace paceline::log
