#include "examples/mlp/options.h"

#include <optional>

#include "examples/lib/console.h"

namespace paceline::examples {
namespace {

constexpr char kAbout[] =
    "Trains a multilayer perceptron on images: worker processes that share its layers on a Paceline cluster. "
    "Each pulls a layer before its forward pass and pushes its gradient after its backward pass, and the "
    "layers that are needed first go first. Then reads the model back, scores it on the test images, and "
    "compares it with the same training in one process.\n"
    "Data is the four IDX files of MNIST, unpacked (scripts/datasets mnist). A cluster for one run:\n"
    "  paceline up --shards 3 -- mlp --images DIR";

void AddOptions(CLI::App* app, MlpOptions* o) {
  app->add_option(
         "--images", o->images,
         "The folder of train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
         "t10k-labels-idx1-ubyte")
      ->type_name("DIR")
      ->required()
      ->check(CLI::ExistingDirectory.description(""));
  AddJobOptions(app, "a batch of every worker", o);
  AddWorkOptions(app, o);
  app->add_option("--hidden", o->hidden, "Outputs of each layer but the last, separated by commas")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(Within(1, 16'384));
  app->add_option("--epochs", o->epochs, "Passes over the images")
      ->type_name("N")
      ->check(Within(1, 1'000'000));
  app->add_option("--batch", o->batch_size, "Images of a step of a worker")
      ->type_name("N")
      ->check(Within(1, 1'000'000'000));
  app->add_option("--lr", o->lr, "Size of the steps")->type_name("X")->check(Positive());
  app->add_flag("--fifo", o->fifo, "Send in the order of the calls, without priorities");
}

}  // namespace

std::variant<MlpOptions, int> ParseMlpOptions(int argc, char** argv) {
  MlpOptions options;
  CLI::App app(kAbout, kMlpProgram);
  app.option_defaults()->always_capture_default();
  AddOptions(&app, &options);
  if (const std::optional<int> exit_code = ParseArguments(&app, argc, argv)) return *exit_code;
  if (absl::Status s = CompleteJobOptions(kMlpProgram, &options); !s.ok()) {
    Fail(kMlpProgram, s);
    return kUsageError;
  }
  return options;
}

}  // namespace paceline::examples
