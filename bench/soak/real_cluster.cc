#include "bench/soak/real_cluster.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/status.h"
#include "libs/wire/map_codec.h"
#include "libs/world/real_clock.h"

namespace paceline::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
constexpr absl::Duration kEndTimeout = absl::Seconds(30);
constexpr absl::Duration kCallTimeout = absl::Seconds(5);
constexpr absl::Duration kUnsyncedTimeout = absl::Seconds(10);
constexpr absl::Duration kAskEvery = absl::Milliseconds(20);
constexpr char kCoordinatorName[] = "coordinator";
constexpr char kShard[] = "shard-";
constexpr char kLink[] = "link-";
constexpr char kPeers[] = "-peers";  // behind a shard's name: its address for other shards

}  // namespace

std::vector<std::string> RealCluster::shards() const {
  std::vector<std::string> names;
  for (int i = 0; i < options_.shards; ++i) names.push_back(absl::StrCat(kShard, i));
  return names;
}

std::vector<std::string> RealCluster::links() const {
  if (!options_.watched) return {};
  std::vector<std::string> names = {absl::StrCat(kLink, kCoordinatorName)};
  for (const std::string& shard : shards()) {
    names.push_back(kLink + shard);
    names.push_back(absl::StrCat(kLink, shard, kPeers));
  }
  return names;
}

absl::StatusOr<std::unique_ptr<RealCluster>> RealCluster::Start(tool::Supervisor& supervisor,
                                                                RealClusterOptions options) {
  std::error_code error;
  std::filesystem::create_directories(options.folder / "logs", error);
  std::filesystem::create_directories(options.folder / "records", error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot make ", options.folder.string(), ": ", error.message()));
  }
  std::unique_ptr<RealCluster> cluster(new RealCluster(supervisor, std::move(options)));
  if (cluster->options_.lose_power) {
    ABSL_ASSIGN_OR_RETURN(cluster->power_loss_, PowerLoss::Prepare(cluster->options_.folder / "synced"));
  }
  ABSL_RETURN_IF_ERROR(cluster->StartCoordinator());
  for (const std::string& name : cluster->shards()) ABSL_RETURN_IF_ERROR(cluster->AddShard(name));
  ABSL_RETURN_IF_ERROR(cluster->AwaitInSync(kStartTimeout));
  return cluster;
}

absl::StatusOr<std::string> RealCluster::AwaitAddress(const std::string& of, tool::PortFile& file) {
  const absl::Time deadline = world::MonotonicNow() + kStartTimeout;
  std::optional<std::string> address;
  while (!(address = file.Address()).has_value()) {
    ABSL_RETURN_IF_ERROR(Take(deadline, file.changes()));
    if (world::MonotonicNow() < deadline) continue;
    return absl::DeadlineExceededError(absl::StrCat(of, " has not started", LogOf(of)));
  }
  return *address;
}

absl::StatusOr<std::string> RealCluster::StartLink(const std::string& to,
                                                   const std::filesystem::path& to_file) {
  const std::string name = kLink + to;
  ABSL_ASSIGN_OR_RETURN(tool::PortFile file, tool::PortFile::Expect(options_.folder / (name + ".port")));
  ABSL_RETURN_IF_ERROR(StartProcess(
      name, {std::filesystem::read_symlink("/proc/self/exe").string(), "soak-relay", "--listen",
             "127.0.0.1:0", "--to-file", to_file.string(), "--port-file", file.path().string()}));
  ABSL_ASSIGN_OR_RETURN(const std::string address, AwaitAddress(name, file));
  processes_[name].arguments[3] = address;  // others find it again when it returns
  return address;
}

