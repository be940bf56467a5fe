#include "examples/lib/job_worker.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

#include "absl/time/clock.h"
#include "examples/lib/connect.h"
#include "examples/lib/console.h"
#include "examples/lib/totals.h"

namespace paceline::examples {
namespace {

constexpr absl::Duration kReportEvery = absl::Milliseconds(100);
// Each look is a call that asks the coordinator anew.
constexpr absl::Duration kLookForStopInWaitEvery = absl::Seconds(2);

// A report without a reader is not an error: the parent's death ends this process anyway.
void WriteToParent(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    text.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
}

}  // namespace

int64_t JobWorker::Now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void JobWorker::AddCall(TraceSpan::What what, int64_t began, int64_t ended) {
  report_.blocked_seconds += static_cast<double>(ended - began) / 1e9;
  if (!options_.trace_out.empty()) Trace(what, client_->clock(), began, ended);
}

void JobWorker::Trace(TraceSpan::What what, uint64_t clock, int64_t began, int64_t ended) {
  if (!options_.trace_out.empty()) trace_.Add({.what = what, .clock = clock, .began = began, .ended = ended});
}

absl::Status JobWorker::Join() {
  const ClientOptions connect = WorkerClient(program_, options_);
  absl::StatusOr<std::unique_ptr<Client>> client =
      patient_ ? ConnectPatiently(connect) : Client::Connect(connect);
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  ListenForStop();  // before, there was nothing to close
  return absl::OkStatus();
}

void JobWorker::Begin(size_t steps, size_t passes) {
  losses_.emplace(std::max<size_t>(1, steps), passes);
  report_.stage = WorkerReport::Stage::kTraining;
  report_.began = clock_began_ = Now();
  report_.blocked_seconds = 0;
  blocked_before_ = client_->stats().time.blocked;
  Send();
}

void JobWorker::Pause() {
  if (options_.pause) {
    absl::SleepFor(options_.pause(static_cast<uint32_t>(options_.worker), client_->clock()));
  }
}

void JobWorker::Push(Table& table, absl::Span<const uint64_t> keys, absl::Span<const float> values) {
  const Blocked blocked(this, TraceSpan::What::kPush);
  (void)table.PushAsync(keys, values);
}

void JobWorker::PushRange(Table& table, uint64_t first, absl::Span<const float> values,
                          const PushOptions& options) {
  const Blocked blocked(this, TraceSpan::What::kPush);
  (void)table.PushRangeAsync(first, values, options);
}

absl::StatusOr<std::optional<WorkItem>> JobWorker::NextItem(WorkQueue& queue) {
  const Blocked blocked(this, TraceSpan::What::kNextItem);
  while (!ToldToStop()) {
    absl::StatusOr<std::optional<WorkItem>> item = queue.Next({.timeout = kLookForStopInWaitEvery});
    if (!absl::IsDeadlineExceeded(item.status())) return item;
  }
  return Stopped();
}

absl::Status JobWorker::EndClock(size_t step, uint64_t examples, double loss_sum) {
  report_.examples += examples;
  report_.loss_sum += loss_sum;
  const uint64_t clock = client_->clock();
  losses_->Add(step, clock, examples, loss_sum, Now());
  client_->ReportLoss(loss_sum / static_cast<double>(std::max<uint64_t>(1, examples)));
  {
    const Blocked blocked(this, TraceSpan::What::kTick);
    if (absl::Status s = client_->Tick(); !s.ok()) return s;
  }
  const int64_t now = Now();
  Trace(TraceSpan::What::kClock, clock, std::exchange(clock_began_, now), now);
  if (SteadyNow() >= next_report_) Send();
  return absl::OkStatus();
}

absl::Status JobWorker::Finish() {
  {
    const Blocked blocked(this, TraceSpan::What::kFinish);
    if (absl::Status s = client_->Finish(); !s.ok()) return s;
  }
  report_.ended = Now();
  report_.stage = WorkerReport::Stage::kDone;
  report_.losses = std::move(*losses_).Take();
  report_.trace = trace_.spans();
  report_.trace_left_out = trace_.left_out();
  Send();
  return absl::OkStatus();
}

void JobWorker::SendFailure(const absl::Status& status) {
  report_.stage = WorkerReport::Stage::kFailed;
  report_.error = status.ToString();
  Send();
}

void JobWorker::Send() {
  if (client_ != nullptr) {
    report_.clock = client_->clock();
    report_.stats = client_->stats();
    for (const BlockedCause& cause : kBlockedCauses) {
      report_.blocked.*cause.seconds =
          report_.stats.time.blocked.*cause.seconds - blocked_before_.*cause.seconds;
    }
  }
  tell_(report_);
  next_report_ = SteadyNow() + kReportEvery;
}

absl::Status Work(const std::string& program, const JobOptions& options, bool patient,
                  const Training& training, const TellReport& tell) {
  JobWorker worker(program, options, patient, tell);
  absl::Status status = training(worker);
  if (status.ok()) status = worker.Finish();
  if (!status.ok()) worker.SendFailure(status);
  return status;
}

int RunJoining(const std::string& program, const JobOptions& options, const Training& training,
               const Progress::Options& shown) {
  Progress progress(shown, WriteError);
  Totals totals;
  const absl::Status status =
      Work(program, options, /*patient=*/false, training, [&](const WorkerReport& report) {
        totals = Sum({report});
        progress.Show(totals, SteadyNow());
      });
  progress.End();
  if (!status.ok()) {
    Fail(program, status);
    return ToldToStop() ? 128 + SIGTERM : 1;
  }
  std::printf("%s: joined, and trained %s of the %s\n", program.c_str(), Grouped(totals.examples).c_str(),
              shown.examples.c_str());
  return 0;
}

int RunWorkerProcess(const std::string& program, const JobOptions& options, const Training& training) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_NAME, program.c_str());  // else process listings say "exe"
  const auto tell = [](const WorkerReport& report) { WriteToParent(ToLine(report) + "\n"); };
  if (Work(program, options, /*patient=*/false, training, tell).ok()) return 0;
  return ToldToStop() ? 128 + SIGTERM : 1;
}

}  // namespace paceline::examples
