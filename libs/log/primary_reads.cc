// Reads at the primary: served when the clocks allow, parked until then.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/log/keys.h"
#include "libs/log/part_check.h"
#include "libs/log/primary.h"
#include "libs/log/reduced_read.h"
#include "libs/log/refusals.h"
#include "libs/table/admission.h"

namespace paceline::log {
namespace {

// As table::CheckKeys and CheckRange, for both forms of keys.
absl::Status CheckRows(const table::Schema& schema, KeyForm form, absl::string_view keys) {
  if (form == KeyForm::kKeys) return table::CheckKeys(schema, Keys(keys));
  absl::Status status;
  ForEachRange(keys, [&](uint64_t first, uint64_t count) {
    if (status.ok()) status = table::CheckRange(schema, first, count);
  });
  return status;
}

// Whether the table has what is asked for; and whether it belongs here, if keys name it.
absl::Status CheckAsked(const Read& read, const Segment::Table& table, SegmentId segment) {
  const table::Schema& schema = read.table->schema;
  if (read.changes.has_value()) return ChangeTracker::Check(schema);
  if (read.reduction != nullptr) return table::CheckQuery(schema, *read.reduction);
  if (read.keys_known) return absl::OkStatus();
  ABSL_RETURN_IF_ERROR(CheckRows(schema, read.form, read.keys));
  return CheckPlaced(table.placement, segment, read.form, read.keys);
}

}  // namespace

void Primary::Serve(Read read, absl::Time now) {
  now_ = std::max(now_, now);
  const auto refuse = [&](v1::Refusal refusal) { read.sink->Refused(read.part, std::move(refusal)); };
  // Nothing is written during a hand-over, which the first read of a table would do.
  const bool writes = segment_.FindTable(read.table->id) == nullptr;
  if (hand_over_.asked() || (handing_over() && writes)) return refuse(NotNow("is being handed over", 5));
  const Segment::SessionState* session = segment_.FindSession(read.session);
  if (session == nullptr || session->job != read.job) {
    return refuse(MayAnswer() ? sessions_.NotOpen(read.session, read.job, segment_, "; open a new session")
                              : NotNow("may not answer now", 50));
  }
  absl::Status valid = CheckNotDropped(*read.table, segment_);
  if (!valid.ok()) return refuse(RefusalOf(v1::Refusal::INVALID, segment_.id(), valid.message()));
  OpenTableIfNew(read.table);
  valid = CheckAsked(read, *segment_.FindTable(read.table->id), segment_.id());
  if (!valid.ok()) {
    return refuse(RefusalOf(v1::Refusal::INVALID, segment_.id(),
                            absl::StrCat("table '", read.table->name, "': ", valid.message())));
  }
  if (Ready(read)) return Answer(read, Wait{});
  if (handing_over()) return refuse(NotNow("is being handed over", 5));  // what it waits for comes elsewhere
  if (!parked_.HasRoom()) {
    v1::Refusal refusal =
        RefusalOf(v1::Refusal::OVER_BUDGET, segment_.id(),
                  absl::StrCat(kParkedMax, " reads are parked here already; ask again later"));
    refusal.set_retry_after_ms(50);
    return refuse(std::move(refusal));
  }
  Wait wait = WaitOf(read);
  parked_.Park(std::move(read), now, std::move(wait));
}

bool Primary::Ready(const Read& read) {
  const Segment::SessionState* session = segment_.FindSession(read.session);
  const bool own = session->applied.At(Line::kArrival) >= read.own || Planted(Bug::kOwnPartNotAwaited);
  if (!own) return false;
  // Until every member is known to hold what it began with, min clocks that an earlier primary named are not
  // known here.
  if (replicas_.committed() < took_over_ && !Planted(Bug::kShownBeforeHeld)) return false;
  if (!MayAnswer() && !Planted(Bug::kReadWithoutLease)) return false;
  if (read.min_clock == 0 || Planted(Bug::kServedEarly)) return true;
  return MinClockShown(read.job) >= read.min_clock;
}

void Primary::Answer(const Read& read, const Wait& wait) {
  const Segment::Table& table = *segment_.FindTable(read.table->id);
  if (read.changes.has_value()) {
    tracker_.Answer(read, segment_);
  } else if (read.reduction != nullptr) {
    AnswerReduction(read, table, segment_.id(), epoch_);
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
  shard_.records->Answered(segment_, epoch_);
  read.sink->Served(read.part, certificate, wait);
}

Wait Primary::WaitOf(const Read& read) const {
  if (LacksOwnPart(read, segment_)) {
    const Segment::SessionState* session = segment_.FindSession(read.session);
    return {.cause = Wait::Cause::kQueue,
            .duration = {},
            .for_whom = absl::StrCat("the reader's own part ", read.own,
                                     " (applied: ", session->applied.At(Line::kArrival), ")")};
  }
  if (!MayAnswer() || replicas_.committed() < took_over_ || segment_.MinClockOf(read.job) >= read.min_clock) {
    return {.cause = Wait::Cause::kReplication, .duration = {}, .for_whom = replicas_.WaitsFor()};
  }
  return {.cause = Wait::Cause::kStaleness,
          .duration = {},
          .for_whom = DescribeSlowest(segment_, read.job),
          .for_rank = RankOfSlowest(segment_, read.job)};
}

void Primary::WakeParked() {
  parked_.Wake(now_, [this](const Read& read, const Wait& wait) {
    if (segment_.FindSession(read.session) == nullptr && MayAnswer()) {
      read.sink->Refused(read.part, sessions_.NotOpen(read.session, read.job, segment_,
                                                      "; it was closed while its read waited"));
      return true;
    }
    if (segment_.FindSession(read.session) == nullptr || !Ready(read)) return false;
    if (read.reduction != nullptr && read.sink->Later(read.part, wait)) return true;
    Answer(read, wait);
    return true;
  });
}

NextVisit Primary::OnTime(absl::Time now) {
  now_ = std::max(now_, now);
  const NextVisit visit = replicas_.OnTime(segment_);
  HandOverIfUnfit(now);
  OnTimeOfHandOver(now);
  NoteServing(now);
  cuts_.OnTime(now, segment_);
  if (MayAnswer()) rounds_.OnTime({segment_, epoch_, replicas_.committed()}, now);
  parked_.OnTime(now, segment_, [this](const Read& read) { return WaitOf(read); });
  if (parked() > 0 || handing_over() || !cuts_.empty()) return NextVisit::kSoon;
  return rounds_.empty() ? visit : std::max(visit, NextVisit::kAtBeat);
}

void Primary::Abandon(v1::Refusal refusal) {
  refusal.set_segment(segment_.id().v);
  parked_.RefuseAll(refusal);
  subscriptions_.EndAll(segment_.id(), refusal);
  rounds_ = SeenRounds();  // if it goes on all the same, it waits until the readers' leases have run out
}

}  // namespace paceline::log
