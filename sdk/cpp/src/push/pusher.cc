#include "sdk/cpp/src/push/pusher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "sdk/cpp/src/bound/value_bounds.h"
#include "sdk/cpp/src/pull/pull_op.h"
#include "sdk/cpp/src/push/filter/push_filters.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {

SegmentLine* Pusher::FindLine(SegmentId segment, Line kind) const {
  const size_t index = size_t{segment.v} * 2 + static_cast<size_t>(kind) - 1;
  return index < lines_.size() ? lines_[index].get() : nullptr;
}

SegmentLine& Pusher::LineOf(SegmentId segment, Line kind) {
  if (SegmentLine* line = FindLine(segment, kind)) return *line;
  const size_t index = size_t{segment.v} * 2 + static_cast<size_t>(kind) - 1;
  lines_[index] = std::make_unique<SegmentLine>(segment, kind);
  LinkFor(context_.routes->PrimaryOf(segment).id).Bind(*lines_[index]);
  return *lines_[index];
}

bool Pusher::IsLate(const PushCall& call) {
  return call.priority > 0 && call.read == nullptr && !IsBounded(call.table->consistency);
}

void Pusher::Push(PushCall call) {
  const bool late = IsLate(call);
  const Batch& batch = *call.batch;
  PushOp& op = ops_[++pushes_];
  op.id = pushes_;
  op.table = call.table;
  op.parts_left = batch.pieces.size();
  op.since = context_.Now();
  op.timeout = call.timeout;
  op.done = std::move(call.done);
  OpsOf(op).insert(op.id);
  if (batch.pieces.empty()) {
    End(op, absl::OkStatus());
    return Forget(op);
  }
  if (call.timeout != absl::InfiniteDuration()) {
    op.timer = context_.timers.At(context_.Now() + call.timeout, [this, id = op.id] { OnPushDeadline(id); });
  }
  context_.stats.rows_pushed += batch.rows;
  context_.stats.bytes_pushed += batch.Bytes();
  unacknowledged_bytes_ += batch.Bytes();
  if (call.table->line() == Line::kAggregated) clock_bytes_ += batch.Bytes();
  bool some = false;
  PushLink* woken = nullptr;
  for (uint32_t i = 0; i < batch.pieces.size(); ++i) {
    SegmentLine& line = LineOf(batch.pieces[i].segment, call.table->line());
    // The rows that it brings back hold the pushes before it.
    while (call.read != nullptr && line.HasLate(call.table->id)) {
      OnNumbered(line, line.NumberFirst());
      some = true;
    }
    line.Append({.op = &op,
                 .table = call.table->id,
                 .info = call.table.get(),
                 .ranges = batch.ranges,
                 .batch = call.batch,
                 .piece = i,
                 .clock = context_.worker_clock,
                 .priority = call.priority,
                 .late = late,
                 .filtered = call.table->push_filter.active(),
                 .push = op.id,
                 .read = call.read});
    if (!late) OnNumbered(line, line.parts().back());
    line.link->Requeue(line);
    // Pieces of one shard lie side by side, so this is one call a shard.
    if (woken != nullptr && woken != line.link) woken->Wake();
    woken = line.link;
  }
  woken->Wake();
  if (some) context_.puller->OnNumbered();
}

void Pusher::OnNumbered(const SegmentLine& line, const Part& part) {
  context_.history.Pushed(line.segment(), line.kind(), part.number, part.clock, part.table, *part.batch,
                          *part.Content());
}

void Pusher::NumberAll() {
  bool some = false;
  for (const auto& line : lines_) {
    while (line != nullptr && line->HasLate()) {
      OnNumbered(*line, line->NumberFirst());
      some = true;
    }
  }
  if (some) context_.puller->OnNumbered();
}

void Pusher::End(PushOp& op, absl::Status status, const std::shared_ptr<const Causes>& causes) {
  if (!op.done) return;
  context_.timers.Cancel(op.timer);
  if (!status.ok() && !absl::IsDeadlineExceeded(status) && unreported_.ok()) unreported_ = status;
  context_.deferred.Run([done = std::move(op.done), status = std::move(status), causes]() mutable {
    const Ending ending(causes);
    done(std::move(status));
  });
  op.done = nullptr;
}

void Pusher::OnPushDeadline(uint64_t id) {
  const auto it = ops_.find(id);
  if (it == ops_.end()) return;
  PushOp& op = it->second;
  End(op, absl::DeadlineExceededError(absl::StrCat("push to ", op.table->Name(), ": ", op.parts_left,
                                                   " parts not committed; waited ",
                                                   absl::FormatDuration(op.timeout), " for ", WaitsFor(op),
                                                   ". The push goes on: Flush waits for it")));
}

