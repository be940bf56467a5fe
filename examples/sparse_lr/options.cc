#include "examples/sparse_lr/options.h"

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "examples/lib/console.h"

namespace paceline::examples {
namespace {

constexpr char kAbout[] =
    "Trains sparse logistic regression with L1 by FTRL-proximal: worker processes that share one model on a "
    "Paceline cluster. Then reads the model back, scores it, and compares it with the same training in one "
    "process.\n"
    "Data is LIBSVM text, `label column:value …`, with labels +1 and -1 (or 1 and 0). A cluster for one "
    "run:\n"
    "  paceline up --shards 3 -- sparse_lr --train FILE --test FILE";

void AddTraining(CLI::App* app, RunOptions* o) {
  app->add_option(
         "--rule", o->rule,
         "ftrl, which minimises the log-loss with the weights of --l1 and --l2; ftrl-expression, the "
         "same as a rule that a user writes; or sgd, which minimises the log-loss alone")
      ->type_name("RULE")
      ->check(CLI::IsMember({"ftrl", "ftrl-expression", "sgd"}).description(""));
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
  app->add_option(
         "--filters", o->filters,
         "What is not sent, or later, or rounded; separated by commas: kkt[:SHARE], gradients of weights "
         "that are 0 and stay so, until the workers together have kept SHARE (0.1) of what moves them; "
         "top-k:SHARE, the largest of each push; skip:PROBABILITY, all but some by chance; "
         "significant:V[/sqrt], those of V or more (over the root of the clock); f16, bf16, int8. What is "
         "not sent is kept for later, and sent at the end")
      ->type_name("LIST");
  app->add_flag(
      "--refresh", o->refresh,
      "Under ssp:S or delay:S with S of 1 or more, ask which of the cached weights that are too old have "
      "changed, instead of fetching them all. At ssp:8 it pulls a third of what ssp:0 pulls, and takes more "
      "CPU time: for slow networks");
  app->add_flag("!--no-scale", o->scale,
                "Take columns as they are. Otherwise, if some value is beyond 1 or columns are of different "
                "scales, each is divided by its largest value while it is trained; --l1 and --l2 weigh those "
                "weights");
}

void AddOptions(CLI::App* app, RunOptions* o) {
  app->add_option("--train", o->train, "Training set")->type_name("FILE")->required()->check(ExistingFile());
  app->add_option("--test", o->test, "Held-out set, to score the model on")
      ->type_name("FILE")
      ->required()
      ->check(ExistingFile());
  AddJobOptions(app, "a batch of every worker", o);
  AddWorkOptions(app, o);
  AddTraining(app, o);
  app->add_option("--model-out", o->model_out, "Write the non-zero weights to this file, as text")
      ->type_name("FILE");
  app->add_option(
         "--index", o->index,
         "Be worker N of --workers and start no others: somebody else does, such as an indexed Job of "
         "Kubernetes, which sets the environment variable. All are given one --job; number 0 scores "
         "the model at the end, and fails unless its log-loss is that of one process. With --work queue N "
         "is only a name: each begins at once, and there may be any number of them")
      ->type_name("N")
      ->check(Within(0, 1023))
      ->envname("JOB_COMPLETION_INDEX")
      ->always_capture_default(false);
}

absl::Status CompleteFilters(RunOptions* o) {
  absl::StatusOr<Filters> filters = ParseFilters(o->filters);
  if (!filters.ok()) return filters.status();
  o->filter = *std::move(filters);
  if (!o->filter.kkt.has_value()) return absl::OkStatus();
  if (o->rule == "sgd" || o->l1 == 0) {
    return absl::InvalidArgumentError(
        "--filters kkt: it leaves out what L1 holds at 0; give --rule ftrl and an --l1 above 0");
  }
  if (o->by_queue()) {
    return absl::InvalidArgumentError(
        "--filters kkt: what it keeps of an item would be lost with a worker; give --work split");
  }
  return absl::OkStatus();
}

// A worker pushes to every row that it has pulled, and FTRL-proximal cannot be applied to a cached copy: only
// without its own latest updates a row can be read from the cache again. At S = 0 that makes no difference.
absl::Status SuitSparseModel(RunOptions* o) {
  Ssp* const ssp = std::get_if<Ssp>(&o->consistency);
  if (o->refresh && (ssp == nullptr || ssp->staleness == 0)) {
    return absl::InvalidArgumentError(
        "--refresh: needs --model ssp:S or delay:S with S of 1 or more, under which cached weights become "
        "too old");
  }
  if (ssp != nullptr) {
    ssp->read_my_writes = false;
    ssp->refresh = o->refresh;
  }
  if (Essp* essp = std::get_if<Essp>(&o->consistency)) essp->read_my_writes = false;
  return absl::OkStatus();
}

absl::Status Complete(RunOptions* o) {
  if (o->index >= 0 && o->worker < 0 && o->job.empty()) {
    return absl::InvalidArgumentError("--index: give --job NAME, the same to all workers");
  }
  if (absl::Status s = CompleteJobOptions(kProgram, o); !s.ok()) return s;
  if (o->index >= 0 && o->worker < 0 && !o->by_queue() && static_cast<uint32_t>(o->index) >= o->workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--index ", o->index, ": expected less than --workers ", o->workers));
  }
  if (absl::Status s = CompleteFilters(o); !s.ok()) return s;
  if (absl::Status s = SuitSparseModel(o); !s.ok()) return s;
  return CheckFolderOf(o->model_out, "--model-out");
}

}  // namespace

std::variant<RunOptions, int> ParseCommandLine(int argc, char** argv) {
  RunOptions options;
  CLI::App app(kAbout, kProgram);
  app.option_defaults()->always_capture_default();
  AddOptions(&app, &options);
  if (const std::optional<int> exit_code = ParseArguments(&app, argc, argv)) return *exit_code;
  if (absl::Status s = Complete(&options); !s.ok()) {
    Fail(kProgram, s);
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
