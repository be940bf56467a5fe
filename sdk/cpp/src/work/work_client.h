#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/retry.h"
#include "libs/wire/work_items.h"
#include "paceline/v1/coordinator.pb.h"
#include "paceline/work.h"
#include "sdk/cpp/src/push/pusher.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/session/session.h"
#include "sdk/cpp/src/session/wait_reports.h"

namespace paceline::sdk {

// A client's part of a work queue: the items that it holds, what it has done of them, and its reports to the
// coordinator. Each report says everything that the coordinator may not know yet, and each answer everything
// that this client holds; so it does not matter which of them are lost.
//
// More than 15 members: a report is made of all of them, and so is what is asked again.
class WorkClient {
 public:
  using ItemCallback = absl::AnyInvocable<void(absl::StatusOr<std::optional<WorkItem>>)>;

  struct Work {
    std::string name;
    uint32_t queue = 0;
    v1::WorkSpec spec;
    absl::Duration ahead;
  };
  // References must outlive it.
  WorkClient(Context& context, Session& session, const Pusher& pusher, Work work);

  // See WorkQueue. Callbacks run after the visit.
  void Next(absl::Duration timeout, ItemCallback done);
  absl::Status Mark(const WorkItem& item, uint64_t position);
  absl::Status Done(const WorkItem& item);
  void Leave(absl::Duration timeout, sdk::Done done);
  // Ends all calls.
  void Fail(const absl::Status& why);
  void SetAhead(absl::Duration ahead) { work_.ahead = ahead; }

  // A call waits for an item.
  bool waiting() const { return !waiting_.empty(); }
  // An item is begun, and its user has not said that it is done.
  bool busy() const;
  // The oldest call that waits; nullopt: none does.
  std::optional<Waiting> Waits() const;

 private:
  enum class State : uint8_t { kAhead, kBegun, kDone, kGivenBack };
  struct Mine {
    State state = State::kAhead;
    uint64_t mark = 0;  // committed
    // Positions that are not committed yet, ascending.
    std::deque<std::pair<uint64_t, Pusher::Point>> marks = {};
    absl::Time begun = {};
    bool sent = false;  // its end was in the last report
  };
  struct Caller {
    absl::Time since;
    Timers::Id timer;
    ItemCallback done;
  };
  struct Leaver {
    Timers::Id timer;
    sdk::Done done;
  };

  absl::StatusOr<Mine*> Begun(const WorkItem& item, absl::string_view what);
  WorkItem Begin(uint64_t number, Mine& mine);
  // Hands items to waiting calls, and tells them of the end.
  void Serve();
  void Answer(Caller& caller, absl::StatusOr<std::optional<WorkItem>> item);
  void NotePace(const Mine& mine);
  // Takes marks whose pushes are committed by now. True: all are.
  bool Settle(Mine& mine) const;

  // -- reports --
  void ReportBy(absl::Time when);
  void Plan();
  void Report();
  v1::ReportWorkRequest Request();
  uint32_t Wanted() const;
  void OnReply(uint64_t number, absl::StatusOr<v1::ReportWorkReply> reply);
  void Take(const v1::ReportWorkReply& reply);
  void GiveBack(uint32_t items);
  void EndLeaving(const absl::Status& status);
  size_t Count(State state) const;

  Context& context_;
  Session& session_;
  const Pusher& pusher_;
  Work work_;
  std::map<uint64_t, Mine> mine_;  // by number
  std::list<Caller> waiting_;
  std::list<Leaver> leaving_;
  bool left_ = false;
  bool complete_ = false;
  absl::Status failure_;
  std::string waits_for_;
  absl::Duration ask_again_;
  absl::Duration per_item_ = absl::ZeroDuration();  // recent average; 0: not known yet
  absl::Time last_done_ = absl::InfinitePast();

  uint64_t reports_ = 0;  // counts them
  bool under_way_ = false;
  bool got_some_ = true;  // the last answer brought items
  bool urgent_ = false;   // something happened that should be told soon
  absl::Time last_report_ = absl::InfinitePast();
  Backoff backoff_;
  Timers::Id timer_;
  absl::Time timer_at_ = absl::InfiniteFuture();
};

}  // namespace paceline::sdk
