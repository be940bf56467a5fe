#include "tools/paceline/local_cluster.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"
#include "tools/paceline/defaults.h"
#include "tools/paceline/port_file.h"
#include "tools/paceline/say.h"

namespace paceline::tool {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(5);
constexpr absl::Duration kCallTimeout = absl::Seconds(5);
constexpr absl::Duration kAskEvery = absl::Milliseconds(20);
constexpr std::streamoff kTailBytes = 2048;
// So many shards have about equally many of few segments.
constexpr int kShardsOfFew = 8;
// The connections of so many shards are few.
constexpr int kShardsThatPoll = 8;

// Tried here first to say it in fewer words than the coordinator's log would.
absl::Status CheckFree(int port) {
  if (port == 0) return absl::OkStatus();
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int result = bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  close(socket);
  if (result == 0) return absl::OkStatus();
  if (error != EADDRINUSE) return absl::ErrnoToStatus(error, absl::StrCat("cannot listen on port ", port));
  return absl::UnavailableError(absl::StrCat(
      "port ", port, " is in use; choose another with --port, or --port 0 for one that is free"));
}

// All shards together have about as many threads as there are cores.
int ThreadsOfEach(int shards) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / shards);
}

// The least of which 2 to the power of it is so many segments.
int RingBitsFor(int segments) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(segments - 1)));
}

// A shard deals its segments to its threads by number (Context::ExecutorOf), so one shard needs a segment for
// each thread. Of two shards one has the even numbers, so with several threads each needs two. Three and more
// shards have unequal numbers of segments, which matters less the more there are.
int FewRingBits(int shards) {
  constexpr int kSegmentsMin = 8;
  constexpr int kSegmentsMax = 64;
  const int threads = ThreadsOfEach(shards);
  if (shards == 1) return std::clamp(RingBitsFor(threads), 2, 6);
  const int each = (shards > 4 ? 4 : 2) * (threads > 1 ? 2 * threads : 1);
  return RingBitsFor(std::clamp(each * shards, kSegmentsMin, kSegmentsMax));
}

std::string Indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

}  // namespace

LocalCluster::LocalCluster(Supervisor& supervisor, const DataFolder& folder, LocalClusterOptions options)
    : supervisor_(supervisor), folder_(folder), options_(std::move(options)) {}

// -- start --

absl::Status LocalCluster::Start() {
  deadline_ = world::MonotonicNow() + options_.start_timeout;
  ABSL_RETURN_IF_ERROR(StartCoordinator());
  ABSL_RETURN_IF_ERROR(CheckKnown());
  ABSL_RETURN_IF_ERROR(StartShards());
  return AwaitShards();
}

absl::Status LocalCluster::StartCoordinator() {
  ABSL_RETURN_IF_ERROR(CheckFree(options_.port));
  ABSL_ASSIGN_OR_RETURN(PortFile file, PortFile::Expect(folder_.path() / "coordinator.port"));
  std::vector<std::string> arguments = {"paceline-coordinator",
                                        "--listen",
                                        absl::StrCat(options_.host, ":", options_.port),
                                        "--port-file",
                                        file.path().string(),
                                        "--data-dir",
                                        (folder_.path() / "coordinator").string(),
                                        "--shards",
                                        absl::StrCat(options_.shards),
                                        "--replicas",
                                        absl::StrCat(options_.replicas)};
  if (options_.balance_load) arguments.push_back("--balance-load");
  if (FewSegments()) {
    arguments.insert(arguments.end(), {"--ring-bits", absl::StrCat(FewRingBits(options_.shards))});
  }
  AddSnapshotDir(arguments);
  ABSL_RETURN_IF_ERROR(StartProgram("coordinator", std::move(arguments)));
  std::optional<std::string> address;
  while (!(address = file.Address()).has_value()) ABSL_RETURN_IF_ERROR(Pause(deadline_, file.changes()));
  coordinator_ = std::make_unique<Coordinator>(*address);
  // A later start is to be found where this one was; nobody reads its port.
  std::vector<std::string>& again = arguments_.at("coordinator");
  *(std::find(again.begin(), again.end(), "--listen") + 1) = *address;
  const auto port_file = std::find(again.begin(), again.end(), "--port-file");
  again.erase(port_file, port_file + 2);
  return absl::OkStatus();
}

// Every batch is cut by segment, and each part costs something. A cluster that is kept may have been begun by
// another version, with another number.
bool LocalCluster::FewSegments() const {
  return folder_.temporary() && options_.shards <= kShardsOfFew && !options_.balance_load;
}

