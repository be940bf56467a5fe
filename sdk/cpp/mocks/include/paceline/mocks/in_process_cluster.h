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
// Nothing in it is imitated: it is the coordinator and the shards themselves, which keep everything in memory
// and listen on ports of the loopback interface that nobody else has. So rules, initialisers, clocks, bounds
// of staleness and errors are the real ones, and several clusters may run side by side. Starting takes some
// tens of milliseconds. There is no disk and no metrics page; log lines go to spdlog's default logger.
//
// Thread-safe. Clients may outlive the cluster; their operations then end with DEADLINE_EXCEEDED.
class InProcessCluster {
 public:
  struct Options {
    int shards = 1;
    // Copies of each row besides the first, on other shards. With 1 or more, no row is lost with a shard.
    int replicas = 0;
    // The ring has 2^ring_bits segments. Fewer are quicker to start; a cluster is made with 6.
    int ring_bits = 4;
    // Memory that the rows of one shard may take; small, to see what a job does when there is no more.
    uint64_t memory_budget_bytes = uint64_t{256} << 20;
    // A client that is silent for longer is evicted.
    absl::Duration session_timeout = absl::Seconds(10);
  };

  static absl::StatusOr<std::unique_ptr<InProcessCluster>> Start(const Options& options);
  static absl::StatusOr<std::unique_ptr<InProcessCluster>> Start();
  // Ends within about a second; at once where no client is connected any more.
  ~InProcessCluster();
  InProcessCluster(const InProcessCluster&) = delete;
  InProcessCluster& operator=(const InProcessCluster&) = delete;

  // host:port for ClientOptions::coordinator, or the environment variable PACELINE_COORDINATOR.
  const std::string& coordinator() const;

  // Client::Connect with this cluster's coordinator.
  absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options) const;

  // -- What may befall a job --

  // Ends the client's session as if it had been silent for too long: its next operations return ABORTED.
  absl::Status Evict(const Client& client, const std::string& reason = "evicted by a test");

  // The shard, 0 .. shards−1, is gone with all it held, as if its machine had died. With replicas the others
  // go on in its place within about a second; without, what needs it waits, and ends with DEADLINE_EXCEEDED
  // naming it. At most once for each shard.
  void StopShard(int shard);

 private:
  class Impl;
  explicit InProcessCluster(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::mocks
