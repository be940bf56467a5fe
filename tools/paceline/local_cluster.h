#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/data_folder.h"
#include "tools/paceline/supervisor.h"

namespace paceline::tool {

struct LocalClusterOptions {
  std::filesystem::path programs;  // the folder of paceline-coordinator and paceline-shard
  int shards = 1;
  int replicas = 0;
  int port = 0;                      // the coordinator's; 0: a free one
  uint64_t memory_budget_bytes = 0;  // of each shard; 0: the shard's own default
  bool durable = false;              // updates are acknowledged when they are on the disks of all members
  bool balance_load = false;         // segments move by load
  std::string snapshot_dir = {};     // of job snapshots; empty: in the folder, unless that is temporary
  std::string socket_dir = {};       // of sockets for shared memory; empty: there are none
  bool verbose = false;              // logs go to standard error instead of files
  absl::Duration start_timeout = absl::Seconds(60);
  // For shards that are not on the loopback interface of this process:
  std::string host = "127.0.0.1";                 // the coordinator's
  std::vector<std::string> shard_command = {};    // runs the command line behind it: each shard's
  std::vector<std::string> shard_arguments = {};  // of each, beside its own
};

// A coordinator and shards as processes on the loopback interface. For one thread.
class LocalCluster {
 public:
  // `supervisor` and `folder` must outlive this.
  LocalCluster(Supervisor& supervisor, const DataFolder& folder, LocalClusterOptions options);

  // Returns when all shards have joined and the cluster has a map. CANCELLED if a signal told this process to
  // stop meanwhile; any other error has the end of the failed process's log. Call Stop in any case.
  absl::Status Start();
  // The signal that made Start return CANCELLED.
  int signal() const { return signal_; }

  // The coordinator's host:port. REQUIRES: the coordinator has started.
  const std::string& address() const { return coordinator_->address(); }
  Coordinator& coordinator() { return *coordinator_; }
  // A shard whose process is running; nullptr: there is none.
  const Child* AnyShard() const;
  // Starts a process that has ended again, with the same arguments; the coordinator at the address it had.
  absl::Status Restart(const std::string& name);
  // The problems that the coordinator reports, as text.
  std::vector<std::string> Problems();

  // True: none of its processes is running.
  bool AllEnded() const;
  // "shard-1 was killed by signal 9 (Killed)", and the end of its log.
  std::string Describe(const Child& child) const;

  // Stops first the shards, then the coordinator. Returns the processes that ended with an exit code other
  // than 0, or by a signal.
  std::vector<const Child*> Stop();

 private:
  absl::Status StartCoordinator();
  // Fewer segments than usual are enough: the cluster is small, and will not grow.
  bool FewSegments() const;
  bool PollsConnections(const std::string& name) const;
  void AddSnapshotDir(std::vector<std::string>& arguments) const;
  absl::Status StartShards();
  // `command`, if it is not empty, runs the program.
  absl::Status StartProgram(const std::string& name, std::vector<std::string> arguments,
                            const std::vector<std::string>& command = {});
  absl::StatusOr<const Child*> Launch(const std::string& name);
  // Waits for the next event until `deadline`. An error if that is the end of a process or a signal.
  absl::Status Pause(absl::Time deadline, int file = -1);
  // Checks that the cluster known to the folder's coordinator has this number of shards.
  absl::Status CheckKnown();
  absl::Status AwaitShards();
  bool Ready(const v1::StatusReply& reply) const;
  // True: one of the shards that this cluster starts.
  bool IsOurs(absl::string_view name) const;
  std::string LogTail(const Child& child) const;

  Supervisor& supervisor_;
  const DataFolder& folder_;
  const LocalClusterOptions options_;
  absl::Time deadline_;
  std::vector<const Child*> children_;                         // the coordinator first
  std::map<std::string, std::vector<std::string>> arguments_;  // of each, by its name
  std::map<std::string, int64_t> logged_;  // bytes in the log of each before this start, by its name
  std::unique_ptr<Coordinator> coordinator_;
  uint64_t newest_known_ = 0;  // incarnation of any shard before this start
  int signal_ = 0;
};

}  // namespace paceline::tool
