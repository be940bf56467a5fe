#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/soak/power_loss.h"
#include "libs/ring/segment_map.h"
#include "libs/world/random.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/port_file.h"
#include "tools/paceline/supervisor.h"

namespace paceline::bench {

struct RealClusterOptions {
  std::filesystem::path folder;  // of logs, records and the coordinator's data; empty and there
  int shards = 3;
  int replicas = 1;
  int threads = 1;                     // of each shard
  std::string memory_budget = "4GiB";  // … as its flag has it
  std::string acks = "replicated";     // "durable": shards keep disks, in folder/NAME
  bool lose_power = false;             // a killed process loses its unsynced bytes
  // Everybody reaches the servers through relays that can be slowed and killed, and shards write histories.
  // Both take the time of a core; false where time is what is measured.
  bool watched = true;
  uint64_t seed = 1;  // of how much of that goes
  // Short, so that nobody waits long for a killed worker.
  absl::Duration session_timeout = absl::Seconds(3);
};

// A coordinator, shards and other programs that work with them, as processes on the loopback interface that
// can be killed, stopped and started again, each by its name: "coordinator", "shard-0", … In a watched
// cluster everybody reaches one of these through a relay (relay.h), "link-coordinator", "link-shard-0",
// "link-shard-0-peers" …, a process as well, and shards write history files into folder/records. Everyone
// logs into folder/logs. For one thread.
class RealCluster {
 public:
  // Returns when the cluster is in sync. `supervisor` must outlive it.
  static absl::StatusOr<std::unique_ptr<RealCluster>> Start(tool::Supervisor& supervisor,
                                                            RealClusterOptions options);

  bool durable() const { return options_.acks == "durable"; }
  uint64_t bytes_lost() const { return bytes_lost_; }      // that were not synced
  const std::string& address() const { return address_; }  // of the coordinator, or of its link
  const RealClusterOptions& options() const { return options_; }
  std::filesystem::path records() const { return options_.folder / "records"; }
  std::vector<std::string> shards() const;
  std::vector<std::string> links() const;

  // A further process, `arguments` after the program's own path.
  absl::Status StartProcess(const std::string& name, std::vector<std::string> arguments);
  // A further shard, with links of its own.
  absl::Status AddShard(const std::string& name);
  bool Runs(const std::string& name) const;

  // -- faults --
  absl::Status Kill(const std::string& name);  // returns when the process is gone
  // The same, of all of them at once. Where shards lose power, at a moment at which one of `names` has
  // written what is not synced: they are stopped and continued until there is one, for 10 s at most.
  absl::Status KillTogether(const std::vector<std::string>& names);
  absl::Status Restart(
      const std::string& name);  // with the same arguments; of the coordinator: at its address
  // In order; returns when it has ended. Its next start is awaited by AwaitInSync.
  absl::Status StopShard(const std::string& name);
  void Stop(const std::string& name) { Signal(name, SIGSTOP); }
  void Continue(const std::string& name) { Signal(name, SIGCONT); }
  void Slow(const std::string& link) { Signal(link, SIGUSR1); }
  void Fast(const std::string& link) { Signal(link, SIGUSR2); }

  // Waits. An error if a process ends that nobody killed, or a signal tells this one to stop.
  absl::Status Pause(absl::Duration duration);
  // Until every shard is a member with its newest start and every segment has its replicas.
  absl::Status AwaitInSync(absl::Duration timeout);
  absl::StatusOr<v1::StatusReply> Status();
  absl::StatusOr<ring::SegmentMap> Map();

  // Tells processes to end and waits until they have. An error if one ends with another exit code than 0.
  absl::Status End(const std::vector<std::string>& names, absl::Duration timeout);
  // The shards, then the coordinator, then the links: then every history file says that it is whole.
  absl::Status EndServers();

 private:
  struct Process {
    std::vector<std::string> arguments;
    const tool::Child* child = nullptr;
    bool end_expected = false;
    bool may_end = false;      // by itself, with exit code 0
    bool told_to_end = false;  // it may have been before it listened for that
  };

  RealCluster(tool::Supervisor& supervisor, RealClusterOptions options)
      : supervisor_(supervisor), options_(std::move(options)), random_(options_.seed) {}
  bool HasDisk(const std::string& name) const;
  // Stops the processes at a moment as KillTogether has it.
  absl::Status StopWithUnsynced(const std::vector<std::string>& names);
  absl::StatusOr<uint64_t> Unsynced(const std::vector<std::string>& names) const;
  void AwaitStopped(const std::string& name) const;
  absl::Status StartCoordinator();
  // The incarnation that is known now is over, once a newer one has joined.
  void NoteIncarnation(const std::string& shard);
  // Puts relays before a shard, and adds them and its history to its arguments.
  absl::Status Watch(const std::string& shard, std::vector<std::string>& arguments);
  // A relay to the process that writes its address to `to_file`. Returns the relay's own.
  absl::StatusOr<std::string> StartLink(const std::string& to, const std::filesystem::path& to_file);
  absl::StatusOr<std::string> AwaitAddress(const std::string& of, tool::PortFile& file);
  absl::Status Launch(const std::string& name);
  absl::Status AwaitEnd(const std::string& name, absl::Time deadline);
  // The next event; an error as Pause has it.
  absl::Status Take(absl::Time deadline, int file = -1);
  absl::Status EndBy(int signal, const std::vector<std::string>& names, absl::Duration timeout);
  void Signal(const std::string& name, int signal);
  std::string WhyNotInSync(const v1::StatusReply& status) const;
  std::string LogOf(const std::string& name) const;

  tool::Supervisor& supervisor_;
  const RealClusterOptions options_;
  std::string address_;
  std::string coordinator_address_;  // without its link
  std::unique_ptr<tool::Coordinator> coordinator_;
  std::map<std::string, Process> processes_;
  std::optional<PowerLoss> power_loss_;
  world::SplitMix64 random_;
  uint64_t bytes_lost_ = 0;
  std::map<std::string, uint64_t> newest_;  // incarnation of each shard before it was started last
};

}  // namespace paceline::bench