// By itself gRPC has one thread wait for all connections, which hands what comes to the thread whose it is. A
// shard with few connections takes a tenth less time if each of its threads asks all of them.
bool LocalCluster::PollsConnections(const std::string& name) const {
  return name != "coordinator" && options_.shards <= kShardsThatPoll &&
         std::getenv("GRPC_POLL_STRATEGY") == nullptr;
}

void LocalCluster::AddSnapshotDir(std::vector<std::string>& arguments) const {
  std::string dir = options_.snapshot_dir;
  if (dir.empty() && !folder_.temporary()) dir = (folder_.path() / "snapshots").string();
  if (!dir.empty()) arguments.insert(arguments.end(), {"--snapshot-dir", dir});
}

absl::Status LocalCluster::CheckKnown() {
  ABSL_ASSIGN_OR_RETURN(const v1::StatusReply reply, coordinator_->Status(kCallTimeout));
  for (const v1::ShardStatus& shard : reply.shards())
    newest_known_ = std::max(newest_known_, shard.info().incarnation());
  if (reply.map_version() == 0) return absl::OkStatus();
  int size = 0;  // without those of other names, which came by and are none of ours
  for (const v1::ShardStatus& shard : reply.shards()) {
    const std::string& name = shard.info().name();
    if (absl::StartsWith(name, "shard-")) {
      ++size;
    } else {
      Complain(absl::StrCat(name,
                            " is a shard of this cluster too, and not started here; `paceline shard remove ",
                            name, "` forgets it once it holds nothing"));
    }
  }
  if (size == options_.shards) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(folder_.path().string(), " has a cluster of ", size,
                   " shards, and its size cannot change in this version; start it with --shards ", size,
                   ", or choose another --data-dir"));
}

bool LocalCluster::IsOurs(absl::string_view name) const {
  for (int i = 0; i < options_.shards; ++i) {
    if (name == absl::StrCat("shard-", i)) return true;
  }
  return false;
}

