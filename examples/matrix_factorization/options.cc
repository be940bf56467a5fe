#include "examples/matrix_factorization/options.h"

#include <cmath>

#include "examples/lib/console.h"

namespace paceline::examples {
namespace {

constexpr char kAbout[] =
    "Factorises a matrix of ratings by stochastic gradient descent: worker processes that share the factors "
    "and "
    "biases of users and items on a Paceline cluster. Then reads the model back, scores it on ratings that "
    "were "
    "held out, and compares it with the same training in one process.\n"
    "Data is lines `user item rating`. A cluster for one run:\n"
    "  paceline up --shards 3 -- matrix_factorization --ratings FILE";

void AddOptions(CLI::App* app, FactorOptions* o) {
  app->add_option("--ratings", o->ratings, "Ratings, to train on and to hold out")
      ->type_name("FILE")
      ->required()
      ->check(ExistingFile());
  AddJobOptions(app, "a batch of every worker", o);
  AddWorkOptions(app, o);
  AddLinkFilterOption(app, o);
  app->add_option("--rank", o->rank, "Factors of a user and of an item")
      ->type_name("K")
      ->check(Within(1, 16'381));
  app->add_option("--epochs", o->epochs, "Passes over the ratings")
      ->type_name("N")
      ->check(Within(1, 1'000'000));
  app->add_option(
         "--batch", o->batch_size,
         "Ratings between two reads of the model: each worker takes their steps one after the other, "
         "and pushes what they sum up to")
      ->type_name("N")
      ->check(Within(1, 1'000'000'000));
  app->add_option("--lr", o->lr, "Size of the first epoch's steps")->type_name("X")->check(Positive());
  app->add_option("--decay", o->decay, "What an epoch's steps are of those of the one before")
      ->type_name("X")
      ->check(CLI::Range(0.0, 1.0).description(""));
  app->add_option("--reg", o->reg, "Weight of the squares of factors and biases, beside the squared error")
      ->type_name("X")
      ->check(NotNegative());
  app->add_option("--held-out", o->held_out, "Share of the ratings that is held out, to score the model on")
      ->type_name("X")
      ->check(CLI::Range(0.0, 0.9).description(""));
}

}  // namespace

std::variant<FactorOptions, int> ParseFactorOptions(int argc, char** argv) {
  FactorOptions options;
  CLI::App app(kAbout, kFactorProgram);
  app.option_defaults()->always_capture_default();
  AddOptions(&app, &options);
  if (const std::optional<int> exit_code = ParseArguments(&app, argc, argv)) return *exit_code;
  if (absl::Status s = CompleteJobOptions(kFactorProgram, &options); !s.ok()) {
    Fail(kFactorProgram, s);
    return kUsageError;
  }
  return options;
}

Steps StepsOf(const FactorOptions& options, int epoch) {
  return {.lr = options.lr * std::pow(options.decay, static_cast<float>(epoch)), .reg = options.reg};
}

}  // namespace paceline::examples
