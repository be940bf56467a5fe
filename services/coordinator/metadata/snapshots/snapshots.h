#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/changes/clock_proposal.h"
#include "services/coordinator/metadata/changes/fan_out.h"
#include "services/coordinator/metadata/changes/subject.h"
#include "services/coordinator/metadata/changes/waiters.h"
#include "services/coordinator/metadata/facts/context.h"
#include "services/coordinator/metadata/members/membership.h"
#include "services/coordinator/metadata/sessions/workers.h"
#include "services/coordinator/metadata/snapshots/snapshot_files.h"

namespace paceline::coordinator {

// Takes, lists, deletes and loads snapshots of jobs. docs/snapshots.md.
//
// Taking one: its folder is made, the coordinator proposes a clock beyond all that it knows, and a fan-out
// asks every segment for a file of its rows as of its cut at that clock. If a segment is past the clock, or
// its primary has changed since the cut, another proposal follows, with a new id. When all files are there
// the manifest is written. Without workers each segment is cut at once, and no session joins until all are
// cut, within a limit. Nothing of this is stored: a snapshot that was not completed does not exist, and the
// caller asks again.
//
// Loading one is an intent: a new job with new tables is committed, which cannot be found by name yet. A
// fan-out makes every segment load its rows. Then one commit makes the job visible, and decides the end of
// the job that it replaces.
class Snapshots {
 public:
  // No session joins a job that is being cut at once for at most this long. Cuts are logged within a round
  // trip; if they fail for longer, sessions join, and the snapshot may not be exact.
  static constexpr absl::Duration kHoldJoinsMax = absl::Seconds(30);
  // A schedule waits for a change of rates that is at most this many clocks ahead; otherwise its snapshot
  // fails.
  static constexpr uint64_t kRatesSoon = 16;

  Snapshots(Context& context, Membership& membership, Workers& workers, FanOuts& fan_outs, Waiters& waiters)
      : context_(context),
        membership_(membership),
        workers_(workers),
        fan_outs_(fan_outs),
        waiters_(waiters) {}

  // Takes up every load found in the store. Call before anything else.
  void Start();

  // -- requests (job_snapshots.proto) --
  // `scheduled`: taken by a schedule; it ends (kUnavailable) when a client asks for a snapshot of the job.
  absl::StatusOr<Ticket> Create(const v1::CreateSnapshotRequest& request, absl::Time deadline,
                                const Done<v1::CreateSnapshotReply>& done, bool scheduled = false);
  absl::StatusOr<Ticket> List(const v1::ListSnapshotsRequest& request, absl::Time deadline,
                              const Done<v1::ListSnapshotsReply>& done);
  absl::StatusOr<Ticket> Delete(const v1::DeleteSnapshotRequest& request, absl::Time deadline,
                                const Done<v1::DeleteSnapshotReply>& done);
  absl::StatusOr<Ticket> Restore(const v1::RestoreSnapshotRequest& request, absl::Time deadline,
                                 const Done<v1::RestoreSnapshotReply>& done);

  // -- events --
  void OnNamedEverywhere(Subject subject);
  void OnClockPassed(const v1::Change& change, uint64_t clock);
  void OnReply(const v1::Change& change, const v1::ChangeReply& reply);
  // A load needs a new number, a cut is proposed anew.
  void OnLate(Subject subject);
  void OnTime();
  absl::Time NextTry() const;
  // Forgets the snapshots that are being taken; their requests are answered by others.
  void StopAll() { creations_.clear(); }
  // A segment has begun empty. A load asks it to load its rows again; a snapshot being taken, which has lost
  // a part, is given up.
  void OnEmptied();

  // True if no session may become a worker of the job now.
  bool HoldsJoins(uint32_t job) const;
  // OK if snapshots are configured.
  absl::Status CheckKept() const;
  // Removes the rows that were loaded so far. REQUIRES: a snapshot is being loaded into the job. `nonce` is
  // that of the request to delete the job; 0: there is none, or it has none.
  absl::Status GiveUpLoad(uint32_t job, const std::string& why, uint64_t nonce = 0);

  struct Counters {
    uint64_t taken = 0;  // since this coordinator began to lead
    uint64_t failed = 0;
    uint64_t loaded = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  // A snapshot that is being taken.
  struct Creation {
    v1::CreateSnapshotRequest request;
    std::string folder;   // empty: not made yet
    uint64_t cut = 0;     // of the last proposal …
    uint64_t change = 0;  // … and the number of its change
    uint64_t clock = 0;
    bool scheduled = false;
    bool asked = false;  // its folder is made, and the segments were asked
    bool at_once = false;
    bool hold_joins = false;
    absl::Time hold_until = absl::InfiniteFuture();  // counted from when they were held first
    ClockProposal proposal;
    std::map<uint32_t, v1::SnapshotFile> files;  // by segment
    bool complete = false;                       // its manifest is being written
    v1::CreateSnapshotReply reply;
  };
  // A request to load a snapshot.
  struct Restoring {
    v1::RestoreSnapshotRequest request;
    absl::Time deadline;
    Done<v1::RestoreSnapshotReply> done;
  };