// A refusal says more than a part that is merely under way.
std::string Pusher::WaitsFor(const PushOp& op) const {
  const SegmentLine* waits = nullptr;
  for (const auto& line : lines_) {
    if (line == nullptr || line->link == nullptr) continue;
    if (waits != nullptr && line->refused.empty()) continue;
    if (!line->Has(op)) continue;
    waits = line.get();
    if (!waits->refused.empty()) break;
  }
  if (waits == nullptr) return "nobody";
  const std::string whom = waits->link->Describe();
  if (!waits->refused.empty()) return absl::StrCat(whom, ", which refuses: ", waits->refused);
  if (waits->HasWaiting() && waits->link->AwaitsGrant()) {
    return absl::StrCat(
        whom, ", which grants no more bytes before it has applied, or its disk has written, others");
  }
  if (waits->kind() == Line::kArrival || !waits->link->usable()) return whom;
  return absl::StrCat(whom, "; of an aggregated table a clock is committed when every worker has ended it");
}

std::string Pusher::WaitsFor() const {
  return ops_.empty() ? "" : WaitsFor(ops_.begin()->second);
}

std::optional<Waiting> Pusher::Waits() const {
  const auto& [arrival, aggregated] = open_;
  uint64_t oldest = arrival.empty() ? UINT64_MAX : *arrival.begin();
  if (!aggregated.empty() && *aggregated.begin() <= pushes_before_) {
    oldest = std::min(oldest, *aggregated.begin());
  }
  const auto op = ops_.find(oldest);
  if (op == ops_.end()) return std::nullopt;
  return Waiting{.what = absl::StrCat("push to ", op->second.table->Name()),
                 .since = op->second.since,
                 .whom = WaitsFor(op->second)};
}

void Pusher::OnCommitted(PushLink& link, const wire::Mark& mark) {
  if (mark.number == 0) return;
  SegmentLine* line = FindLine(mark.segment, mark.line);
  if (line == nullptr || mark.number > line->last()) {
    context_.fail(absl::InternalError(absl::StrCat(link.Describe(), ": committed: part ", mark.number,
                                                   " of segment ", mark.segment.v, "; this session has made ",
                                                   line == nullptr ? 0 : line->last())));
    return;
  }
  if (mark.number <= line->committed()) return;
  line->refused.clear();
  line->refusals = 0;
  context_.history.Record(
      history::Acknowledged{.segment = mark.segment, .line = mark.line, .number = mark.number});
  line->Commit(mark.number, [this, &link](const Part& part) { OnCommittedPart(part, &link); });
  if (line->link != nullptr) line->link->Requeue(*line);
  if (mark.line == Line::kArrival && Planted(Bug::kSeenWhenCommitted)) {
    context_.bounds->CountAsSeen(mark.segment, mark.number);
  }
  CompleteFlushes();
}

void Pusher::OnCommittedPart(const Part& part, const PushLink* link) {
  Release(part);
  PushOp& op = *part.op;
  if (--op.parts_left > 0) return;
  Waited waited = WaitedFor(op, part, link);
  context_.times->Ended(waited);
  last_causes_ =
      std::make_shared<const Causes>(Causes{.waited = std::move(waited), .ledger = context_.times});
  End(op, absl::OkStatus(), last_causes_);
  Forget(op);
}

// A push waits for its part that is committed last. The shard's times are those of the newest frame it has
// taken, which is this part's unless others followed it closely.
Waited Pusher::WaitedFor(const PushOp& op, const Part& part, const PushLink* link) const {
  const absl::Time now = context_.Now();
  WaitedBuilder built(now - op.since);
  built.waited.table = op.table;
  if (link == nullptr) {
    built.TakeRest(WaitCause::kNetwork);
    return std::move(built.waited);
  }
  built.waited.shard = link->shard().id;
  absl::Time since = op.since;
  const auto until = [&](absl::Time time, WaitCause cause) {
    if (time > since) built.Take(cause, time - since);
    since = std::max(since, time);
  };
  until(std::min(link->usable_since(), now), WaitCause::kRoute);
  until(link->granted_at(), WaitCause::kBackPressure);
  if (const auto taken = link->TakenSince(part.frame); taken.has_value()) {
    // Applied, or staged: the rest of the wait is for replicas, or for all workers to end the clock.
    built.Take(op.table->line() == Line::kArrival ? WaitCause::kReplication : WaitCause::kStaleness,
               now - std::max(*taken, since));
  }
  built.Take(WaitCause::kQueue, link->frame_times().queue);
  built.Take(WaitCause::kApply, link->frame_times().apply);
  built.TakeRest(WaitCause::kNetwork);
  return std::move(built.waited);
}

