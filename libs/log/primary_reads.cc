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

// As table::CheckKeys and CheckRange, for either form of keys.
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
  const Segment::Session* session = segment_.FindSession(read.session);
  if (session == nullptr || session->job != read.job) {
    const auto reason = eviction_reasons_.find(read.session);
    read.sink->Refused(
        read.part, Named(v1::Refusal::FENCED, segment_.id(),
                         absl::StrCat("session ", read.session.v, " of job ", read.job.v,
                                      " is not open in segment ", segment_.id().v,
                                      reason == eviction_reasons_.end() ? "" : " (" + reason->second + ")",
                                      "; open a new session")));
    return;
  }
  OpenTableIfNew(read.table);
  absl::Status valid = CheckRows(read.table->schema, read.form, read.keys);
  if (valid.ok()) {
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

bool Primary::Ready(const Read& read) const {
  const Segment::Session* session = segment_.FindSession(read.session);
  const bool own = session->applied.At(Line::kArrival) >= read.own || Planted(Bug::kOwnPartNotAwaited);
  if (!own) return false;
  if (read.min_clock == 0 || Planted(Bug::kServedEarly)) return true;
  const auto job = segment_.jobs().find(read.job);
  return job != segment_.jobs().end() && job->second.min_clock() >= read.min_clock;
}

void Primary::Answer(const Read& read, const Wait& wait) {
  const Segment::Table& table = *segment_.FindTable(read.table->id);
  if (read.form == KeyForm::kKeys) {
    table.rows.Read(Keys(read.keys), read.out);
  } else {
    std::byte* out = read.out;
    ForEachRange(read.keys, [&](uint64_t first, uint64_t count) {
      // CheckPlaced has cut the same range before.
      const std::vector<ring::Piece> pieces = table.placement.ForRange(first, count).value();
      for (const ring::Piece& piece : pieces) {
        table.rows.ReadRange(piece.first, piece.count, out);
        out += piece.count * read.table->schema.dim * sizeof(float);
      }
    });
  }
  const auto job = segment_.jobs().find(read.job);
  const wire::Certificate certificate{.segment = segment_.id(),
                                      .served = true,
                                      .epoch = epoch_,
                                      .began = began_,
                                      .version = segment_.version(),
                                      .min_clock = job == segment_.jobs().end() ? 0 : job->second.min_clock(),
                                      .own = segment_.FindSession(read.session)->applied.At(Line::kArrival)};
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
  Wait wait{
      .cause = Wait::Cause::kStaleness, .duration = {}, .for_whom = "a worker: none has joined the job"};
  const auto job = segment_.jobs().find(read.job);
  const auto slowest = job == segment_.jobs().end() ? std::nullopt : job->second.Slowest();
  if (slowest.has_value()) {
    const clock::JobClock::Worker& worker = job->second.workers().at(*slowest);
    wait.for_whom =
        absl::StrCat("worker ", worker.rank, " (session ", slowest->v, ") at clock ", worker.counted);
  }
  return wait;
}

v1::Refusal Primary::DeadlineRefusal(const Parked& parked, absl::Time now) const {
  return Named(v1::Refusal::DEADLINE, segment_.id(),
               absl::StrCat("a read of table '", parked.read.table->name, "' waited ",
                            absl::FormatDuration(now - parked.since), " in segment ", segment_.id().v,
                            " for min clock ", parked.read.min_clock, "; it waits for ",
                            WaitOf(parked.read).for_whom));
}

void Primary::WakeParked() {
  // Answers may not change what is parked, so one pass is enough; order of arrival is kept.
  size_t kept = 0;
  for (size_t i = 0; i < parked_.size(); ++i) {
    const Read& read = parked_[i].read;
    if (segment_.FindSession(read.session) == nullptr) {
      read.sink->Refused(
          read.part, Named(v1::Refusal::FENCED, segment_.id(),
                           absl::StrCat("session ", read.session.v, " was closed while its read waited")));
    } else if (Ready(read)) {
      parked_[i].wait.duration = std::max(now_ - parked_[i].since, absl::ZeroDuration());
      Answer(read, parked_[i].wait);
    } else {
      if (kept != i) parked_[kept] = std::move(parked_[i]);
      ++kept;
    }
  }
  parked_.resize(kept);
}

absl::Time Primary::OnTime(absl::Time now) {
  now_ = std::max(now_, now);
  absl::Time next = absl::InfiniteFuture();
  size_t kept = 0;
  for (size_t i = 0; i < parked_.size(); ++i) {
    if (parked_[i].read.deadline <= now) {
      parked_[i].read.sink->Refused(parked_[i].read.part, DeadlineRefusal(parked_[i], now));
      continue;
    }
    next = std::min(next, parked_[i].read.deadline);
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
