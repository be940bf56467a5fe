// paceline-soak: the commands of paceline-bench that kill and cut, and nothing else of it. A build with
// sanitizers, which takes minutes for the whole program, needs only this for its tests.
#include <string>

#include "CLI/CLI.hpp"
#include "bench/soak/commands.h"
#include "paceline/process.h"

int main(int argc, char** argv) {
  paceline::TuneProcess();
  CLI::App app("Real processes that are killed and cut off while they work; see paceline-bench.",
               "paceline-soak");
  std::string coordinator;
  std::string record;
  std::string json;
  app.add_option("--coordinator", coordinator, "HOST:PORT; soak-worker needs it")
      ->envname("PACELINE_COORDINATOR");
  app.add_option("--record", record, "write the client's history to this file, for `paceline verify`");
  app.add_option("--json", json, "write the results to this file");
  app.fallthrough();
  paceline::bench::SoakCommands soak;
  soak.AddTo(app);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return soak.Run(coordinator, record, json).value_or(2);
}
