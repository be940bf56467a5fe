#include "services/coordinator/metadata/sessions/waiters.h"

#include <utility>

namespace paceline::coordinator {

void Waiters::Add(Ticket ticket, Waiter waiter) {
  by_session_[waiter.session].insert(ticket);
  by_deadline_.emplace(waiter.deadline, ticket);
  waiters_.emplace(ticket, std::move(waiter));
}

std::vector<Waiters::Waiter> Waiters::Take(const std::vector<Ticket>& tickets) {
  std::vector<Waiter> taken;
  for (const Ticket ticket : tickets) {
    auto node = waiters_.extract(ticket);
    if (node.empty()) continue;
    Waiter& waiter = node.mapped();
    by_deadline_.erase({waiter.deadline, ticket});
    std::set<Ticket>& of_session = by_session_[waiter.session];
    of_session.erase(ticket);
    if (of_session.empty()) by_session_.erase(waiter.session);
    taken.push_back(std::move(waiter));
  }
  return taken;
}

std::vector<Waiters::Waiter> Waiters::Take(Ticket ticket) {
  return Take(std::vector<Ticket>{ticket});
}

std::vector<Waiters::Waiter> Waiters::Take(uint64_t session, Awaited awaited) {
  std::vector<Ticket> tickets;
  if (const auto it = by_session_.find(session); it != by_session_.end()) {
    for (const Ticket ticket : it->second) {
      if (waiters_.at(ticket).awaited == awaited) tickets.push_back(ticket);
    }
  }
  return Take(tickets);
}

std::vector<Waiters::Waiter> Waiters::TakeAll(uint64_t session) {
  const auto it = by_session_.find(session);
  if (it == by_session_.end()) return {};
  return Take(std::vector<Ticket>(it->second.begin(), it->second.end()));
}

std::vector<Waiters::Waiter> Waiters::TakeEverything() {
  std::vector<Ticket> tickets;
  for (const auto& [ticket, waiter] : waiters_) tickets.push_back(ticket);
  return Take(tickets);
}

std::vector<Waiters::Waiter> Waiters::TakeExpired(absl::Time now) {
  std::vector<Ticket> tickets;
  for (const auto& [deadline, ticket] : by_deadline_) {
    if (deadline > now) break;
    tickets.push_back(ticket);
  }
  return Take(tickets);
}

bool Waiters::Has(uint64_t session, Awaited awaited) const {
  const auto it = by_session_.find(session);
  if (it == by_session_.end()) return false;
  for (const Ticket ticket : it->second) {
    if (waiters_.at(ticket).awaited == awaited) return true;
  }
  return false;
}

std::vector<uint64_t> Waiters::Sessions() const {
  std::vector<uint64_t> sessions;
  for (const auto& [session, tickets] : by_session_) sessions.push_back(session);
  return sessions;
}

absl::Time Waiters::NextDeadline() const {
  return by_deadline_.empty() ? absl::InfiniteFuture() : by_deadline_.begin()->first;
}

}  // namespace paceline::coordinator
