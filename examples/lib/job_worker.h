#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "examples/lib/job_options.h"
#include "examples/lib/loss_recorder.h"
#include "examples/lib/progress.h"
#include "examples/lib/steady_now.h"
#include "examples/lib/stop.h"
#include "examples/lib/trace.h"
#include "examples/lib/worker_report.h"
#include "paceline/client.h"

namespace paceline::examples {

// How a worker fares: often, and after its last step.
using TellReport = std::function<void(const WorkerReport&)>;

// What all workers have in common: they join the job, begin, end one clock after the other, and tell how they
// fare. SIGTERM ends a worker in order: its calls return Cancelled, and the session is closed, so that nobody
// waits for it. The time of all calls here counts as that of calls of the SDK.
//
// A worker takes what to do at a clock from what it likes: TrainBatches has a fixed split and a work queue.
// For one thread.
class JobWorker {
 public:
  // With `patient` a rank that another session still has is waited for: see ConnectPatiently. References must
  // outlive the worker.
  JobWorker(const std::string& program, const JobOptions& options, bool patient, const TellReport& tell)
      : program_(program), options_(options), patient_(patient), tell_(tell) {}

  // Connects as the worker of rank options.worker, once the others are there too.
  absl::Status Join();
  const JobOptions& options() const { return options_; }
  // After Join.
  Client& client() { return *client_; }
  // The training begins: of `steps` steps in all, `passes` times over the data. A step is a clock, or, where
  // workers share their work by a queue, a batch of any worker.
  void Begin(size_t steps, size_t passes);

  // Waits for the rows of a pull, which may wait long for another worker; meanwhile this one may be told to
  // stop.
  template <class T>
  typename Future<T>::Result Await(Future<T> future) {
    const Blocked blocked(this, TraceSpan::What::kRead);
    while (!ToldToStop()) {
      if (future.Wait(kLookForStopEvery)) return std::move(future).Get();
    }
    return Stopped();
  }
  // Sleeps as options.pause says: between the reads of a clock and its computing.
  void Pause();
  // Pushes without waiting for the result: Finish returns what went wrong with any push.
  void Push(Table& table, absl::Span<const uint64_t> keys, absl::Span<const float> values);
  // The same for the rows from `first` on.
  void PushRange(Table& table, uint64_t first, absl::Span<const float> values, const PushOptions& options);
  // What its KKT filter has done, for its reports.
  void SetKkt(const KktCounts& counts) { report_.kkt = counts; }
  // The next item of a queue; nullopt: all are done. Waits for other workers as long as it takes; meanwhile
  // this one may be told to stop.
  absl::StatusOr<std::optional<WorkItem>> NextItem(WorkQueue& queue);
  // Ends the clock, in which the worker did `step`, below Begin's: so many examples, of this sum of losses
  // before its own updates.
  absl::Status EndClock(size_t step, uint64_t examples, double loss_sum);

  // The worker's last word if all went well, and the other one.
  absl::Status Finish();
  void SendFailure(const absl::Status& status);

 private:
  static constexpr absl::Duration kLookForStopEvery = absl::Milliseconds(100);

  // Adds the time of its life to that of calls.
  class Blocked {
   public:
    Blocked(JobWorker* worker, TraceSpan::What what) : worker_(worker), what_(what), since_(Now()) {}
    ~Blocked() { worker_->AddCall(what_, since_, Now()); }

   private:
    JobWorker* worker_;
    TraceSpan::What what_;
    int64_t since_;
  };

  // Nanoseconds of the monotonic clock.
  static int64_t Now();
  void AddCall(TraceSpan::What what, int64_t began, int64_t ended);
  void Trace(TraceSpan::What what, uint64_t clock, int64_t began, int64_t ended);

  static absl::Status Stopped() { return absl::CancelledError("told to stop"); }
  void Send();

  const std::string& program_;
  const JobOptions& options_;
  const bool patient_;
  const TellReport& tell_;
  std::unique_ptr<Client> client_;
  std::optional<LossRecorder> losses_;
  TraceRecorder trace_;
  int64_t clock_began_ = 0;
  WorkerReport report_;
  BlockedSeconds blocked_before_;  // the training
  absl::Time next_report_;
};

// An example's own part of a worker's life: reads the data, joins, begins, and trains up to the last clock.
using Training = std::function<absl::Status(JobWorker&)>;

// The whole life of a worker in this process, after which it has told its end.
absl::Status Work(const std::string& program, const JobOptions& options, bool patient,
                  const Training& training, const TellReport& tell);

// A worker that joins a job which others have begun (options.join): shows its progress on standard error, and
// says at its end what it has trained. Returns the process's exit code.
int RunJoining(const std::string& program, const JobOptions& options, const Training& training,
               const Progress::Options& shown);

// A worker process of a parent, to which it tells its WorkerReports on standard output. Returns the process's
// exit code. The parent's death ends it as SIGTERM does.
int RunWorkerProcess(const std::string& program, const JobOptions& options, const Training& training);

}  // namespace paceline::examples
