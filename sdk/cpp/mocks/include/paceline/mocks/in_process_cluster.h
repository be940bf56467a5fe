#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/client.h"

namespace paceline::mocks {

// A whole cluster within one process, for the unit tests of training loops:
//
//   TEST(Trainer, Converges) {
//     auto cluster = paceline::mocks::InProcessCluster::Start({.shards = 2});
//     ASSERT_TRUE(cluster.ok()) << cluster.status();
//     auto client = (*cluster)->Connect({.job = "test", .workers = 1});
//     ASSERT_TRUE(client.ok()) << client.status();
//     Train(**client, ...);                          // the code under test: it sees a Client like any other
//     auto weights = (*client)->Open("weights");     // and what it has learned
//     EXPECT_THAT(*weights->Pull({0, 1}), ElementsAre(FloatNear(0.5f, 0.01f), ...));
//   }
//
// It imitates nothing: it runs the real coordinator and shards, which keep everything in memory and listen on
// free ports of the loopback interface. So rules, initialisers, clocks, bounds of staleness and errors are
// the real ones, and several clusters may run side by side. Starting takes some tens of milliseconds. There
// is no disk and no metrics page; log lines go to spdlog's default logger.
class InProcessCluster {
 public:
  // The size of the cluster, and its limits.
  struct Options {
    // Number of shards.
    int shards = 1;
    // Copies of each row besides the first, on other shards. With 1 or more, no row is lost when one shard
    // stops.
    int replicas = 0;
    // The ring has 2^ring_bits segments. Fewer start faster; paceline-coordinator uses 6 by default.
    int ring_bits = 4;
    // Memory that the rows of one shard may take. Make it small to test a job that runs out of memory.
    uint64_t memory_budget_bytes = uint64_t{256} << 20;
    // The coordinator evicts a client that is silent for longer.
    absl::Duration session_timeout = absl::Seconds(10);
  };

  // Starts the coordinator and the shards. INVALID_ARGUMENT: fewer than one shard, or as many replicas as
  // shards.
  static absl::StatusOr<std::unique_ptr<InProcessCluster>> Start(const Options& options);
  // With default options.
  static absl::StatusOr<std::unique_ptr<InProcessCluster>> Start();
  // Stops the cluster within about a second, or at once if no client is connected any more.
  ~InProcessCluster();
  InProcessCluster(const InProcessCluster&) = delete;
  InProcessCluster& operator=(const InProcessCluster&) = delete;

  // host:port for ClientOptions::coordinator or the environment variable PACELINE_COORDINATOR.
  const std::string& coordinator() const;

  // Client::Connect with this cluster's coordinator.
  absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options) const;

  // -- Faults --

  // Ends the client's session as if it had been silent for too long: its next operations return ABORTED with
  // `reason` in the message.
  absl::Status Evict(const Client& client, const std::string& reason = "evicted by a test");

  // Stops a shard, 0 .. shards−1, which loses all its data, as if its machine had died. With replicas the
  // other shards take over within about a second. Without, operations that need the shard wait for it, and
  // end with DEADLINE_EXCEEDED naming it. Call it at most once for each shard.
  void StopShard(int shard);

 private:
  class Impl;
  explicit InProcessCluster(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::mocks
