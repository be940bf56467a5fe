#include "bench/size.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "bench/size_cluster.h"
#include "libs/base/status.h"
#include "libs/wire/map_codec.h"
#include "libs/world/real_clock.h"
#include "services/coordinator/metadata/placement/map_plan.h"
#include "services/coordinator/metadata/placement/move_plan.h"
#include "services/shard/shard.h"

namespace paceline::bench {
namespace {

constexpr ClusterSize kSizes[] = {{3, 6, 12},     {10, 8, 40},    {30, 10, 120},
                                  {100, 12, 200}, {300, 14, 200}, {1000, 16, 200}};
constexpr size_t kSmallest = 2;  // of them
constexpr rlim_t kSizeBytesMax = rlim_t{6} << 30;
constexpr rlim_t kSizeCpuSeconds = 600;
constexpr int kRounds = 5;

double ThreadCpuMs() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return 1e3 * static_cast<double>(spent.tv_sec) + 1e-6 * static_cast<double>(spent.tv_nsec);
}

// A line of /proc/self/status, in MiB.
double ProcMiB(absl::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    absl::string_view rest = line;
    int64_t kib = 0;
    if (!absl::ConsumePrefix(&rest, name) || !absl::ConsumeSuffix(&rest, " kB")) continue;
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(rest), &kib)) return static_cast<double>(kib) / 1024;
  }
  return 0;
}

// From here on VmHWM is the most that the process has held.
void ForgetPeak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

// One size: its cluster, and the figures taken so far.
class Sizing {
 public:
  explicit Sizing(ClusterSize size) : size_(size), cluster_(size) {}

  absl::Status Run();
  const std::vector<Result>& results() const { return results_; }

 private:
  using Work = std::function<absl::Status()>;

  void Add(const std::string& metric, double value, const std::string& limit_name, double limit) {
    results_.push_back(
        {.workload = "size",
         .params = {{"shards", size_.shards}, {"segments", size_.segments()}, {"workers", size_.workers}},
         .metric = metric,
         .value = value,
         .limit_name = limit_name,
         .limit = limit,
         .lower_is_better = true});
    Print(results_.back());
  }
  void AddCpu(const std::string& step, double ms) {
    Add(absl::StrCat(step, ": CPU ms"), ms, "map encoded", encode_ms_);
  }
  void AddBytes(const std::string& what, uint64_t bytes) {
    Add(absl::StrCat(what, " bytes"), static_cast<double>(bytes), "whole map", map_bytes_);
  }
  // Does the work, once or several times, and adds what it cost.
  absl::Status Step(const std::string& name, int rounds, const Work& work);
  // What the last round of a step has sent and stored.
  void AddTraffic(const std::string& name, int rounds);
  absl::Status Start();
  absl::Status Sessions();
  absl::Status Changes();
  absl::Status Plans();
  absl::Status Receivers();

  const ClusterSize size_;
  SizeCluster cluster_;
  double encode_ms_ = 0;
  double map_bytes_ = 0;
  std::string whole_install_;
  std::vector<Result> results_;
};

absl::Status Sizing::Step(const std::string& name, int rounds, const Work& work) {
  cluster_.TakeToShards(), cluster_.TakeToClients(), cluster_.TakeStored();
  ForgetPeak();
  const double held = ProcMiB("VmRSS:");
  std::vector<double> costs;
  for (int round = 0; round < rounds; ++round) {
    const double before = ThreadCpuMs();
    ABSL_RETURN_IF_ERROR(work());
    costs.push_back(ThreadCpuMs() - before);
  }
  AddCpu(name, Median(std::move(costs)));
  Add(absl::StrCat(name, ": MiB more at the peak"), std::max(0.0, ProcMiB("VmHWM:") - held), "process", held);
  return absl::OkStatus();
}

void Sizing::AddTraffic(const std::string& name, int rounds) {
  const auto each = [rounds](uint64_t sum) { return sum / static_cast<uint64_t>(rounds); };
  const Traffic shards = cluster_.TakeToShards();
  const Traffic clients = cluster_.TakeToClients();
  Add(absl::StrCat(name, ": messages"), static_cast<double>(each(shards.messages)), "shards", size_.shards);
  Add(absl::StrCat(name, ": most to one shard"), static_cast<double>(each(shards.most_to_one)), "message", 1);
  AddBytes(absl::StrCat(name, ": to all shards,"), each(shards.bytes));
  AddBytes(absl::StrCat(name, ": largest to a shard,"), shards.largest);
  AddBytes(absl::StrCat(name, ": to all clients,"), each(clients.bytes));
  AddBytes(absl::StrCat(name, ": stored,"), each(cluster_.TakeStored()));
}

