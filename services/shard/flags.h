#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <variant>

#include "absl/time/time.h"
#include "services/shard/shard.h"

namespace paceline::shard {

// The flags of paceline-shard; `paceline-shard --help` says what each is for.
struct Flags {
  std::string coordinator;
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  std::string peer_listen;
  std::string peer_advertise;
  bool reflection = false;
  std::string name;
  std::string zone;
  uint64_t memory_budget = ShardOptions().memory_budget_bytes;
  uint64_t staging_budget = ShardOptions().staging_budget_bytes;
  uint64_t reply_budget = ShardOptions().all_replies_bytes_max;
  uint64_t stream_budget = ShardOptions().stream_bytes_max;
  uint64_t move_rate = 0;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string metrics_listen = "127.0.0.1:0";
  std::string metrics_cluster;
  std::string port_file;
  std::string peer_port_file;
  absl::Duration leave_timeout = absl::Seconds(10);
  std::string record;
  std::string data_dir;
  std::string acks = "replicated";
  std::string snapshot_dir;
  std::string socket_dir;
  bool direct_streams = true;
  std::string log_format = "text";
  std::string log_level = "info";
};

// The flags, with defaults filled in and logging set up; or the exit code if there is nothing to do, after
// the reason is on standard error.
std::variant<Flags, int> ParseFlags(int argc, char** argv);

}  // namespace paceline::shard
