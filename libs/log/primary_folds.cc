// Clocks at the primary: parts of aggregated tables are staged, and min clocks move once every worker has
// ticked.
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/log/primary.h"
#include "libs/log/refusals.h"

namespace paceline::log {

std::optional<v1::Refusal> Primary::Stage(const Part& part) {
  Update update = part.update;
  clock::JobClock& clock = segment_.ClockOf(part.job);
  const bool worker = clock.HasWorker(update.session);
  if (update.count == 0 && !worker) {  // no clock to wait for
    Append(update);
    Acknowledge(part.acks, {.segment = segment_.id(), .line = update.line, .number = update.number});
    return std::nullopt;
  }
  if (update.count == 0) update.clock = folds_.ClockOfEmpty(update, clock);
  if (worker && update.clock > clock.min_clock() + 1) {
    clock.Reached(update.session, update.clock, Here(update.session));
    MoveOn(part.job);
  }
  if (worker && update.clock > clock.min_clock() + 1) {
    return Refuse(
        absl::ResourceExhaustedError(absl::StrCat(
            "clock: ", update.clock, "; parts of aggregated tables are taken for clocks ", clock.min_clock(),
            " and ", clock.min_clock() + 1, " as yet; they wait for ", DescribeSlowest(segment_, part.job))),
        update);
  }
  if (update.count != 0) {
    absl::Status fits = folds_.Check(part, segment_);
    if (fits.ok()) fits = CheckMemory(part);
    if (fits.ok()) fits = folds_.FindRoom(part, update.clock > clock.min_clock(), segment_, now_);
    if (!fits.ok()) return Refuse(fits, update);
  }
  folds_.Put(part, update);
  clock.Taken(update.session, Here(update.session));
  MoveOn(part.job);
  return std::nullopt;
}

void Primary::MoveOn(JobId job) {
  const Clock before = segment_.MinClockOf(job);
  AdvanceMinClock(job);
  while (const auto finish = sessions_.TakeFinish(job, segment_)) {
    Append(*finish);
    AdvanceMinClock(job);
  }
  if (segment_.MinClockOf(job) > before) TellSubscribers();
  WakeParked();
}

void Primary::AdvanceMinClock(JobId job) {
  while (const auto step = folds_.Next(job, segment_.ClockOf(job), cuts_.ClockOf(job))) {
    if (const auto* fold = std::get_if<Fold>(&step->record)) {
      tracker_.Apply(*fold, segment_, [&] { Append(step->record); });
    } else {
      Append(step->record);
    }
    for (const auto& [sink, number] : step->folded) {
      Acknowledge(sink, {.segment = segment_.id(), .line = Line::kAggregated, .number = number});
      sink->Wake();
    }
    LogCutIfDue(job);  // before any record of that clock
  }
}

}  // namespace paceline::log