absl::Status RealCluster::StartCoordinator() {
  ABSL_ASSIGN_OR_RETURN(tool::PortFile file, tool::PortFile::Expect(options_.folder / "coordinator.port"));
  std::vector<std::string> arguments = {
      (tool::FolderOfPrograms() / "paceline-coordinator").string(),
      "--listen",
      "127.0.0.1:0",
      "--port-file",
      file.path().string(),
      "--data-dir",
      (options_.folder / "coordinator").string(),
      "--shards",
      absl::StrCat(options_.shards),
      "--session-timeout",
      absl::FormatDuration(options_.session_timeout),
      "--replicas",
      absl::StrCat(options_.replicas),
  };
  ABSL_RETURN_IF_ERROR(StartProcess(kCoordinatorName, arguments));
  ABSL_ASSIGN_OR_RETURN(coordinator_address_, AwaitAddress(kCoordinatorName, file));
  processes_[kCoordinatorName].arguments[2] = coordinator_address_;
  coordinator_ = std::make_unique<tool::Coordinator>(coordinator_address_);
  address_ = coordinator_address_;
  if (!options_.watched) return absl::OkStatus();
  const std::filesystem::path to_file = options_.folder / "coordinator.address";
  if (!(std::ofstream(to_file) << coordinator_address_ << "\n")) {
    return absl::UnavailableError(absl::StrCat("cannot write ", to_file.string()));
  }
  ABSL_ASSIGN_OR_RETURN(address_, StartLink(kCoordinatorName, to_file));
  return absl::OkStatus();
}

absl::Status RealCluster::AddShard(const std::string& name) {
  std::vector<std::string> arguments = {
      (tool::FolderOfPrograms() / "paceline-shard").string(),
      "--coordinator",
      address_,
      "--name",
      name,
      "--listen",
      "127.0.0.1:0",
      "--threads",
      absl::StrCat(options_.threads),
      "--memory-budget",
      options_.memory_budget,
  };
  if (options_.watched) ABSL_RETURN_IF_ERROR(Watch(name, arguments));
  if (durable()) {
    arguments.insert(arguments.end(),
                     {"--data-dir", (options_.folder / name).string(), "--acks", options_.acks});
  }
  return StartProcess(name, std::move(arguments));
}

absl::Status RealCluster::Watch(const std::string& shard, std::vector<std::string>& arguments) {
  const std::filesystem::path to_file = options_.folder / (shard + ".address");
  ABSL_ASSIGN_OR_RETURN(const std::string link, StartLink(shard, to_file));
  const std::filesystem::path peers_to_file = options_.folder / absl::StrCat(shard, kPeers, ".address");
  ABSL_ASSIGN_OR_RETURN(const std::string peer_link, StartLink(absl::StrCat(shard, kPeers), peers_to_file));
  arguments.insert(arguments.end(),
                   {"--advertise", link, "--port-file", to_file.string(), "--peer-advertise", peer_link,
                    "--peer-port-file", peers_to_file.string(), "--record", (records() / shard).string()});
  return absl::OkStatus();
}

absl::Status RealCluster::StartProcess(const std::string& name, std::vector<std::string> arguments) {
  Process& process = processes_[name];
  process.may_end = !name.starts_with(kShard) && !name.starts_with(kLink) && name != kCoordinatorName;
  process.arguments = std::move(arguments);
  return Launch(name);
}

absl::Status RealCluster::Launch(const std::string& name) {
  Process& process = processes_.at(name);
  tool::ChildOptions child = {.name = name, .arguments = process.arguments, .environment = {}};
  if (power_loss_.has_value() && HasDisk(name)) child.environment = power_loss_->Environment();
  const std::string log = (options_.folder / "logs" / (name + ".log")).string();
  child.output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (child.output < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", log));
  absl::StatusOr<const tool::Child*> started = supervisor_.Start(child);
  close(child.output);
  if (!started.ok()) return started.status();
  process.child = *started;
  process.end_expected = process.told_to_end = false;
  return absl::OkStatus();
}

bool RealCluster::Runs(const std::string& name) const {
  const auto it = processes_.find(name);
  return it != processes_.end() && it->second.child != nullptr && !it->second.child->end.has_value();
}

void RealCluster::Signal(const std::string& name, int signal) {
  if (Runs(name)) supervisor_.Signal(*processes_.at(name).child, signal);
}

// -- faults --

absl::Status RealCluster::Kill(const std::string& name) {
  return KillTogether({name});
}

absl::Status RealCluster::KillTogether(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    processes_.at(name).end_expected = true;
    if (name.starts_with(kShard)) NoteIncarnation(name);
  }
  const bool shards = std::ranges::any_of(names, [](const auto& name) { return name.starts_with(kShard); });
  if (power_loss_.has_value() && shards) ABSL_RETURN_IF_ERROR(StopWithUnsynced(names));
  for (const std::string& name : names) Signal(name, SIGKILL);
  for (const std::string& name : names)
    ABSL_RETURN_IF_ERROR(AwaitEnd(name, world::MonotonicNow() + kEndTimeout));
  const bool all = bytes_lost_ == 0;  // chance might leave every byte, each time
  for (const std::string& name : names) {
    if (!power_loss_.has_value() || !HasDisk(name)) continue;
    ABSL_ASSIGN_OR_RETURN(const uint64_t lost, power_loss_->Take(options_.folder / name, random_, all));
    bytes_lost_ += lost;
  }
  return absl::OkStatus();
}

