#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "paceline/filters.h"
#include "paceline/options.h"
#include "paceline/table_schema.h"

namespace paceline::examples {

// The exit code after a complaint about the command line.
constexpr int kUsageError = 2;

// What the command line of every example that trains has. An example's own options derive from it.
struct JobOptions {
  uint32_t workers = 4;
  std::string model = "ssp:2";  // as it was given; what it means:
  Consistency consistency = Ssp{.staleness = 2};
  std::string filter_names;  // as they were given (AddLinkFilterOption); what they mean:
  LinkFilters link_filters;
  uint64_t seed = 1;
  std::string coordinator;  // host:port
  std::string job;
  absl::Duration timeout = absl::Seconds(60);
  std::string record;     // of each worker; empty: the environment's
  std::string json_out;   // empty: none
  std::string trace_out;  // empty: none
  int worker = -1;        // -1: this process is the parent; else the rank of the worker that it is
  // Of an example whose workers may share their work by a queue (AddWorkOptions):
  std::string work = "split";  // or "queue"
  bool count_work = false;     // count how often each example is trained
  bool join = false;           // this process is one more worker of a job that others have begun

  bool by_queue() const { return work == "queue"; }
  // How long the worker of a rank sleeps at a clock after its reads, as if it computed for longer. For
  // measurements of consistency models; not on the command line. Empty: no worker sleeps.
  std::function<absl::Duration(uint32_t rank, uint64_t clock)> pause;
};

// "ssp:2", "ssp:auto", "ssp:auto:8", "essp:2", "essp:2/65536", "vap:0.5", "vap:0.5/sqrt", "asp", "bsp" or
// "delay:2". A worker at an SSP bound waits until the others are within half of it; under a bounded delay it
// waits no longer than it must.
absl::StatusOr<Consistency> ParseModel(absl::string_view text);

// The ranges that numbers must be in; the help leaves them out, errors name them.
CLI::Validator Within(int low, int high);
CLI::Validator NotNegative();
CLI::Validator Positive();
CLI::Validator ExistingFile();

// Adds the options of JobOptions. `a_clock` says what a clock is to the example: "a batch of every worker".
void AddJobOptions(CLI::App* app, absl::string_view a_clock, JobOptions* options);
// Adds those of how workers share their work: --work, --count-work and --join.
void AddWorkOptions(CLI::App* app, JobOptions* options);
// Adds --filters, of the link.
void AddLinkFilterOption(CLI::App* app, JobOptions* options);
// As AddJobOptions does for a cluster only: --coordinator, --job and --timeout.
void AddClusterOptions(CLI::App* app, JobOptions* options);

// Parses the command line: nothing if it is fine; else the exit code, after help or a complaint.
std::optional<int> ParseArguments(CLI::App* app, int argc, char** argv);

// Completes and checks what was parsed. `program` is the example's name.
absl::Status CompleteJobOptions(absl::string_view program, JobOptions* options);

// A wrong folder should be known before the training, not after it: whether `path` can be written. An empty
// path is fine.
absl::Status CheckFolderOf(const std::string& path, absl::string_view option);

// How a process of the job connects: as the worker of rank options.worker, as one that joins the others, of
// any rank, or as a reader.
ClientOptions WorkerClient(absl::string_view program, const JobOptions& options);
ClientOptions ReaderClient(absl::string_view program, const JobOptions& options);

}  // namespace paceline::examples