absl::Status LocalCluster::StartShards() {
  for (int i = 0; i < options_.shards; ++i) {
    const std::string name = absl::StrCat("shard-", i);
    std::vector<std::string> arguments = {"paceline-shard", "--coordinator", address(), "--name", name,
                                          "--threads", absl::StrCat(ThreadsOfEach(options_.shards)),
                                          // They end together: no shard is left to hand over to.
                                          "--leave-timeout", "0"};
    // Of a temporary folder nothing would be read again.
    if (!folder_.temporary())
      arguments.insert(arguments.end(), {"--data-dir", (folder_.path() / name).string()});
    AddSnapshotDir(arguments);
    if (options_.durable) arguments.insert(arguments.end(), {"--acks", "durable"});
    if (!options_.socket_dir.empty()) {
      arguments.insert(arguments.end(), {"--socket-dir", options_.socket_dir});
    }
    if (options_.memory_budget_bytes != 0) {
      arguments.insert(arguments.end(), {"--memory-budget", absl::StrCat(options_.memory_budget_bytes)});
    }
    const std::vector<std::string>& more = options_.shard_arguments;
    arguments.insert(arguments.end(), more.begin(), more.end());
    ABSL_RETURN_IF_ERROR(StartProgram(name, std::move(arguments), options_.shard_command));
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::StartProgram(const std::string& name, std::vector<std::string> arguments,
                                        const std::vector<std::string>& command) {
  arguments.front() = (options_.programs / arguments.front()).string();
  arguments.insert(arguments.begin(), command.begin(), command.end());
  arguments_[name] = std::move(arguments);
  ABSL_ASSIGN_OR_RETURN(const Child* child, Launch(name));
  children_.push_back(child);
  return absl::OkStatus();
}

absl::StatusOr<const Child*> LocalCluster::Launch(const std::string& name) {
  // A folder that the environment names would be another cluster's.
  ChildOptions child = {.name = name,
                        .arguments = arguments_.at(name),
                        .environment = {absl::StrCat(kSocketDirVariable, "=", options_.socket_dir)}};
  if (PollsConnections(name)) child.environment.push_back("GRPC_POLL_STRATEGY=poll");
  child.output = STDERR_FILENO;
  const std::string log = (folder_.logs() / (name + ".log")).string();
  if (!options_.verbose) {
    child.output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (child.output < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", log));
    logged_[name] = lseek(child.output, 0, SEEK_END);
  }
  absl::StatusOr<const Child*> started = supervisor_.Start(child);
  if (!options_.verbose) close(child.output);
  return started;
}

absl::Status LocalCluster::Restart(const std::string& name) {
  const auto child = std::ranges::find(children_, name, &Child::name);
  ABSL_ASSIGN_OR_RETURN(*child, Launch(name));
  return absl::OkStatus();
}

absl::Status LocalCluster::AwaitShards() {
  absl::StatusOr<v1::StatusReply> reply;
  do {
    ABSL_RETURN_IF_ERROR(Pause(world::MonotonicNow() + kAskEvery));
    reply = coordinator_->Status(std::min(kCallTimeout, deadline_ - world::MonotonicNow()));
    if (reply.ok() && Ready(*reply)) return absl::OkStatus();
  } while (world::MonotonicNow() < deadline_);
  const std::string why =
      reply.ok() ? absl::StrJoin(reply->problems(), "; ") : std::string(reply.status().message());
  std::string text =
      absl::StrCat("the cluster was not up after ", absl::FormatDuration(options_.start_timeout), ": ", why);
  for (const Child* child : children_) absl::StrAppend(&text, "\n", child->name, LogTail(*child));
  return absl::DeadlineExceededError(text);
}

bool LocalCluster::Ready(const v1::StatusReply& reply) const {
  const auto here = std::count_if(reply.shards().begin(), reply.shards().end(), [&](const auto& shard) {
    return shard.alive() && shard.info().incarnation() > newest_known_ && IsOurs(shard.info().name());
  });
  return reply.map_version() >= 1 && here == options_.shards && reply.segments_recovering() == 0;
}

absl::Status LocalCluster::Pause(absl::Time deadline, int file) {
  const Supervisor::Event event = supervisor_.Wait(std::min(deadline, deadline_), file);
  if (const auto* ended = std::get_if<Supervisor::Ended>(&event)) {
    return absl::AbortedError(Describe(*ended->child));
  }
  if (const auto* signalled = std::get_if<Supervisor::Signalled>(&event)) {
    signal_ = signalled->signal;
    return absl::CancelledError("told to stop");
  }
  if (file >= 0 && std::holds_alternative<Supervisor::TimedOut>(event)) {
    return absl::DeadlineExceededError(absl::StrCat(children_.back()->name, " has not started after ",
                                                    absl::FormatDuration(options_.start_timeout),
                                                    LogTail(*children_.back())));
  }
  return absl::OkStatus();
}

// -- while it runs --

std::vector<std::string> LocalCluster::Problems() {
  const absl::StatusOr<v1::StatusReply> reply = coordinator_->Status(kCallTimeout);
  if (!reply.ok()) return {std::string(reply.status().message())};
  return {reply->problems().begin(), reply->problems().end()};
}

const Child* LocalCluster::AnyShard() const {
  for (size_t i = 1; i < children_.size(); ++i) {
    if (!children_[i]->end.has_value()) return children_[i];
  }
  return nullptr;
}

bool LocalCluster::AllEnded() const {
  return std::ranges::all_of(children_, [](const Child* child) { return child->end.has_value(); });
}

std::string LocalCluster::Describe(const Child& child) const {
  return absl::StrCat(child.name, " ", DescribeEnd(child.end.value_or(0)), LogTail(child));
}

std::string LocalCluster::LogTail(const Child& child) const {
  if (!logged_.contains(child.name)) return "";
  std::ifstream log(folder_.logs() / (child.name + ".log"), std::ios::ate);
  const std::streamoff size = log.tellg();
  const std::streamoff from = std::max<std::streamoff>(logged_.at(child.name), size - kTailBytes);
  std::string tail(static_cast<size_t>(std::max<std::streamoff>(0, size - from)), '\0');
  log.seekg(from);
  log.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  if (from > logged_.at(child.name)) tail.erase(0, tail.find('\n') + 1);  // what is left of a line
  while (!tail.empty() && tail.back() == '\n') tail.pop_back();
  return tail.empty() ? "; it wrote no log" : absl::StrCat("; the end of its log:\n", Indented(tail));
}

// -- end --

std::vector<const Child*> LocalCluster::Stop() {
  if (children_.empty()) return {};
  const std::vector<const Child*> shards(children_.begin() + 1, children_.end());
  supervisor_.Stop(shards, kGrace);
  supervisor_.Stop({children_.front()}, kGrace);
  std::vector<const Child*> failed;
  std::ranges::copy_if(children_, std::back_inserter(failed), [](const Child* c) { return c->end != 0; });
  return failed;
}

}  // namespace paceline::tool