absl::Status Sizing::Run() {
  ABSL_RETURN_IF_ERROR(Start());
  ABSL_RETURN_IF_ERROR(Sessions());
  ABSL_RETURN_IF_ERROR(Changes());
  ABSL_RETURN_IF_ERROR(Plans());
  return Receivers();
}

// The first map, and what goes on without any change.
absl::Status Sizing::Start() {
  for (uint32_t s = 0; s + 1 < size_.shards; ++s) ABSL_RETURN_IF_ERROR(cluster_.Join());
  ABSL_RETURN_IF_ERROR(Step("first map", 1, [this] {
    const absl::Status joined = cluster_.Join();
    cluster_.Answer();
    return joined;
  }));
  if (cluster_.map() == nullptr) return absl::InternalError("no first map was made");
  const double before = ThreadCpuMs();
  map_bytes_ = static_cast<double>(cluster_.map()->SerializeAsString().size());
  encode_ms_ = ThreadCpuMs() - before;
  whole_install_ = cluster_.last_install();
  AddTraffic("first map", 1);
  uint32_t next = 0;
  const auto beat = [&] {
    cluster_.Beat(next++ % size_.shards);
    return absl::OkStatus();
  };
  for (uint32_t s = 0; s < size_.shards; ++s) (void)beat();
  cluster_.Answer();
  cluster_.Pass(absl::Milliseconds(250));
  cluster_.core().OnTime();
  cluster_.Answer();
  ABSL_RETURN_IF_ERROR(Step("beat", static_cast<int>(size_.shards), beat));
  AddBytes("beat: received,", cluster_.BeatOf(0).SerializeAsString().size());
  return Step("tick without work", kRounds, [this] {
    cluster_.core().OnTime();
    return absl::OkStatus();
  });
}

absl::Status Sizing::Sessions() {
  ABSL_RETURN_IF_ERROR(cluster_.Open().status());
  std::vector<v1::OpenSessionReply> sessions;
  const int workers = static_cast<int>(size_.workers);
  const auto open = [&] {
    ABSL_ASSIGN_OR_RETURN(v1::OpenSessionReply opened, cluster_.Open());
    opened.clear_compact_map();
    sessions.push_back(std::move(opened));
    return absl::OkStatus();
  };
  ABSL_RETURN_IF_ERROR(Step("session opened", workers, open));
  AddTraffic("session opened", workers);
  size_t next = 0;
  ABSL_RETURN_IF_ERROR(Step("worker joined", workers, [&] { return cluster_.MakeWorker(sessions[next++]); }));
  for (uint32_t w = 0; w < size_.workers; ++w) cluster_.Watch();
  return absl::OkStatus();
}

absl::Status Sizing::Changes() {
  uint32_t segment = 0;
  ABSL_RETURN_IF_ERROR(Step("segment changed", kRounds, [&] { return cluster_.Drop(segment++); }));
  AddTraffic("segment changed", kRounds);
  ABSL_RETURN_IF_ERROR(Step("shard joined", 1, [&] {
    const absl::Status joined = cluster_.Join();
    cluster_.Answer();
    return joined;
  }));
  AddTraffic("shard joined", 1);
  ABSL_RETURN_IF_ERROR(Step("coordinator started", 1, [this] { return cluster_.Restart(); }));
  return absl::OkStatus();
}

// The planner alone: a new cluster, and the first round after a shard has joined.
absl::Status Sizing::Plans() {
  std::map<uint32_t, coordinator::ShardRecord> records;
  for (const v1::ShardInfo& info : cluster_.map()->shards()) *records[info.shard()].mutable_info() = info;
  records.erase(size_.shards);  // joined last
  v1::Map map;
  ABSL_RETURN_IF_ERROR(Step("first plan", 1, [&] {
    map = coordinator::FirstMap(records, size_.ring_bits, SizeCluster::kReplicas);
    return absl::OkStatus();
  }));
  const auto plan = [&] {
    coordinator::MoveInputs inputs{.map = map, .replicas = SizeCluster::kReplicas, .moves_per_shard = 8};
    for (const v1::ShardInfo& info : map.shards()) inputs.alive.insert(info.shard());
    return coordinator::PlanMoves(inputs).size();
  };
  ABSL_RETURN_IF_ERROR(Step("plan at rest", kRounds, [&] {
    return plan() == 0 ? absl::OkStatus() : absl::InternalError("a first map does not rest");
  }));
  v1::ShardInfo& joined = *map.add_shards();
  joined.set_shard(size_.shards);
  joined.set_incarnation(size_.shards + 1);
  return Step("plan after a join", 1, [&] {
    return plan() > 0 ? absl::OkStatus() : absl::InternalError("a shard that joins gets nothing");
  });
}

