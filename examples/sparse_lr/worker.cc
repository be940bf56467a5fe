#include "examples/sparse_lr/worker.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "examples/sparse_lr/logistic.h"
#include "examples/sparse_lr/schedule.h"
#include "examples/sparse_lr/steady_now.h"
#include "examples/sparse_lr/training_set.h"
#include "examples/sparse_lr/worker_report.h"
#include "paceline/client.h"

namespace paceline::examples {
namespace {

constexpr absl::Duration kReportEvery = absl::Milliseconds(100);
constexpr absl::Duration kAskAgainEvery = absl::Milliseconds(500);
constexpr absl::Duration kLookForStopEvery = absl::Milliseconds(100);

volatile std::sig_atomic_t stop_requested = 0;

void RequestStop(int) {
  stop_requested = 1;
}

absl::Status Stopped() {
  return absl::CancelledError("told to stop");
}

int64_t MonotonicNanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// A report without a reader is not an error: the parent's death ends this process anyway.
void WriteToParent(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    text.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
}

class Worker {
 public:
  Worker(const RunOptions& options, bool patient, const TellReport& tell)
      : options_(options), patient_(patient), tell_(tell) {}

  absl::Status Run() {
    if (absl::Status s = Prepare(); !s.ok()) return s;
    report_.stage = WorkerReport::Stage::kTraining;
    report_.began = MonotonicNanoseconds();
    Send();
    if (absl::Status s = Train(); !s.ok()) return s;
    if (absl::Status s = client_->Finish(); !s.ok()) return s;
    report_.ended = MonotonicNanoseconds();
    report_.stage = WorkerReport::Stage::kDone;
    Send();
    return absl::OkStatus();
  }

  void SendFailure(const absl::Status& status) {
    report_.stage = WorkerReport::Stage::kFailed;
    report_.error = status.ToString();
    Send();
  }

 private:
  absl::Status Prepare() {
    absl::StatusOr<TrainingSet> train = ReadTrainingSet(options_.train, options_.scale);
    if (!train.ok()) return train.status();
    train_ = *std::move(train);
    absl::StatusOr<std::unique_ptr<Client>> client = Connect();
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
    std::signal(SIGTERM, RequestStop);  // before, there was nothing to close
    // Under Bsp the table is aggregated: the gradients of a clock are summed over the workers.
    absl::StatusOr<Table> weights = client_->OpenOrCreate(
        "weights", Sparse{.dim = 1, .rule = ServerRule(), .consistency = options_.consistency});
    if (!weights.ok()) return weights.status();
    weights_ = *weights;
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Client>> Connect() const {
    const ClientOptions connect{
        .coordinator = options_.coordinator,
        .job = options_.job,
        .client_name = absl::StrCat("sparse_lr worker ", options_.worker),
        .workers = options_.workers,
        .rank = static_cast<uint32_t>(options_.worker),
        .timeout = options_.timeout,
        .record = options_.record,
    };
    const absl::Time until = SteadyNow() + connect.start_timeout;
    while (true) {
      absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(connect);
      const bool again = absl::IsAlreadyExists(client.status()) || absl::IsAborted(client.status());
      if (!patient_ || !again || SteadyNow() > until) return client;
      absl::SleepFor(kAskAgainEvery);
    }
  }

  Rule ServerRule() const {
    if (options_.rule == "sgd") return Sgd{.lr = SgdStepOf(options_, train_.shape)};
    const FtrlOptions ftrl = FtrlOf(options_, train_.shape);
    return FtrlProximal{.alpha = ftrl.alpha, .beta = ftrl.beta, .l1 = ftrl.lambda1, .l2 = ftrl.lambda2};
  }

  absl::Status Train() {
    Schedule schedule({.examples = train_.data.rows(),
                       .batch_size = options_.batch_size,
                       .workers = options_.workers,
                       .epochs = options_.epochs,
                       .seed = options_.seed},
                      client_->rank());
    BatchBuilder builder(&train_.data);
    Batch batch;
    for (size_t clock = client_->clock(); clock < schedule.clocks(); ++clock) {
      builder.Build(schedule.Rows(clock), &batch);
      if (absl::Status s = TrainOn(batch); !s.ok()) return s;
      if (absl::Status s = client_->Tick(); !s.ok()) return s;
      if (SteadyNow() >= next_report_) Send();
    }
    return absl::OkStatus();
  }

  absl::Status TrainOn(const Batch& batch) {
    absl::StatusOr<std::vector<float>> weights = Pull(batch.keys);
    if (!weights.ok()) return weights.status();
    gradient_.resize(batch.keys.size());
    const double loss = ComputeGradient(batch, *weights, absl::MakeSpan(gradient_));
    if (!std::isfinite(loss)) {
      return absl::InternalError(
          "the training diverges: the loss is not finite; lower --alpha, --lr or --batch");
    }
    report_.loss_sum += loss;
    client_->ReportLoss(loss / static_cast<double>(std::max<size_t>(1, batch.rows())));
    report_.examples += batch.rows();
    // The future may go: Finish returns what went wrong with any push.
    (void)weights_->PushAsync(batch.keys, gradient_);
    return absl::OkStatus();
  }

  // A pull may wait long for another worker; meanwhile this one may be told to stop.
  absl::StatusOr<std::vector<float>> Pull(absl::Span<const uint64_t> keys) {
    Future<std::vector<float>> pulled = weights_->PullAsync(keys);
    while (stop_requested == 0) {
      if (pulled.Wait(kLookForStopEvery)) return std::move(pulled).Get();
    }
    return Stopped();
  }

  void Send() {
    if (client_ != nullptr) {
      report_.clock = client_->clock();
      report_.stats = client_->stats();
    }
    tell_(report_);
    next_report_ = SteadyNow() + kReportEvery;
  }

  const RunOptions& options_;
  const bool patient_;
  const TellReport& tell_;
  TrainingSet train_;
  std::unique_ptr<Client> client_;
  std::optional<Table> weights_;
  std::vector<float> gradient_;
  WorkerReport report_;
  absl::Time next_report_;
};

}  // namespace

bool ToldToStop() {
  return stop_requested != 0;
}

absl::Status Work(const RunOptions& options, bool patient, const TellReport& tell) {
  Worker worker(options, patient, tell);
  const absl::Status status = worker.Run();
  if (!status.ok()) worker.SendFailure(status);
  return status;
}

int RunWorker(const RunOptions& options) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_NAME, "sparse_lr");  // else process listings say "exe"
  const auto tell = [](const WorkerReport& report) { WriteToParent(ToLine(report) + "\n"); };
  if (Work(options, /*patient=*/false, tell).ok()) return 0;
  return ToldToStop() ? 128 + SIGTERM : 1;
}

}  // namespace paceline::examples
