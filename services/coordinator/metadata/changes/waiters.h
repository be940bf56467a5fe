#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/coordinator/metadata/changes/subject.h"
#include "services/coordinator/metadata/facts/context.h"

namespace paceline::coordinator {

// Identifies a waiting request, so that it can be given up. 0: the request does not wait, it was answered.
using Ticket = uint64_t;

// Receives the answer to a request, once.
template <class Reply>
using Done = std::function<void(absl::StatusOr<Reply>)>;

// The event of its subject that a request waits for. Only sessions have others than kDone.
enum class Awaited { kDone, kOpen, kJoin, kFinish, kClose };

// All requests that wait: each for an event of a subject, and no longer than until its deadline. Whoever
// makes the event answers them. Single owner, no locks; O(log n), plus the number of requests answered.
class Waiters {
 public:
  using Answer = std::function<void(const absl::Status&)>;
  struct Waiter {
    Subject subject;
    Awaited awaited = Awaited::kDone;
    absl::Time deadline;
    // Called once; OK when the event has come.
    Answer answer;
    // The answer at the deadline: names whom the request waits for.
    std::function<absl::Status()> expired;
    // Called after an answer that no event brought, but the deadline, or that waiting is hopeless, or that
    // the request is `abandoned`. May be empty.
    std::function<void(bool abandoned)> left = nullptr;
  };

  // `hopeless`: why it is pointless to wait for the subject; OK if it is not.
  Waiters(Context& context, std::function<absl::Status(Subject)> hopeless)
      : context_(context), hopeless_(std::move(hopeless)) {}

  // The earlier of `given` and the request's own timeout.
  absl::Time DeadlineOf(absl::Time given, uint32_t timeout_ms) const;
  // Passes `answer` to `done` at the end of the visit. Returns 0, the ticket of a request that does not wait.
  template <class Reply>
  Ticket Tell(const Done<Reply>& done, absl::StatusOr<Reply> answer) {
    context_.outbox.Add([done, answer = std::move(answer)] { done(answer); });
    return 0;
  }
  // An answer that tells `done` the reply as it is then, or the error.
  template <class Reply>
  Answer Telling(
      Done<Reply> done, std::function<Reply()> reply = [] { return Reply(); }) {
    return [this, done = std::move(done), reply = std::move(reply)](const absl::Status& status) {
      Tell(done, status.ok() ? absl::StatusOr<Reply>(reply()) : status);
    };
  }

  // A ticket for Await.
  Ticket NewTicket() { return ++last_ticket_; }
  // Keeps the request until it is answered. Without a ticket it gets a new one; one that has waited for
  // something else before keeps its own. kResourceExhausted: too many wait.
  absl::StatusOr<Ticket> Await(Waiter waiter, Ticket ticket = 0);
  // Removes a request without an answer. False: it does not wait any more.
  bool Take(Ticket ticket);

  // Each answers the requests that it names, the oldest first.
  void AnswerOne(Ticket ticket, const absl::Status& status);
  void AnswerFor(Subject subject, Awaited awaited, const absl::Status& status);
  void AnswerAll(Subject subject, const absl::Status& status);
  void AnswerEverything(const absl::Status& why);
  // The client has gone. Does nothing if the request was answered already.
  void Abandon(Ticket ticket);
  // Answers those for which it is pointless to wait, and those whose deadline has passed.
  void OnTime();

  bool Has(Subject subject) const { return by_subject_.contains(subject); }
  bool Has(Subject subject, Awaited awaited) const { return !Of(subject, awaited).empty(); }
  absl::Time NextDeadline() const;
  size_t size() const { return waiters_.size(); }

 private:
  std::vector<Ticket> Of(Subject subject) const;
  std::vector<Ticket> Of(Subject subject, Awaited awaited) const;
  std::vector<Waiter> TakeThese(const std::vector<Ticket>& tickets);
  void AnswerThese(const std::vector<Ticket>& tickets, const absl::Status& status);

  Context& context_;
  const std::function<absl::Status(Subject)> hopeless_;
  std::map<Ticket, Waiter> waiters_;
  std::map<Subject, std::set<Ticket>> by_subject_;
  std::set<std::pair<absl::Time, Ticket>> by_deadline_;
  Ticket last_ticket_ = 0;
};

}  // namespace paceline::coordinator
