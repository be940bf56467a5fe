#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "bench/soak/hand_overs.h"
#include "bench/soak/relay.h"
#include "bench/soak/soak.h"
#include "bench/soak/soak_worker.h"

namespace paceline::bench {

// `paceline-bench soak`, `recovery`, `handover`, and the workers and relays that these start. They start a
// cluster of their own.
class SoakCommands {
 public:
  // Must outlive the parsing.
  void AddTo(CLI::App& app);
  // The exit code of the one that was parsed; nullopt: none was.
  std::optional<int> Run(const std::string& coordinator, const std::string& record, const std::string& json);

 private:
  int Report(const absl::StatusOr<SoakOutcome>& outcome, const std::string& json) const;

  SoakOptions options_;
  SoakWorkerOptions worker_;
  RelayOptions relay_;
  CLI::App* soak_ = nullptr;
  CLI::App* recovery_ = nullptr;
  CLI::App* hand_overs_ = nullptr;
  CLI::App* soak_worker_ = nullptr;
  CLI::App* soak_relay_ = nullptr;
};

}  // namespace paceline::bench
