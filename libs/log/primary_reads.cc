// Reads at the primary: served when the clocks allow, parked until then.
#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/keys.h"
#include "libs/log/primary.h"
#include "libs/table/admission.h"

namespace paceline::log {
namespace {

v1::Refusal Named(v1::Refusal::Reason reason, SegmentId segment, std::string message) {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_segment(segment.v);
  refusal.set_message(std::move(message));
  return refusal;
}

// As table::CheckKeys and CheckRange, for both forms of keys.
absl::Status CheckRows(const table::Schema& schema, KeyForm form, absl::string_view keys) {
  if (form == KeyForm::kKeys) return table::CheckKeys(schema, Keys(keys));
  absl::Status status;
  ForEachRange(keys, [&](uint64_t first, uint64_t count) {
    if (status.ok()) status = table::CheckRange(schema, first, count);
  });
  return status;
}

}  // namespace

void Primary::Serve(Read read, absl::Time now) {
  now_ = std::max(now_, now);
  if (handing_to_.has_value()) return read.sink->Refused(read.part, NotNow("is being handed over", 5));
  const Segment::Session* session = segment_.FindSession(read.session);
  const bool may_answer = MayAnswer();
  if (!may_answer && (session == nullptr || session->job != read.job)) {
    return read.sink->Refused(read.part, NotNow("may not answer now", 50));
  }
  if (session == nullptr || session->job != read.job) {
    const auto [reason, message] = NotOpen(read.session, read.job);
    read.sink->Refused(read.part,
                       Named(reason, segment_.id(), absl::StrCat(message, "; open a new session")));
    return;
  }
  absl::Status valid = CheckNotDropped(*read.table);
  if (!valid.ok()) {
    read.sink->Refused(read.part, Named(v1::Refusal::INVALID, segment_.id(), std::string(valid.message())));
    return;
  }
  OpenTableIfNew(read.table);
  valid = read.changes.has_value() ? ChangeTracker::Check(read.table->schema)
                                   : CheckRows(read.table->schema, read.form, read.keys);
  if (valid.ok() && !read.changes.has_value()) {
    valid = CheckPlaced(segment_.FindTable(read.table->id)->placement, segment_.id(), read.form, read.keys);
  }
  if (!valid.ok()) {
    read.sink->Refused(read.part, Named(v1::Refusal::INVALID, segment_.id(),
                                        absl::StrCat("table '", read.table->name, "': ", valid.message())));
    return;
  }
  if (Ready(read)) {
    Answer(read, Wait{});
    return;
  }
  if (parked_.size() >= kParkedMax) DropCancelled();
  if (parked_.size() >= kParkedMax) {
    v1::Refusal refusal = Named(v1::Refusal::OVER_BUDGET, segment_.id(),
                                absl::StrCat(kParkedMax, " reads are parked here already; ask again later"));
    refusal.set_retry_after_ms(50);
    read.sink->Refused(read.part, std::move(refusal));
    return;
  }
  Wait wait = WaitOf(read);
  parked_.push_back({.read = std::move(read), .since = now, .wait = std::move(wait)});
}

bool Primary::Ready(const Read& read) {
  const Segment::Session* session = segment_.FindSession(read.session);
  const bool own = session->applied.At(Line::kArrival) >= read.own || Planted(Bug::kOwnPartNotAwaited);
  if (!own) return false;
  // Until the epoch's first record is committed, min clocks that an earlier primary named are not known here.
  if (replicas_.committed() <= began_) return false;
  if (!MayAnswer() && !Planted(Bug::kReadWithoutLease)) return false;
  if (read.min_clock == 0 || Planted(Bug::kServedEarly)) return true;
  return MinClockShown(read.job) >= read.min_clock;
}

void Primary::Answer(const Read& read, const Wait& wait) {
  const Segment::Table& table = *segment_.FindTable(read.table->id);
  if (read.changes.has_value()) {
    tracker_.Answer(read, segment_);
  } else if (read.form == KeyForm::kKeys) {
    table.rows.Read(Keys(read.keys), read.out);
  } else {
    std::byte* out = read.out;
    ForEachRange(read.keys, [&](uint64_t first, uint64_t count) {
      // CheckPlaced has cut the same range before, so this cannot fail.
      const std::vector<ring::Piece> pieces = table.placement.ForRange(first, count).value();
      for (const ring::Piece& piece : pieces) {
        table.rows.ReadRange(piece.first, piece.count, out);
        out += piece.count * read.table->schema.dim * sizeof(float);
      }
    });
  }
  const wire::Certificate certificate{.segment = segment_.id(),
                                      .served = true,
                                      .epoch = epoch_,
                                      .began = began_,
                                      .version = segment_.version(),
                                      .min_clock = MinClockShown(read.job),
                                      .own = segment_.FindSession(read.session)->applied.At(Line::kArrival)};
  budget_->Answered(segment_, epoch_);
  read.sink->Served(read.part, certificate, wait);
}

Wait Primary::WaitOf(const Read& read) const {
  const Segment::Session* session = segment_.FindSession(read.session);
  if (session != nullptr && session->applied.At(Line::kArrival) < read.own) {
    return {.cause = Wait::Cause::kQueue,
            .duration = {},
            .for_whom = absl::StrCat("the reader's own part ", read.own,
                                     " (applied: ", session->applied.At(Line::kArrival), ")")};
  }
  if (!MayAnswer() || replicas_.committed() <= began_ || segment_.MinClockOf(read.job) >= read.min_clock) {
    return {.cause = Wait::Cause::kReplication, .duration = {}, .for_whom = replicas_.WaitsFor()};
  }
  const Wait wait{.cause = Wait::Cause::kStaleness, .duration = {}, .for_whom = DescribeSlowest(read.job)};
  return wait;
}

bool Primary::LacksOwnPart(const Read& read) const {
  const Segment::Session* session = segment_.FindSession(read.session);
  return session != nullptr && session->applied.At(Line::kArrival) < read.own;
}

v1::Refusal Primary::DeadlineRefusal(const Parked& parked, absl::Time now) const {
  v1::Refusal refusal =
      Named(v1::Refusal::DEADLINE, segment_.id(),
            absl::StrCat("a read of table '", parked.read.table->name, "' waited ",
                         absl::FormatDuration(absl::Trunc(now - parked.since, absl::Milliseconds(1))),
                         " in segment ", segment_.id().v, " for min clock ", parked.read.min_clock,
                         "; it waits for ", WaitOf(parked.read).for_whom));
  if (LacksOwnPart(parked.read)) {
    refusal.set_line(v1::LINE_ARRIVAL);
    refusal.set_number(parked.read.own);
    refusal.set_expected(segment_.FindSession(parked.read.session)->applied.At(Line::kArrival) + 1);
  }
  return refusal;
}

void Primary::DropCancelled() {
  std::erase_if(parked_, [](const Parked& parked) { return parked.read.sink->cancelled(); });
}

void Primary::WakeParked() {
  // Answers may not change parked_, so one pass is enough; it keeps the order of arrival.
  size_t kept = 0;
  for (size_t i = 0; i < parked_.size(); ++i) {
    const Read& read = parked_[i].read;
    if (read.sink->cancelled()) continue;
    if (segment_.FindSession(read.session) == nullptr && MayAnswer()) {
      const auto [reason, message] = NotOpen(read.session, read.job);
      read.sink->Refused(read.part, Named(reason, segment_.id(),
                                          absl::StrCat(message, "; it was closed while its read waited")));
    } else if (segment_.FindSession(read.session) != nullptr && Ready(read)) {
      parked_[i].wait.duration = std::max(now_ - parked_[i].since, absl::ZeroDuration());
      Answer(read, parked_[i].wait);
    } else {
      if (kept != i) parked_[kept] = std::move(parked_[i]);
      ++kept;
    }
  }
  parked_.resize(kept);
}

void Primary::RefuseParked(absl::FunctionRef<bool(const Read&)> dropped) {
  std::erase_if(parked_, [&](const Parked& parked) {
    if (!dropped(parked.read)) return false;
    parked.read.sink->Refused(parked.read.part, Named(v1::Refusal::INVALID, segment_.id(),
                                                      absl::StrCat("table '", parked.read.table->name,
                                                                   "' was dropped while its read waited")));
    return true;
  });
}

// A part that was committed but is missing here never comes, so the wait for it is short: its reader soon
// learns which number is here.
absl::Time Primary::ParkedUntil(const Parked& parked) const {
  if (!LacksOwnPart(parked.read)) return parked.read.deadline;
  return std::min(parked.read.deadline, parked.since + kOwnPartMax);
}

absl::Time Primary::OnTime(absl::Time now) {
  now_ = std::max(now_, now);
  replicas_.OnTime(segment_);
  HandOverIfUnfit(now);
  OnTimeOfHandOver(now);
  NoteServing(now);
  ForgetCuts(now);
  absl::Time next = absl::InfiniteFuture();
  size_t kept = 0;
  for (size_t i = 0; i < parked_.size(); ++i) {
    if (parked_[i].read.sink->cancelled()) continue;
    const absl::Time until = ParkedUntil(parked_[i]);
    if (until <= now) {
      parked_[i].read.sink->Refused(parked_[i].read.part, DeadlineRefusal(parked_[i], now));
      continue;
    }
    next = std::min(next, until);
    if (kept != i) parked_[kept] = std::move(parked_[i]);
    ++kept;
  }
  parked_.resize(kept);
  return next;
}

void Primary::Abandon(const v1::Refusal& refusal) {
  for (const Parked& parked : parked_) {
    v1::Refusal answer = refusal;
    answer.set_segment(segment_.id().v);
    parked.read.sink->Refused(parked.read.part, std::move(answer));
  }
  parked_.clear();
}

}  // namespace paceline::log
