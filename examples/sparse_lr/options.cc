#include "examples/sparse_lr/options.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <random>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace paceline::examples {
namespace {

constexpr int kUsageError = 2;

constexpr char kAbout[] =
    "Trains sparse logistic regression with L1 by FTRL-proximal: worker processes that share one model on a "
    "Paceline cluster. Then reads the model back, scores it, and compares it with the same training in one "
    "process.\n"
    "Data is LIBSVM text, `label column:value …`, with labels +1 and -1 (or 1 and 0). A cluster for one "
    "run:\n"
    "  paceline up --shards 3 -- sparse_lr --train FILE --test FILE";

// The ranges that numbers must be in; the help leaves them out, errors name them.
CLI::Validator Within(int low, int high) {
  return CLI::Range(low, high).description("");
}
CLI::Validator NotNegative() {
  return CLI::Validator(CLI::NonNegativeNumber).description("");
}
CLI::Validator Positive() {
  return CLI::Validator(CLI::PositiveNumber).description("");
}
CLI::Validator ExistingFile() {
  return CLI::Validator(CLI::ExistingFile).description("");
}

void AddTraining(CLI::App* app, RunOptions* o) {
  app->add_option("--model", o->model,
                  "Consistency: ssp:S, a worker reads all updates older than S clocks (a clock is a batch of "
                  "every worker); asp, it reads whatever is there; or bsp, it reads exactly the updates of "
                  "all earlier clocks")
      ->type_name("MODEL");
  app->add_option("--rule", o->rule,
                  "ftrl, which minimises the log-loss with the weights of --l1 and --l2; or sgd, which "
                  "minimises the log-loss alone")
      ->type_name("RULE")
      ->check(CLI::IsMember({"ftrl", "sgd"}).description(""));
  app->add_option(
         "--lr", o->lr,
         "SGD's step, times the gradient summed over a batch, under bsp over all workers' (default: 4 / "
         "(mean square of the rows' lengths · batch · workers))")
      ->type_name("X")
      ->check(Positive())
      ->always_capture_default(false);
  app->add_option("--l1", o->l1, "Weight of the sum of |w|, against the mean log-loss")
      ->type_name("X")
      ->check(NotNegative());
  app->add_option("--l2", o->l2, "Weight of half the sum of w², on the same scale")
      ->type_name("X")
      ->check(NotNegative());
  app->add_option("--epochs", o->epochs, "Passes over the training set")
      ->type_name("N")
      ->check(Within(1, 1'000'000));
  app->add_option("--batch", o->batch_size, "Examples in one update of one worker")
      ->type_name("N")
      ->check(Within(1, 1'000'000'000));
  app->add_option("--alpha", o->alpha, "FTRL's step size (default: 1 / the rows' length)")
      ->type_name("X")
      ->check(Positive())
      ->always_capture_default(false);
  app->add_option("--beta", o->beta, "FTRL's damping of the first steps (default: 0.2 · the rows' length)")
      ->type_name("X")
      ->check(NotNegative())
      ->always_capture_default(false);
  app->add_flag("!--no-scale", o->scale,
                "Take columns as they are. Otherwise, if some value is beyond 1 or columns are of different "
                "scales, each is divided by its largest value while it is trained; --l1 and --l2 weigh those "
                "weights");
  app->add_option("--seed", o->seed, "Of the order of the examples")->type_name("N");
}

// `seconds` is the one option that does not go straight into its field.
void AddOptions(CLI::App* app, RunOptions* o, double* seconds) {
  app->add_option("--train", o->train, "Training set")->type_name("FILE")->required()->check(ExistingFile());
  app->add_option("--test", o->test, "Held-out set, to score the model on")
      ->type_name("FILE")
      ->required()
      ->check(ExistingFile());
  app->add_option("--workers", o->workers, "Worker processes")->type_name("N")->check(Within(1, 1024));
  AddTraining(app, o);
  app->add_option("--json", o->json_out, "Write the results to this file, as JSON")->type_name("FILE");
  app->add_option("--model-out", o->model_out, "Write the non-zero weights to this file, as text")
      ->type_name("FILE");
  app->add_option("--coordinator", o->coordinator, "The cluster's coordinator")
      ->type_name("HOST:PORT")
      ->envname("PACELINE_COORDINATOR");
  app->add_option("--job", o->job, "Name of the job on the cluster (default: one of this run's own)")
      ->type_name("NAME")
      ->take_last();
  app->add_option("--timeout", *seconds, "How long one operation on the cluster may take")
      ->type_name("SECONDS")
      ->check(Positive());
  app->add_option("--record", o->record,
                  "Each worker writes its history to a new file of this name (or FILE.1, FILE.2 ... where it "
                  "exists), for `paceline verify`")
      ->type_name("FILE");
  app->add_option(
         "--index", o->index,
         "Be worker N of --workers and start no others: somebody else does, such as an indexed Job of "
         "Kubernetes, which sets the environment variable. All are given one --job; number 0 scores "
         "the model at the end, and fails unless its log-loss is that of one process")
      ->type_name("N")
      ->check(Within(0, 1023))
      ->envname("JOB_COMPLETION_INDEX")
      ->always_capture_default(false);
  app->add_option("--worker", o->worker)->group("");  // how the parent starts its workers: not for people
}

// A wrong folder should be known before the training, not after it.
absl::Status CheckFolderOf(const std::string& path, absl::string_view option) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (path.empty() || folder.empty() || access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", path, ": cannot write into the folder ", folder.string()));
}

absl::Status Complete(RunOptions* o) {
  absl::StatusOr<Consistency> consistency = ParseModel(o->model);
  if (!consistency.ok()) return consistency.status();
  o->consistency = *consistency;
  if (o->coordinator.empty()) {
    return absl::InvalidArgumentError(
        "no coordinator: give --coordinator HOST:PORT or set PACELINE_COORDINATOR; or let "
        "`paceline up --shards 3 -- sparse_lr …` start a cluster for this run");
  }
  if (o->index >= 0 && o->worker < 0) {
    if (o->job.empty())
      return absl::InvalidArgumentError("--index: give --job NAME, the same to all workers");
    if (static_cast<uint32_t>(o->index) >= o->workers) {
      return absl::InvalidArgumentError(
          absl::StrCat("--index ", o->index, ": expected less than --workers ", o->workers));
    }
  }
  if (o->job.empty()) o->job = absl::StrCat("sparse_lr-", getpid(), "-", std::random_device()());
  if (absl::Status s = CheckFolderOf(o->json_out, "--json"); !s.ok()) return s;
  return CheckFolderOf(o->model_out, "--model-out");
}

}  // namespace

absl::StatusOr<Consistency> ParseModel(absl::string_view text) {
  if (text == "asp") return Asp{};
  if (text == "bsp") return Bsp{};
  // A worker pushes to every row that it has pulled, and FTRL-proximal cannot be applied to a cached copy:
  // only without its own latest updates a row can be read from the cache again. At S = 0 that makes no
  // difference.
  // Rare words are read again after more clocks than any bound allows, and L1 leaves most of their weights at
  // 0: so what has changed is asked for, instead of every weight. At S = 0 that takes one more round a clock.
  Ssp ssp{.read_my_writes = false};
  absl::string_view staleness = text;
  if (absl::ConsumePrefix(&staleness, "ssp:") && absl::SimpleAtoi(staleness, &ssp.staleness)) {
    ssp.catch_up = ssp.staleness / 2;
    ssp.refresh = ssp.staleness > 0;
    return ssp;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--model: expected ssp:S with a whole number S, asp or bsp; found '", text, "'"));
}

std::variant<RunOptions, int> ParseCommandLine(int argc, char** argv) {
  RunOptions options;
  double seconds = absl::ToDoubleSeconds(options.timeout);
  CLI::App app(kAbout, "sparse_lr");
  app.option_defaults()->always_capture_default();
  AddOptions(&app, &options, &seconds);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  options.timeout = absl::Seconds(seconds);
  if (absl::Status s = Complete(&options); !s.ok()) {
    std::fprintf(stderr, "sparse_lr: %s\n", std::string(s.message()).c_str());
    return kUsageError;
  }
  return options;
}

FtrlOptions FtrlOf(const RunOptions& options, const Shape& shape) {
  const auto norm = static_cast<float>(shape.row_norm);
  return {.alpha = options.alpha.value_or(FtrlOptions().alpha / norm),
          .beta = options.beta.value_or(FtrlOptions().beta * norm),
          .lambda1 = FtrlLambda1(options.l1, shape.examples, options.epochs),
          .lambda2 = FtrlLambda1(options.l2, shape.examples, options.epochs)};
}

float SgdStepOf(const RunOptions& options, const Shape& shape) {
  // The mean log-loss bends by a quarter of the rows' squared length at most: a step of 4 / that² on its
  // gradient does not overshoot.
  const double of_mean = 4 / (shape.row_norm * shape.row_norm);
  const double examples = static_cast<double>(options.batch_size) * options.workers;
  return options.lr.value_or(static_cast<float>(of_mean / examples));
}

ReferenceOptions ReferenceOf(const RunOptions& options, const Shape& shape) {
  ReferenceOptions reference{.ftrl = FtrlOf(options, shape),
                             .sgd_lr = {},
                             .epochs = options.epochs,
                             .batch_size = options.batch_size,
                             .seed = options.seed};
  if (options.rule == "sgd") reference.sgd_lr = SgdStepOf(options, shape);
  if (std::holds_alternative<Bsp>(options.consistency)) reference.batch_size *= options.workers;
  return reference;
}

}  // namespace paceline::examples
