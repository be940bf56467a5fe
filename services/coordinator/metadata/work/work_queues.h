#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/sessions/sessions.h"
#include "services/coordinator/metadata/work/work_book.h"

namespace paceline::coordinator {

// The work queues of all jobs (docs/work.md). A session holds items until it has done them, gives them back,
// or is closed in every segment: that is its lease, so none runs out while no coordinator is there. Who holds
// what is in the store before anybody is told; marks of items that are begun may reach it a little later.
class WorkQueues {
 public:
  WorkQueues(Context& context, Sessions& sessions) : context_(context), sessions_(sessions) {}

  // Takes up what the store has. Call once, before anything else.
  void Start();

  absl::StatusOr<v1::OpenWorkReply> Open(const v1::OpenWorkRequest& request);
  absl::StatusOr<v1::ReportWorkReply> Report(const v1::ReportWorkRequest& request);
  // Takes back the work of sessions that have ended, and forgets queues whose job is gone.
  void OnTime();

  // The queues of a job, for people.
  std::vector<v1::WorkStatus> Of(uint32_t job) const;
  struct Gauge {
    uint32_t job = 0;
    std::string job_name;
    v1::WorkStatus status;
  };
  std::vector<Gauge> gauges() const;

 private:
  struct Queue {
    explicit Queue(const WorkQueueRecord& record) : book(record) {}
    WorkBook book;
    std::map<uint64_t, WorkHeld> held;  // by session
    // Soft state: the next coordinator begins anew.
    std::map<uint64_t, absl::Time> stored;                 // when a session's marks were, by session
    std::map<uint64_t, uint32_t> asked_back;               // items that a session is to give back
    std::deque<std::pair<absl::Time, uint64_t>> progress;  // examples done, over the last minute

    size_t Outstanding() const;
    // The first item that a session beside this one holds; UINT64_MAX: there is none.
    uint64_t Oldest(uint64_t beside) const;
    // Sessions that hold something, without this one.
    size_t Holders(uint64_t beside) const;
  };

  absl::StatusOr<uint32_t> Create(uint32_t job, const v1::OpenWorkRequest& request);
  v1::ReportWorkReply ReplyOf(Queue& queue, uint64_t session) const;
  // The record of all that the session holds, with `held` of this queue.
  WorkHeldRecord RecordOf(uint64_t session, uint32_t id, const WorkHeld& held) const;
  WorkQueueRecord RecordOf(uint32_t id, const WorkBook& book) const;
  void AskBack(Queue& queue, uint64_t for_whom);
  bool HasEnded(uint64_t session) const;
  void ReclaimEnded();
  absl::Status Reclaim(uint64_t session);
  void ForgetGone();
  std::string WaitsFor(const Queue& queue, uint64_t session) const;
  void NoteProgress(Queue& queue);
  v1::WorkStatus StatusOf(uint32_t id, const Queue& queue) const;

  Context& context_;
  Sessions& sessions_;
  std::map<uint32_t, Queue> queues_;
};

}  // namespace paceline::coordinator