absl::Status RealCluster::StopWithUnsynced(const std::vector<std::string>& names) {
  const absl::Time deadline = world::MonotonicNow() + kUnsyncedTimeout;
  while (true) {
    for (const std::string& name : names) Stop(name);
    for (const std::string& name : names) AwaitStopped(name);
    ABSL_ASSIGN_OR_RETURN(const uint64_t unsynced, Unsynced(names));
    if (unsynced > 0 || world::MonotonicNow() >= deadline) return absl::OkStatus();
    for (const std::string& name : names) Continue(name);
    ABSL_RETURN_IF_ERROR(Pause(absl::Microseconds(world::Uniform(random_, 5000))));
  }
}

absl::StatusOr<uint64_t> RealCluster::Unsynced(const std::vector<std::string>& names) const {
  uint64_t sum = 0;
  for (const std::string& name : names) {
    if (!HasDisk(name)) continue;
    ABSL_ASSIGN_OR_RETURN(const uint64_t unsynced, power_loss_->Unsynced(options_.folder / name));
    sum += unsynced;
  }
  return sum;
}

void RealCluster::AwaitStopped(const std::string& name) const {
  const auto it = processes_.find(name);
  if (it == processes_.end() || it->second.child == nullptr) return;
  siginfo_t ignored;
  // The kernel stops it as soon as it is out of the call it is in; an end is left for the supervisor.
  while (waitid(P_PID, static_cast<id_t>(it->second.child->process), &ignored,
                WSTOPPED | WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
}

bool RealCluster::HasDisk(const std::string& name) const {
  return name == kCoordinatorName || (durable() && name.starts_with(kShard));
}

absl::Status RealCluster::StopShard(const std::string& name) {
  NoteIncarnation(name);
  return End({name}, kEndTimeout);
}

void RealCluster::NoteIncarnation(const std::string& shard) {
  const auto status = Status();
  if (!status.ok()) return;
  for (const v1::ShardStatus& one : status->shards()) {
    if (one.info().name() == shard) newest_[shard] = one.info().incarnation();
  }
}

absl::Status RealCluster::Restart(const std::string& name) {
  return Launch(name);
}

absl::Status RealCluster::AwaitEnd(const std::string& name, absl::Time deadline) {
  while (Runs(name)) {
    ABSL_RETURN_IF_ERROR(Take(deadline));
    if (!Runs(name) || world::MonotonicNow() < deadline) continue;
    return absl::DeadlineExceededError(absl::StrCat(name, " has not ended", LogOf(name)));
  }
  return absl::OkStatus();
}

// -- waiting --

absl::Status RealCluster::Take(absl::Time deadline, int file) {
  const tool::Supervisor::Event event = supervisor_.Wait(deadline, file);
  if (std::holds_alternative<tool::Supervisor::Signalled>(event)) {
    return absl::CancelledError("told to stop");
  }
  const auto* ended = std::get_if<tool::Supervisor::Ended>(&event);
  if (ended == nullptr) return absl::OkStatus();
  for (const auto& [name, process] : processes_) {
    if (process.child != ended->child || process.end_expected) continue;
    const int end = *ended->child->end;
    if (process.may_end && end == 0) continue;
    if (process.told_to_end && WIFSIGNALED(end) && WTERMSIG(end) == SIGTERM) continue;
    return absl::AbortedError(absl::StrCat(name, " ", tool::DescribeEnd(*ended->child->end), LogOf(name)));
  }
  return absl::OkStatus();
}

absl::Status RealCluster::Pause(absl::Duration duration) {
  const absl::Time deadline = world::MonotonicNow() + duration;
  do {
    ABSL_RETURN_IF_ERROR(Take(deadline));
  } while (world::MonotonicNow() < deadline);
  return absl::OkStatus();
}

absl::StatusOr<v1::StatusReply> RealCluster::Status() {
  return coordinator_->Status(kCallTimeout);
}

absl::StatusOr<ring::SegmentMap> RealCluster::Map() {
  ABSL_ASSIGN_OR_RETURN(const v1::Map map, coordinator_->Map(kCallTimeout));
  return wire::MapFromProto(map);
}

std::string RealCluster::WhyNotInSync(const v1::StatusReply& status) const {
  if (status.map_version() == 0) return "there is no map yet";
  if (status.segments_under_replicated() > 0) {
    return absl::StrCat(status.segments_under_replicated(), " segments have fewer replicas than they should");
  }
  int here = 0;
  for (const v1::ShardStatus& shard : status.shards()) {
    if (!shard.alive()) return absl::StrCat(shard.info().name(), " is silent");
    if (shard.last().lost() > 0) return absl::StrCat(shard.info().name(), " has lost segments");
    const auto before = newest_.find(shard.info().name());
    if (before != newest_.end() && shard.info().incarnation() <= before->second) {
      return absl::StrCat(shard.info().name(), " has not joined since it was started again");
    }
    ++here;
  }
  return here == options_.shards ? "" : absl::StrCat(here, " of ", options_.shards, " shards have joined");
}

absl::Status RealCluster::AwaitInSync(absl::Duration timeout) {
  const absl::Time deadline = world::MonotonicNow() + timeout;
  std::string why;
  do {
    const auto status = Status();
    why = status.ok() ? WhyNotInSync(*status) : std::string(status.status().message());
    if (why.empty()) return absl::OkStatus();
    ABSL_RETURN_IF_ERROR(Pause(kAskEvery));
  } while (world::MonotonicNow() < deadline);
  std::string text =
      absl::StrCat("the cluster is not in sync after ", absl::FormatDuration(timeout), ": ", why);
  if (const auto status = Status(); status.ok())
    absl::StrAppend(&text, "; ", absl::StrJoin(status->problems(), "; "));
  for (const auto& [name, process] : processes_) absl::StrAppend(&text, LogOf(name));
  return absl::DeadlineExceededError(text);
}

// -- the end --

absl::Status RealCluster::End(const std::vector<std::string>& names, absl::Duration timeout) {
  return EndBy(SIGTERM, names, timeout);
}

absl::Status RealCluster::EndBy(int signal, const std::vector<std::string>& names, absl::Duration timeout) {
  for (const std::string& name : names) {
    processes_.at(name).may_end = processes_.at(name).told_to_end = true;
    Signal(name, signal);
  }
  const absl::Time deadline = world::MonotonicNow() + timeout;
  for (const std::string& name : names) ABSL_RETURN_IF_ERROR(AwaitEnd(name, deadline));
  return absl::OkStatus();
}

absl::Status RealCluster::EndServers() {
  // All of them at once: none has anybody to leave its segments to.
  ABSL_RETURN_IF_ERROR(EndBy(SIGINT, shards(), kEndTimeout));
  ABSL_RETURN_IF_ERROR(End({kCoordinatorName}, kEndTimeout));
  for (const std::string& name : links()) ABSL_RETURN_IF_ERROR(Kill(name));
  return absl::OkStatus();
}

std::string RealCluster::LogOf(const std::string& name) const {
  std::ifstream file(options_.folder / "logs" / (name + ".log"));
  std::stringstream bytes;
  bytes << file.rdbuf();
  const std::string log = bytes.str();
  constexpr size_t kTail = 1500;
  return absl::StrCat("\n", name, ":\n", log.substr(log.size() - std::min(log.size(), kTail)));
}

}  // namespace paceline::bench