  // Runs work(files) where it may block, then then(result) in a visit.
  template <class Result>
  void OnFiles(std::function<Result(snapshot::Files&)> work, std::function<void(Result)> then);

  // The same for a request, which waits no longer then. Does not call `then` if it did not wait any more.
  template <class Reply, class Result>
  absl::StatusOr<Ticket> RunErrand(absl::Time deadline, const Done<Reply>& done,
                                   std::function<Result(snapshot::Files&)> work,
                                   std::function<void(Ticket, const Result&)> then);

  // -- snapshots.cc --
  // `above`: the cut's number must be larger.
  absl::Status Begin(uint32_t job, uint64_t above = 0);
  absl::Status Propose(uint32_t job, uint64_t known);
  void OnLateCut(uint32_t job);
  absl::Status Ask(uint32_t job, uint64_t known);
  absl::Status CheckRatesAreSoon(uint32_t job, bool at_work, uint64_t newest) const;
  absl::Status DrawCut(Creation& creation, uint64_t above = 0);
  uint64_t NewestRates(uint32_t job) const;
  bool RatesAreChanging(uint32_t job) const;
  void Complete(uint32_t job);
  void OnManifest(uint32_t job, uint64_t cut, const v1::SnapshotManifest& manifest,
                  const absl::Status& written);
  v1::SnapshotManifest ManifestOf(uint32_t job, const Creation& creation) const;
  // Answers the request with `why`, and gives the snapshot up.
  void GiveUp(uint32_t job, const absl::Status& why);
  void Discard(uint32_t job);
  absl::Status ExpiredStatus(uint32_t job) const;
  void Delete(const std::string& folder);

  // -- snapshot_loads.cc --
  // Begins what the request wants, unless it has begun, and waits for it.
  absl::StatusOr<Ticket> AwaitLoad(Ticket ticket, const Restoring& restoring,
                                   const absl::StatusOr<v1::SnapshotManifest>& manifest);
  // Begins to load, unless that is under way. Returns the new job.
  absl::StatusOr<uint32_t> BeginLoad(const v1::RestoreSnapshotRequest& request,
                                     const v1::SnapshotManifest& manifest);
  absl::StatusOr<uint32_t> CommitLoad(const std::string& name, const v1::SnapshotManifest& manifest,
                                      uint32_t replaces, uint64_t nonce);
  absl::StatusOr<uint32_t> Replaced(const std::string& name, const v1::RestoreSnapshotRequest& request) const;
  void StartLoad(const JobRecord& job);
  void FinishLoad(uint32_t job);

  Context& context_;
  Membership& membership_;
  Workers& workers_;
  FanOuts& fan_outs_;
  Waiters& waiters_;
  std::map<uint32_t, Creation> creations_;  // by job
  Counters counters_;
};

// -- details --

template <class Result>
void Snapshots::OnFiles(std::function<Result(snapshot::Files&)> work, std::function<void(Result)> then) {
  auto result = std::make_shared<std::optional<Result>>();
  const std::function<void(Result)> enter = AsVisit<Result>(context_, std::move(then));
  context_.outbox.Add([files = context_.options.snapshots, work = std::move(work), result, enter] {
    files->Run([work, result](snapshot::Files& at) { *result = work(at); },
               [result, enter] { enter(*std::move(*result)); });
  });
}

template <class Reply, class Result>
absl::StatusOr<Ticket> Snapshots::RunErrand(absl::Time deadline, const Done<Reply>& done,
                                            std::function<Result(snapshot::Files&)> work,
                                            std::function<void(Ticket, const Result&)> then) {
  const absl::StatusOr<Ticket> ticket = waiters_.Await(
      {.subject = Subject::Files(), .deadline = deadline, .answer = waiters_.Telling(done), .expired = [] {
         return absl::DeadlineExceededError("snapshots: --snapshot-dir has not answered in time");
       }});
  if (!ticket.ok()) return ticket;
  OnFiles<Result>(std::move(work), [this, ticket = *ticket, then = std::move(then)](const Result& result) {
    if (waiters_.Take(ticket)) then(ticket, result);
  });
  return ticket;
}

}  // namespace paceline::coordinator
