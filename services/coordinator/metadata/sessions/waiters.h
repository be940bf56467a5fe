#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paceline::coordinator {

// Identifies a waiting request, so that it can be given up. 0: the request does not wait, it was answered.
using Ticket = uint64_t;

// Receives the answer to a request, once.
template <class Reply>
using Done = std::function<void(absl::StatusOr<Reply>)>;

// The event that a request waits for.
enum class Awaited { kOpen, kJoin, kFinish, kClose };

// Requests that wait for an event of a session, each with its deadline. Stores them and decides nothing.
// Single owner, no locks; O(log n), plus the size of the result.
class Waiters {
 public:
  // Called once; OK when the session has reached the state.
  using Answer = std::function<void(const absl::Status&)>;
  struct Waiter {
    uint64_t session = 0;
    Awaited awaited = Awaited::kOpen;
    absl::Time deadline;
    Answer answer;
  };

  // A ticket for Add. A request that waits for one thing and then another keeps its ticket.
  Ticket NewTicket() { return ++last_ticket_; }
  // REQUIRES: no waiter has this ticket now.
  void Add(Ticket ticket, Waiter waiter);

  // Each removes and returns the requests that it names, the oldest first.
  std::vector<Waiter> Take(uint64_t session, Awaited awaited);
  std::vector<Waiter> TakeAll(uint64_t session);
  std::vector<Waiter> TakeEverything();
  std::vector<Waiter> TakeExpired(absl::Time now);
  // At most one.
  std::vector<Waiter> Take(Ticket ticket);

  bool Has(uint64_t session) const { return by_session_.contains(session); }
  bool Has(uint64_t session, Awaited awaited) const;
  absl::Time NextDeadline() const;
  size_t size() const { return waiters_.size(); }
  // Ascending.
  std::vector<uint64_t> Sessions() const;

 private:
  std::vector<Waiter> Take(const std::vector<Ticket>& tickets);

  std::map<Ticket, Waiter> waiters_;
  std::map<uint64_t, std::set<Ticket>> by_session_;
  std::set<std::pair<absl::Time, Ticket>> by_deadline_;
  Ticket last_ticket_ = 0;
};

}  // namespace paceline::coordinator
