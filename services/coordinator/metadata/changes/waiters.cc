#include "services/coordinator/metadata/changes/waiters.h"

#include <algorithm>

#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {

absl::Time Waiters::DeadlineOf(absl::Time given, uint32_t timeout_ms) const {
  const absl::Duration own =
      timeout_ms == 0 ? context_.options.request_timeout : absl::Milliseconds(timeout_ms);
  return std::min(given, context_.now + own);
}

absl::StatusOr<Ticket> Waiters::Await(Waiter waiter, Ticket ticket) {
  const size_t limit = context_.options.limits.requests;
  if (waiters_.size() >= limit) return TooMany("requests", limit, "try again later");
  if (ticket == 0) ticket = NewTicket();
  by_subject_[waiter.subject].insert(ticket);
  by_deadline_.emplace(waiter.deadline, ticket);
  waiters_.emplace(ticket, std::move(waiter));
  return ticket;
}

std::vector<Waiters::Waiter> Waiters::TakeThese(const std::vector<Ticket>& tickets) {
  std::vector<Waiter> taken;
  for (const Ticket ticket : tickets) {
    auto node = waiters_.extract(ticket);
    if (node.empty()) continue;
    Waiter& waiter = node.mapped();
    by_deadline_.erase({waiter.deadline, ticket});
    std::set<Ticket>& of_subject = by_subject_[waiter.subject];
    of_subject.erase(ticket);
    if (of_subject.empty()) by_subject_.erase(waiter.subject);
    taken.push_back(std::move(waiter));
  }
  return taken;
}

bool Waiters::Take(Ticket ticket) {
  return !TakeThese({ticket}).empty();
}

// -- answers --

void Waiters::AnswerThese(const std::vector<Ticket>& tickets, const absl::Status& status) {
  for (const Waiter& waiter : TakeThese(tickets)) waiter.answer(status);
}

void Waiters::AnswerOne(Ticket ticket, const absl::Status& status) {
  AnswerThese({ticket}, status);
}

void Waiters::AnswerFor(Subject subject, Awaited awaited, const absl::Status& status) {
  AnswerThese(Of(subject, awaited), status);
}

void Waiters::AnswerAll(Subject subject, const absl::Status& status) {
  AnswerThese(Of(subject), status);
}

void Waiters::AnswerEverything(const absl::Status& why) {
  std::vector<Ticket> tickets;
  for (const auto& [ticket, waiter] : waiters_) tickets.push_back(ticket);
  AnswerThese(tickets, why);
}

void Waiters::Abandon(Ticket ticket) {
  for (const Waiter& waiter : TakeThese({ticket})) {
    waiter.answer(absl::CancelledError("the client gave the call up"));
    if (waiter.left) waiter.left(/*abandoned=*/true);
  }
}

void Waiters::OnTime() {
  std::vector<Subject> subjects;
  for (const auto& [subject, tickets] : by_subject_) subjects.push_back(subject);
  for (const Subject subject : subjects) {
    const absl::Status why = hopeless_(subject);
    if (why.ok()) continue;
    for (const Waiter& waiter : TakeThese(Of(subject))) {
      waiter.answer(why);
      if (waiter.left) waiter.left(/*abandoned=*/false);
    }
  }
  std::vector<Ticket> expired;
  for (const auto& [deadline, ticket] : by_deadline_) {
    if (deadline > context_.now) break;
    expired.push_back(ticket);
  }
  for (const Waiter& waiter : TakeThese(expired)) {
    waiter.answer(waiter.expired());
    if (waiter.left) waiter.left(/*abandoned=*/false);
  }
}

// -- questions --

std::vector<Ticket> Waiters::Of(Subject subject) const {
  const auto it = by_subject_.find(subject);
  if (it == by_subject_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

std::vector<Ticket> Waiters::Of(Subject subject, Awaited awaited) const {
  std::vector<Ticket> tickets = Of(subject);
  std::erase_if(tickets, [&](Ticket ticket) { return waiters_.at(ticket).awaited != awaited; });
  return tickets;
}

absl::Time Waiters::NextDeadline() const {
  return by_deadline_.empty() ? absl::InfiniteFuture() : by_deadline_.begin()->first;
}

}  // namespace paceline::coordinator