// A shard, and a client, take the first map, and then one in which a segment has changed.
absl::Status Sizing::Receivers() {
  const world::RealClock clock;
  shard::Probe probe;
  shard::Shard receiver({.name = "shard-0"}, clock, probe, nullptr);
  v1::InstallRequest first;
  v1::Map map;
  if (!first.ParseFromString(whole_install_) || !map.ParseFromString(first.whole_map())) {
    return absl::InternalError("no map was sent");
  }
  receiver.Identify({.shard = ShardId(0), .incarnation = Incarnation(first.target().incarnation())}, 1);
  ABSL_RETURN_IF_ERROR(
      Step("shard takes the first map", 1, [&] { return receiver.Install(first).status(); }));
  v1::InstallRequest next;
  *next.mutable_target() = first.target();
  v1::Map& change = *next.mutable_map();
  change.set_ring_bits(map.ring_bits());
  change.mutable_delta()->set_from(map.version());
  *change.mutable_delta()->add_segments()->mutable_config() = map.segments(0);
  ABSL_RETURN_IF_ERROR(Step("shard takes a changed segment", kRounds, [&] {
    change.set_version(std::max(change.version(), map.version()) + 1);
    return receiver.Install(next).status();
  }));
  const auto known = wire::MapFromProto(map);
  ABSL_RETURN_IF_ERROR(Step("client takes a map", kRounds, [&] { return wire::MapFromProto(map).status(); }));
  return Step("client takes a changed segment", kRounds,
              [&] { return wire::NextMap(change, &*known).status(); });
}

// -- a process for each size --

std::string Name(ClusterSize size) {
  return absl::StrCat(size.shards, " shards, ", size.segments(), " segments");
}

// Writes the results to `to`, and ends.
[[noreturn]] void RunInChild(ClusterSize size, int to) {
  const rlimit bytes{.rlim_cur = kSizeBytesMax, .rlim_max = kSizeBytesMax};
  const rlimit cpu{.rlim_cur = kSizeCpuSeconds, .rlim_max = kSizeCpuSeconds};
  setrlimit(RLIMIT_AS, &bytes);
  setrlimit(RLIMIT_CPU, &cpu);
  absl::Status status;
  std::string out;
  {
    Sizing sizing(size);
    status = sizing.Run();
    out = ToJson(sizing.results()).dump();
  }
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", Name(size).c_str(), status.ToString().c_str());
  for (size_t done = 0; done < out.size();) {
    const ssize_t wrote = write(to, out.data() + done, out.size() - done);
    if (wrote <= 0) _exit(1);
    done += static_cast<size_t>(wrote);
  }
  _exit(status.ok() ? 0 : 1);
}

std::string ReadAll(int from) {
  std::string all;
  char piece[4096];
  for (ssize_t got = 0; (got = read(from, piece, sizeof(piece))) > 0;) {
    all.append(piece, static_cast<size_t>(got));
  }
  return all;
}

Result FromJson(const nlohmann::json& json) {
  return {.workload = json.at("workload"),
          .params = json.at("params"),
          .metric = json.at("metric"),
          .value = json.at("value"),
          .limit_name = json.at("limit_name"),
          .limit = json.at("limit"),
          .lower_is_better = json.at("better") == "lower"};
}

absl::Status RunOne(ClusterSize size, std::vector<Result>& results) {
  int ends[2];
  if (pipe(ends) != 0) return absl::ErrnoToStatus(errno, "pipe");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child == 0) {
    close(ends[0]);
    RunInChild(size, ends[1]);
  }
  close(ends[1]);
  const std::string out = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::printf("%s: left out: signal %d, beyond %llu GiB or %llu CPU seconds\n", Name(size).c_str(),
                WTERMSIG(status), static_cast<unsigned long long>(kSizeBytesMax >> 30),
                static_cast<unsigned long long>(kSizeCpuSeconds));
    return absl::OkStatus();
  }
  if (WEXITSTATUS(status) != 0) return absl::InternalError(absl::StrCat(Name(size), ": failed, see above"));
  for (const nlohmann::json& json : nlohmann::json::parse(out)) results.push_back(FromJson(json));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Result>> Size(const Setting& setting) {
  std::vector<Result> results;
  const size_t sizes = setting.smallest ? kSmallest : std::size(kSizes);
  for (size_t i = 0; i < sizes; ++i) ABSL_RETURN_IF_ERROR(RunOne(kSizes[i], results));
  return results;
}

}  // namespace paceline::bench