void Pusher::Release(const Part& part) {
  unacknowledged_bytes_ -= part.Bytes();
  if (part.op->table->line() == Line::kAggregated && part.clock == context_.worker_clock)
    clock_bytes_ -= part.Bytes();
}

void Pusher::Forget(PushOp& op) {
  OpsOf(op).erase(op.id);
  ops_.erase(op.id);
}

void Pusher::OnFinished() {
  for (const auto& line : lines_) {
    if (line == nullptr || line->Empty()) continue;
    context_.history.Record(
        history::Acknowledged{.segment = line->segment(), .line = line->kind(), .number = line->last()});
    line->Commit(line->last(), [this](const Part& part) { OnCommittedPart(part, nullptr); });
    if (line->link != nullptr) line->link->Requeue(*line);
  }
  CompleteFlushes();
}

void Pusher::Flush(absl::Duration timeout, Done done) {
  flushes_.push_back({.arrival = pushes_, .aggregated = pushes_before_, .done = std::move(done)});
  const auto flush = std::prev(flushes_.end());
  if (timeout != absl::InfiniteDuration()) {
    flush->timer = context_.timers.At(context_.Now() + timeout, [this, flush, timeout] {
      absl::Status status = absl::DeadlineExceededError(absl::StrCat(
          "flush: ", unacknowledged_bytes_, " bytes not committed; waited ", absl::FormatDuration(timeout),
          " for ", WaitsFor(), ". Nothing is lost: flush again to go on waiting"));
      context_.deferred.Tell(std::move(flush->done), std::move(status));
      flushes_.erase(flush);
    });
  }
  CompleteFlushes();
}

bool Pusher::Committed(Point& point) const {
  if (Planted(Bug::kWorkMarkedEarly)) return true;
  if (point.held != 0) {
    if (!held_.empty() && *held_.begin() <= point.held) return false;
    // They have been made by now. A filter may have held back some of their rows: these would be lost with
    // this worker, and nobody would know.
    if (context_.filters->holds()) context_.send_held_back();
    point = {.pushes = pushes_, .held = 0};
  }
  return std::ranges::all_of(open_, [&point](const std::set<uint64_t>& open) {
    return open.empty() || point.pushes < *open.begin();
  });
}

void Pusher::CompleteFlushes() {
  const auto done = [](const std::set<uint64_t>& open, uint64_t upto) {
    return open.empty() || upto < *open.begin();
  };
  while (!flushes_.empty()) {
    FlushOp& flush = flushes_.front();
    if (!done(open_[0], flush.arrival) || !done(open_[1], flush.aggregated)) break;
    context_.timers.Cancel(flush.timer);
    context_.deferred.Run(
        [ended = std::move(flush.done), status = TakeUnreported(), causes = last_causes_]() mutable {
          const Ending ending(std::move(causes));
          ended(std::move(status));
        });
    flushes_.pop_front();
  }
}

void Pusher::Fail(const absl::Status& why) {
  for (auto& [id, op] : ops_) End(op, why);
  for (FlushOp& flush : flushes_) {
    context_.timers.Cancel(flush.timer);
    context_.deferred.Tell(std::move(flush.done), why);
  }
  flushes_.clear();
  for (const auto& line : lines_) {
    if (line != nullptr) context_.timers.Cancel(line->held_until);
  }
  for (auto& [shard, link] : links_) link->Shut();
  links_.clear();
  lines_.clear();
  ops_.clear();
  for (auto& open : open_) open.clear();
  unacknowledged_bytes_ = clock_bytes_ = 0;
}

PartNumber Pusher::Last(SegmentId segment, Line line) const {
  const SegmentLine* found = FindLine(segment, line);
  return found == nullptr ? 0 : found->last();
}

std::optional<PartNumber> Pusher::LastOf(SegmentId segment, TableId table, uint64_t push) const {
  const SegmentLine* found = FindLine(segment, Line::kArrival);
  return found == nullptr ? 0 : found->LastOf(table, push);
}

PartNumber Pusher::Committed(SegmentId segment, Line line) const {
  const SegmentLine* found = FindLine(segment, line);
  return found == nullptr ? 0 : found->committed();
}

PartNumber Pusher::SealedAt(SegmentId segment, Line line, Clock clock) const {
  const SegmentLine* found = FindLine(segment, line);
  if (Planted(Bug::kSealedShort) && clock > 0) --clock;
  return found == nullptr ? 0 : found->SealedAt(clock);
}

std::string Pusher::AllSeals() {
  NumberAll();
  std::string seals;
  for (const auto& line : lines_) {
    if (line == nullptr || line->last() == 0) continue;
    wire::Append(
        wire::Seal{.segment = line->segment(), .run = 1, .line = line->kind(), .number = line->last()},
        seals);
  }
  return seals;
}

}  // namespace paceline::sdk
