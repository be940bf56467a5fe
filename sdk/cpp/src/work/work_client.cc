#include "sdk/cpp/src/work/work_client.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/cpp/src/push/filter/push_filters.h"

namespace paceline::sdk {
namespace {

// As many as a session may hold (docs/work.md).
constexpr uint32_t kHeldMax = 256;
constexpr absl::Duration kReportEvery = absl::Seconds(1);
// Between two reports, whatever happens.
constexpr absl::Duration kReportGap = absl::Milliseconds(50);
constexpr absl::Duration kAskAgain = absl::Milliseconds(200);
// Wanted before it is known how long an item takes.
constexpr uint32_t kFirstAhead = 2;
// Weight of the newest item in the average.
constexpr double kNewest = 0.3;

}  // namespace

WorkClient::WorkClient(Context& context, Session& session, const Pusher& pusher, Work work)
    : context_(context),
      session_(session),
      pusher_(pusher),
      work_(std::move(work)),
      ask_again_(kAskAgain),
      backoff_(context.backoff) {
  ReportBy(context_.Now());  // the first items come while the program gets ready
}

size_t WorkClient::Count(State state) const {
  return static_cast<size_t>(
      std::ranges::count_if(mine_, [state](const auto& item) { return item.second.state == state; }));
}

bool WorkClient::busy() const {
  return Count(State::kBegun) > 0;
}

std::optional<Waiting> WorkClient::Waits() const {
  if (waiting_.empty()) return std::nullopt;
  return Waiting{.what = absl::StrCat("next item of work queue '", work_.name, "'"),
                 .since = waiting_.front().since,
                 .whom = waits_for_.empty() ? "the coordinator's answer" : waits_for_};
}

// -- items --

void WorkClient::Next(absl::Duration timeout, ItemCallback done) {
  Caller& caller =
      waiting_.emplace_back(Caller{.since = context_.Now(), .timer = {}, .done = std::move(done)});
  if (timeout != absl::InfiniteDuration()) {
    const auto it = std::prev(waiting_.end());
    caller.timer = context_.timers.At(context_.Now() + timeout, [this, it, timeout] {
      Caller late = std::move(*it);
      const std::string whom = Waits()->whom;
      waiting_.erase(it);
      Answer(late, absl::DeadlineExceededError(absl::StrCat(
                       "next item of work queue '", work_.name, "': waited ", absl::FormatDuration(timeout),
                       " for ", whom, "; call it again to go on waiting")));
    });
  }
  Serve();
  if (!waiting_.empty()) urgent_ = true;
  Plan();
}

WorkItem WorkClient::Begin(uint64_t number, Mine& mine) {
  mine.state = State::kBegun;
  mine.begun = context_.Now();
  const wire::WorkRange range = wire::RangeOf(work_.spec, number);
  return {.pass = range.pass, .begin = mine.mark, .end = range.end, .number = number};
}

void WorkClient::Serve() {
  while (!waiting_.empty()) {
    const auto next =
        std::ranges::find_if(mine_, [](const auto& item) { return item.second.state == State::kAhead; });
    absl::StatusOr<std::optional<WorkItem>> item = std::nullopt;
    if (!context_.failure.ok()) {
      item = context_.failure;
    } else if (!failure_.ok()) {
      item = failure_;
    } else if (left_) {
      item = absl::FailedPreconditionError(
          absl::StrCat("work queue '", work_.name,
                       "': this worker has left it; connect a new client to take part in it again"));
    } else if (next != mine_.end()) {
      item = Begin(next->first, next->second);
    } else if (!complete_) {
      return;
    }
    Caller caller = std::move(waiting_.front());
    waiting_.pop_front();
    Answer(caller, std::move(item));
  }
}

void WorkClient::Answer(Caller& caller, absl::StatusOr<std::optional<WorkItem>> item) {
  context_.timers.Cancel(caller.timer);
  context_.stats.wait.work += absl::ToDoubleSeconds(context_.Now() - caller.since);
  context_.deferred.Tell(std::move(caller.done), std::move(item));
}

absl::StatusOr<WorkClient::Mine*> WorkClient::Begun(const WorkItem& item, absl::string_view what) {
  if (!context_.failure.ok()) return context_.failure;
  const auto it = mine_.find(item.number);
  if (it != mine_.end() && it->second.state == State::kBegun) return &it->second;
  return absl::InvalidArgumentError(absl::StrCat(what, ": item ", item.number, " of work queue '", work_.name,
                                                 "' is not one that this worker has begun; mark it before "
                                                 "Done or Leave"));
}

absl::Status WorkClient::Mark(const WorkItem& item, uint64_t position) {
  const absl::StatusOr<Mine*> mine = Begun(item, "mark");
  if (!mine.ok()) return mine.status();
  const wire::WorkRange range = wire::RangeOf(work_.spec, item.number);
  if (position < range.begin || position > range.end) {
    return absl::InvalidArgumentError(absl::StrCat("mark: position ", position, "; item ", item.number,
                                                   " is the examples from ", range.begin, " to ", range.end));
  }
  const uint64_t last = (*mine)->marks.empty() ? (*mine)->mark : (*mine)->marks.back().first;
  // What is held back of these examples would be lost with this worker, and not trained again.
  if (position <= last || context_.filters->holds()) return absl::OkStatus();
  (*mine)->marks.emplace_back(position, pusher_.Now());
  // A mark per example would make a long list: what is between two of them may be left out.
  constexpr size_t kMarksMax = 64;
  if ((*mine)->marks.size() > kMarksMax) (*mine)->marks.erase((*mine)->marks.end() - 2);
  Plan();
  return absl::OkStatus();
}

absl::Status WorkClient::Done(const WorkItem& item) {
  const absl::StatusOr<Mine*> mine = Begun(item, "done");
  if (!mine.ok()) return mine.status();
  context_.send_held_back();
  // Pushes after the last mark count too, so its end has a mark of its own.
  const wire::WorkRange range = wire::RangeOf(work_.spec, item.number);
  (*mine)->marks.emplace_back(range.end, pusher_.Now());
  (*mine)->state = State::kDone;
  NotePace(**mine);
  Plan();
  return absl::OkStatus();
}

// Threads that share the queue end items side by side: what counts is the time between two ends.
void WorkClient::NotePace(const Mine& mine) {
  const absl::Duration took = context_.Now() - std::max(last_done_, mine.begun);
  last_done_ = context_.Now();
  per_item_ = per_item_ == absl::ZeroDuration() ? took : per_item_ * (1 - kNewest) + took * kNewest;
  per_item_ = std::max(per_item_, absl::Microseconds(1));
}

bool WorkClient::Settle(Mine& mine) const {
  while (!mine.marks.empty() && pusher_.Committed(mine.marks.front().second)) {
    mine.mark = mine.marks.front().first;
    mine.marks.pop_front();
  }
  return mine.marks.empty();
}

// -- the end --

void WorkClient::Leave(absl::Duration timeout, sdk::Done done) {
  context_.send_held_back();
  left_ = true;
  for (auto& [number, mine] : mine_) {
    if (mine.state == State::kAhead || mine.state == State::kBegun) mine.state = State::kGivenBack;
  }
  Leaver& leaver = leaving_.emplace_back(Leaver{.timer = {}, .done = std::move(done)});
  const auto it = std::prev(leaving_.end());
  if (timeout != absl::InfiniteDuration()) {
    leaver.timer = context_.timers.At(context_.Now() + timeout, [this, it, timeout] {
      absl::Status status = absl::DeadlineExceededError(absl::StrCat(
          "leave work queue '", work_.name, "': ", mine_.size(), " items are not given back or done; waited ",
          absl::FormatDuration(timeout), " for pushes that are not committed, or for the coordinator",
          waits_for_.empty() ? "" : absl::StrCat(": ", waits_for_), "; call it again to go on waiting"));
      context_.deferred.Tell(std::move(it->done), status);
      leaving_.erase(it);
    });
  }
  if (!context_.failure.ok()) return EndLeaving(context_.failure);
  if (!failure_.ok()) return EndLeaving(failure_);
  // A report that is under way may still bring items.
  if (mine_.empty() && !under_way_) EndLeaving(absl::OkStatus());
  Serve();
  urgent_ = true;
  Plan();
}

void WorkClient::EndLeaving(const absl::Status& status) {
  for (Leaver& leaver : leaving_) {
    context_.timers.Cancel(leaver.timer);
    context_.deferred.Tell(std::move(leaver.done), status);
  }
  leaving_.clear();
}

void WorkClient::Fail(const absl::Status& why) {
  if (failure_.ok()) failure_ = why;
  context_.timers.Cancel(timer_);
  timer_at_ = absl::InfiniteFuture();
  Serve();
  EndLeaving(why);
}

// -- reports --

uint32_t WorkClient::Wanted() const {
  if (left_) return 0;
  uint32_t wanted = kFirstAhead;
  if (per_item_ > absl::ZeroDuration()) {
    const double items = std::ceil(absl::FDivDuration(work_.ahead, per_item_));
    wanted = static_cast<uint32_t>(std::clamp<double>(items, 1, kHeldMax));
  }
  return std::max(wanted, static_cast<uint32_t>(std::min<size_t>(waiting_.size(), kHeldMax)));
}

void WorkClient::ReportBy(absl::Time when) {
  if (when >= timer_at_) return;
  context_.timers.Cancel(timer_);
  timer_at_ = when;
  timer_ = context_.timers.At(when, [this] {
    timer_at_ = absl::InfiniteFuture();
    Report();
  });
}

// Decides when the next report is due.
void WorkClient::Plan() {
  if (under_way_ || !failure_.ok() || !context_.failure.ok() || backoff_.failures() > 0) return;
  const absl::Time soonest = last_report_ + kReportGap;
  const bool more = !complete_ && !left_;
  if (urgent_) return ReportBy(std::max(soonest, context_.Now()));
  if (!waiting_.empty()) return ReportBy(std::max(last_report_ + ask_again_, context_.Now()));
  if (left_ && !mine_.empty()) return ReportBy(std::max(last_report_ + 2 * kReportGap, context_.Now()));
  const bool low = more && got_some_ && Count(State::kAhead) * 2 < Wanted();
  if (low) return ReportBy(std::max(soonest, context_.Now()));
  // Those that hold something hear once a second whether others want it.
  if (!mine_.empty() || more) ReportBy(std::max(last_report_ + kReportEvery, context_.Now()));
}

v1::ReportWorkRequest WorkClient::Request() {
  std::map<uint64_t, wire::HeldItem> begun;
  std::map<uint64_t, wire::HeldItem> done;
  std::map<uint64_t, wire::HeldItem> given_back;
  for (auto& [number, mine] : mine_) {
    const bool settled = Settle(mine);
    const wire::HeldItem plain{.mark = wire::RangeOf(work_.spec, number).begin};
    const bool was_begun = mine.begun != absl::Time();
    if (was_begun) begun[number] = {.mark = mine.mark, .begun = true};
    mine.sent = settled && (mine.state == State::kDone || mine.state == State::kGivenBack);
    if (mine.sent) (mine.state == State::kDone ? done : given_back)[number] = plain;
  }
  v1::ReportWorkRequest request;
  request.set_queue(work_.queue);
  request.set_number(++reports_);
  *request.mutable_begun() = wire::ToItems(work_.spec, begun);
  *request.mutable_done() = wire::ToItems(work_.spec, done);
  *request.mutable_given_back() = wire::ToItems(work_.spec, given_back);
  request.set_ahead(Wanted());
  request.set_waiting(static_cast<uint32_t>(waiting_.size()));
  return request;
}

void WorkClient::Report() {
  if (under_way_ || !failure_.ok() || !context_.failure.ok()) return;
  under_way_ = true;
  urgent_ = false;
  last_report_ = context_.Now();
  v1::ReportWorkRequest request = Request();
  const uint64_t number = request.number();
  session_.ReportWork(std::move(request), [this, number](absl::StatusOr<v1::ReportWorkReply> reply) {
    OnReply(number, std::move(reply));
  });
}

void WorkClient::OnReply(uint64_t number, absl::StatusOr<v1::ReportWorkReply> reply) {
  under_way_ = false;
  if (!context_.failure.ok()) return Fail(context_.failure);
  if (reply.ok() && reply->number() != number) reply = absl::UnavailableError("a report came out of turn");
  const absl::Status& status = reply.status();
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    waits_for_ = absl::StrCat("the coordinator: ", status.message());
    return ReportBy(context_.Now() + std::max(kReportGap, backoff_.Next(context_.random.Next())));
  }
  if (!status.ok()) return Fail(status);
  backoff_.Reset();
  if (const absl::Status valid = wire::CheckItems(work_.spec, "held", reply->held(), kHeldMax); !valid.ok()) {
    return Fail(absl::InternalError(
        absl::StrCat("work queue '", work_.name, "': the coordinator answers: ", valid.message())));
  }
  Take(*reply);
  if (left_ && mine_.empty()) EndLeaving(absl::OkStatus());
  Serve();
  Plan();
}

void WorkClient::Take(const v1::ReportWorkReply& reply) {
  const std::map<uint64_t, wire::HeldItem> held = wire::FromItems(work_.spec, reply.held());
  // What was done or given back is settled; if it is there again, it was handed out anew.
  std::erase_if(mine_, [&](const auto& item) { return item.second.sent || !held.contains(item.first); });
  got_some_ = false;
  for (const auto& [number, item] : held) {
    const auto [it, fresh] = mine_.try_emplace(number);
    Mine& mine = it->second;
    mine.mark = std::max(mine.mark, item.mark);
    if (fresh && left_) mine.state = State::kGivenBack;
    got_some_ |= fresh;
  }
  complete_ = reply.complete();
  waits_for_ = reply.waits_for();
  ask_again_ = std::max(kReportGap, absl::Milliseconds(reply.ask_again_ms()));
  GiveBack(reply.give_back());
}

// The last ones: what comes first is begun next.
void WorkClient::GiveBack(uint32_t items) {
  for (auto it = mine_.rbegin(); it != mine_.rend() && items > 0; ++it) {
    if (it->second.state != State::kAhead) continue;
    it->second.state = State::kGivenBack;
    urgent_ = true;
    --items;
  }
}

}  // namespace paceline::sdk
