#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/peers/paceline_client.h"
#include "bench/peers/processes.h"
#include "bench/peers/system.h"

namespace paceline::bench::peers {

// A PacelineClient that is another process, so that several of them share nothing but the machine. For one
// thread.
class ClientProcess {
 public:
  // Makes its own batches: number `draw` of DrawBatches. `processes` must outlive it.
  static absl::StatusOr<std::unique_ptr<ClientProcess>> Start(Processes& processes, uint64_t draw,
                                                              const std::string& coordinator,
                                                              const Data& data, Kind kind);

  absl::Status Touch() { return Ask("touch").status(); }
  // Begins to make requests for `duration`, at least one, those that follow the pushes made so far. Returns
  // at once.
  absl::Status Begin(Op op, size_t batch, size_t outstanding, absl::Duration duration);
  // The same with raw TCP: its bytes, and a server of EchoListener on `port`, which drops them.
  absl::Status BeginRaw(int port, Op op, size_t batch, size_t outstanding, absl::Duration duration);
  // Waits until they are done; returns the requests a second.
  absl::StatusOr<double> End();
  // Adds how often it has pushed to each row.
  void CountPushes(const Data& data, std::vector<uint32_t>& of_rows) const;
  // As System's.
  absl::StatusOr<uint64_t> WrongRows(const std::vector<uint32_t>& pushes);

 private:
  ClientProcess(Processes& processes, uint64_t draw) : processes_(processes), draw_(draw) {}

  absl::StatusOr<std::vector<double>> Ask(const std::string& line);

  Processes& processes_;
  const uint64_t draw_;
  std::unique_ptr<Control> control_;
  std::map<size_t, uint64_t> pushes_;  // requests so far, by rows a request
  uint64_t* counted_ = nullptr;        // those to which the requests under way are added; null: they pull
};

// `paceline-bench peers-client`: the process. `arguments` are those that Start gives it. Serves until whoever
// started it has gone. Returns an exit code.
int ServePeersClient(const std::vector<std::string>& arguments);

}  // namespace paceline::bench::peers
