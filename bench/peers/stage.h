#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/peers/figures.h"
#include "bench/peers/plan.h"
#include "bench/peers/system.h"
#include "tools/paceline/supervisor.h"

namespace paceline::bench::peers {

// One stage of the plan with its systems. For one thread.
class StageRun {
 public:
  // All of these must outlive it. `folder` is for the files of this stage's systems.
  StageRun(tool::Supervisor& supervisor, const Plan& plan, Stage& stage, std::filesystem::path folder)
      : supervisor_(supervisor), plan_(plan), stage_(stage), folder_(std::move(folder)) {}

  // Starts the systems, and touches every row of each. `driver`: ps-lite's; an error says why there is none.
  absl::Status Start(const absl::StatusOr<std::filesystem::path>& driver);
  absl::Status Measure();
  // DATA_LOSS: a system's rows are not what the pushes must have made of them.
  absl::Status Check();
  std::vector<Result> Results() const;

 private:
  struct Participant {
    std::string name;
    std::string skipped;              // why it is not there
    std::optional<Kind> ours;         // our own, with this kind of table
    std::unique_ptr<System> system;   // null: skipped
    double resident_bytes = 0;        // that touching the rows added to its server
    std::vector<uint64_t> pushes;     // requests so far, of each work
    std::vector<Figures> figures[2];  // of each work, by Op

    Beside ToBeside(size_t work, Op op) const;
  };

  // Adds a system. NOT_FOUND makes it a skipped one of that name, unless it is ours.
  absl::Status Add(const std::string& name, std::optional<Kind> ours,
                   absl::StatusOr<std::unique_ptr<System>> system);
  std::filesystem::path FolderFor(const std::string& name) const;
  absl::Status WriteKeys();
  bool TakesPart(const Participant& participant, size_t work) const;
  absl::StatusOr<Turn> RunTurn(Participant& participant, size_t work, Op op, absl::Duration duration);

  tool::Supervisor& supervisor_;
  const Plan& plan_;
  Stage& stage_;
  const std::filesystem::path folder_;
  std::vector<Participant> participants_;
};

}  // namespace paceline::bench::peers
