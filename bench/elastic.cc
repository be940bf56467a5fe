#include "bench/elastic.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bench/newcomer.h"
#include "bench/open_loop.h"
#include "bench/shard_pages.h"
#include "bench/soak/real_cluster.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"
#include "paceline/client.h"
#include "tools/paceline/data_folder.h"

namespace paceline::bench {
namespace {

using std::chrono::steady_clock;

constexpr int kFew = 3;  // shards before the growth, and after it
constexpr int kMany = 6;
constexpr double kOfCapacity = 0.3;
constexpr absl::Duration kMovesWithin = absl::Minutes(5);
constexpr absl::Duration kAskEvery = absl::Milliseconds(50);
constexpr absl::Duration kCallTimeout = absl::Seconds(5);
constexpr char kKilled[] = "shard-1";  // it stays in the cluster all the time
constexpr int kRounds = 6;             // the first with kills
// Of one kind of cluster: after it no round begins. So that all of it takes some twelve minutes.
constexpr std::chrono::minutes kRoundsWithin{4};

struct Kind {
  int replicas;
  const char* acks;

  std::string Name() const { return absl::StrCat(replicas, " copies, acks ", acks); }
};

std::string Shard(int i) {
  return absl::StrCat("shard-", i);
}

std::vector<std::string> Added() {
  std::vector<std::string> names;
  for (int i = kFew; i < kMany; ++i) names.push_back(Shard(i));
  return names;
}

// A cluster that grows and shrinks. For one thread at a time.
class ElasticCluster {
 public:
  absl::Status Start(const Kind& kind) {
    kind_ = kind;
    ABSL_ASSIGN_OR_RETURN(supervisor_, tool::Supervisor::Create());
    ABSL_ASSIGN_OR_RETURN(data_, tool::DataFolder::Open(""));
    ABSL_ASSIGN_OR_RETURN(cluster_, RealCluster::Start(*supervisor_, {.folder = data_->path(),
                                                                      .shards = kFew,
                                                                      .replicas = kind.replicas,
                                                                      .acks = kind.acks,
                                                                      .watched = false,
                                                                      .session_timeout = absl::Minutes(10)}));
    coordinator_ = std::make_unique<tool::Coordinator>(cluster_->address());
    return absl::OkStatus();
  }

  const std::string& address() const { return cluster_->address(); }
  absl::StatusOr<ring::SegmentMap> Map() { return cluster_->Map(); }

  // -- each returns when nothing moves any more; with `kill` a shard dies in the middle --
  absl::Status Grow(bool kill) {
    for (const std::string& name : Added()) {
      ABSL_RETURN_IF_ERROR(known_.insert(name).second ? cluster_->AddShard(name) : cluster_->Restart(name));
    }
    ABSL_RETURN_IF_ERROR(Await("segments move", [this](const auto& status) {
      return status.has_moves() || HaveSome(status);  // a few small ones may move between two looks
    }));
    if (kill) ABSL_RETURN_IF_ERROR(KillAndRestart());
    return AwaitRest(kMany);
  }
  absl::Status CancelledShrink(bool kill) {
    ABSL_RETURN_IF_ERROR(Drain(false));
    const auto begun = [this](const auto& status) { return Holds(status) < held_; };
    ABSL_RETURN_IF_ERROR(Await("the drain has moved a segment", begun));
    if (kill) ABSL_RETURN_IF_ERROR(KillAndRestart());
    ABSL_RETURN_IF_ERROR(Drain(true));
    return AwaitRest(kMany);
  }
  absl::Status Shrink(bool kill) {
    ABSL_RETURN_IF_ERROR(Drain(false));
    const auto begun = [this](const auto& status) { return Holds(status) < held_; };
    ABSL_RETURN_IF_ERROR(Await("the drain has moved a segment", begun));
    if (kill) ABSL_RETURN_IF_ERROR(KillAndRestart());
    ABSL_RETURN_IF_ERROR(Await("the drained shards may go", [](const auto& status) {
      return std::ranges::count_if(status.shards(), [](const auto& s) { return s.drain().may_go(); }) ==
             kMany - kFew;
    }));
    ABSL_ASSIGN_OR_RETURN(const double before, BytesSent());
    ABSL_RETURN_IF_ERROR(cluster_->End(Added(), absl::Minutes(1)));
    ABSL_RETURN_IF_ERROR(AwaitRest(kFew));
    ABSL_ASSIGN_OR_RETURN(const double after, BytesSent());
    sent_by_ended_ += std::max(0.0, before - after);
    return absl::OkStatus();
  }

  // Bytes of frames that shards have sent to others, those that ended included.
  absl::StatusOr<double> BytesSent() {
    ABSL_ASSIGN_OR_RETURN(const ShardPages pages, ShardPages::Of(address()));
    return sent_by_ended_ + pages.Sum("paceline_shard_replicate_bytes_total{direction=\"sent\"}");
  }
  absl::StatusOr<double> BytesOfRows() {
    ABSL_ASSIGN_OR_RETURN(const ShardPages pages, ShardPages::Of(address()));
    return pages.Sum("paceline_shard_memory_bytes") / (1 + kind_.replicas);
  }
  absl::Status End() { return cluster_->EndServers(); }

 private:
  // Segments of which the added shards are members.
  static uint64_t Holds(const v1::StatusReply& status) {
    uint64_t held = 0;
    for (const v1::ShardStatus& shard : status.shards()) {
      if (shard.has_drain()) held += shard.drain().segments_left();
    }
    return held;
  }

  bool HaveSome(const v1::StatusReply& status) const {
    return std::ranges::any_of(status.shards(), [this](const v1::ShardStatus& shard) {
      return known_.contains(shard.info().name()) && shard.primaries() + shard.replicas() > 0;
    });
  }

  absl::Status Drain(bool cancel) {
    v1::DrainShardsRequest request;
    for (const std::string& name : Added()) request.add_shards(name);
    request.set_cancel(cancel);
    ABSL_ASSIGN_OR_RETURN(const v1::DrainShardsReply reply,
                          coordinator_->Ask(&v1::Coordinator::Stub::DrainShards, request, kCallTimeout));
    if (cancel) return absl::OkStatus();
    held_ = 0;
    for (const auto& shard : reply.shards()) held_ += shard.drain().segments_left();
    return absl::OkStatus();
  }

  absl::Status KillAndRestart() {
    ABSL_RETURN_IF_ERROR(cluster_->Kill(kKilled));
    return cluster_->Restart(kKilled);
  }

  template <class Holds>
  absl::Status Await(const std::string& what, Holds holds) {
    const absl::Time deadline = world::MonotonicNow() + kMovesWithin;
    std::string problems;
    do {
      if (const auto status = cluster_->Status(); status.ok()) {
        if (holds(*status)) return absl::OkStatus();
        problems = absl::StrJoin(status->problems(), "; ");
      }
      ABSL_RETURN_IF_ERROR(cluster_->Pause(kAskEvery));
    } while (world::MonotonicNow() < deadline);
    return absl::DeadlineExceededError(
        absl::StrCat("not within ", absl::FormatDuration(kMovesWithin), ": ", what, "; ", problems));
  }
  absl::Status AwaitRest(int shards) {
    return Await(absl::StrCat(shards, " shards are at rest"), [shards](const v1::StatusReply& status) {
      return status.shards_size() == shards && !status.has_moves() && status.problems().empty() &&
             status.segments_under_replicated() == 0 &&
             std::ranges::all_of(status.shards(), [](const auto& s) { return s.alive() && !s.has_drain(); });
    });
  }

  Kind kind_{};
  std::unique_ptr<tool::Supervisor> supervisor_;
  std::unique_ptr<tool::DataFolder> data_;
  std::unique_ptr<RealCluster> cluster_;
  std::unique_ptr<tool::Coordinator> coordinator_;
  std::set<std::string> known_;
  double sent_by_ended_ = 0;
  uint64_t held_ = 0;  // of the shards that drain, when it began
};

// How many members segments have in `after` that they had not in `before`.
size_t NewMembers(const ring::SegmentMap& before, const ring::SegmentMap& after) {
  const auto members = [](const ring::SegmentConfig& config) {
    std::set<uint32_t> shards = {config.primary.shard.v};
    for (const ring::Member& replica : config.replicas) shards.insert(replica.shard.v);
    return shards;
  };
  size_t fresh = 0;
  for (uint32_t s = 0; s < after.SegmentCount(); ++s) {
    const std::set<uint32_t> had = members(before.ConfigOf(SegmentId(s)));
    for (const uint32_t shard : members(after.ConfigOf(SegmentId(s)))) fresh += had.count(shard) == 0;
  }
  return fresh;
}

// The figures of one kind of move, a value a round.
struct Moves {
  std::vector<double> p99, quiet_p99, seconds, sent, needed;
};

class ElasticRun {
 public:
  ElasticRun(const Setting& setting, const Kind& kind) : setting_(setting), kind_(kind) {}

  absl::Status Run() {
    Say(absl::StrCat(kind_.Name(), ": starts ", kFew, " shards and fills them"));
    ABSL_RETURN_IF_ERROR(cluster_.Start(kind_));
    ABSL_RETURN_IF_ERROR(FillTable());
    const auto end = steady_clock::now() + kRoundsWithin;
    const int rounds = setting_.smallest ? 1 : kRounds;
    for (int round = 0; round < rounds; ++round) {
      if (round > 1 && steady_clock::now() >= end) {
        Say(absl::StrCat(kind_.Name(), ": no further round, for lack of time"));
        break;
      }
      // The smallest size has one round a kind of cluster: with kills, and without.
      const bool kill = round == 0 && !(setting_.smallest && kind_.replicas > 0);
      using Cluster = ElasticCluster;
      for (const auto& [name, move] : {std::pair{"3 to 6 shards", &Cluster::Grow},
                                       std::pair{"6 to 3, cancelled", &Cluster::CancelledShrink},
                                       std::pair{"6 to 3 shards", &Cluster::Shrink}}) {
        const auto began = steady_clock::now();
        ABSL_RETURN_IF_ERROR(Measure(
            name, [&] { return (cluster_.*move)(kill); }, kill));
        const std::chrono::duration<double> took = steady_clock::now() - began;
        if (round == 0 && move == &Cluster::Grow) ABSL_RETURN_IF_ERROR(SetRate());
        Say(absl::StrFormat("%s: round %d of %d: %s%s took %.1f s", kind_.Name(), round + 1, rounds, name,
                            kill ? ", with a shard killed," : "", took.count()));
      }
    }
    ABSL_RETURN_IF_ERROR(CheckCounts());
    load_.reset();
    client_.reset();
    return cluster_.End();
  }

  void AddTo(std::vector<Result>& results) const {
    for (const auto& [name, moves] : moves_) {
      const auto add = [&](const char* metric, double value, const char* limit_name, double limit) {
        results.push_back({.workload = "elastic",
                           .params = {{"move", name},
                                      {"rounds", moves.p99.size()},
                                      {"replicas", kind_.replicas},
                                      {"acks", kind_.acks},
                                      {"requests/s", rate_}},
                           .metric = metric,
                           .value = value,
                           .limit_name = limit_name,
                           .limit = limit,
                           .lower_is_better = true});
      };
      if (moves.p99.empty()) continue;
      add("pull p99 ms", Median(moves.p99), "quiet", Median(moves.quiet_p99));
      add("seconds", Median(moves.seconds), "a second", 1);
      // With copies records are among what is sent; of what is cancelled nobody knows what was needed.
      if (kind_.replicas == 0 && name.find("cancelled") == std::string::npos)
        add("bytes sent", Median(moves.sent), "rows moved, and pushed meanwhile", Median(moves.needed));
    }
  }

 private:
  absl::Status FillTable() {
    ABSL_ASSIGN_OR_RETURN(client_, Client::Connect({.coordinator = cluster_.address(),
                                                    .job = "elastic",
                                                    .client_name = "paceline-bench",
                                                    .record = setting_.record}));
    paceline::Sparse schema;
    schema.dim = Load::kDim;
    schema.rule = Add{};
    schema.consistency = Asp{};
    ABSL_ASSIGN_OR_RETURN(Table table, client_->OpenOrCreate("counts", schema));
    const uint64_t rows = setting_.smallest ? 20'000 : 1'000'000;
    load_.emplace(Load{.table = table, .rows = rows, .step = 1, .pushes = std::vector<uint32_t>(rows)});
    ABSL_RETURN_IF_ERROR(Fill(*client_, *load_));
    return SetRate();
  }

  // Sets the rate by what the cluster can do now, if that is less than before: where all shards share the
  // cores of one machine, more of them can do less.
  absl::Status SetRate() {
    ABSL_ASSIGN_OR_RETURN(const double capacity, Capacity(*load_, setting_.smallest ? 0.1 : 3));
    rate_ = rate_ == 0 ? kOfCapacity * capacity : std::min(rate_, kOfCapacity * capacity);
    Say(absl::StrFormat("%s: %.0f requests a second are %.0f %% of what it can do", kind_.Name(), rate_,
                        100 * kOfCapacity));
    return absl::OkStatus();
  }

  absl::Status Measure(const char* name, absl::AnyInvocable<absl::Status()> move, bool killed) {
    const auto end = steady_clock::now() + std::chrono::milliseconds(setting_.smallest ? 100 : 4'000);
    ABSL_ASSIGN_OR_RETURN(const std::vector<double> quiet,
                          OpenLoop().Run(*load_, rate_, [&] { return steady_clock::now() >= end; }));
    ABSL_ASSIGN_OR_RETURN(const ring::SegmentMap before, cluster_.Map());
    ABSL_ASSIGN_OR_RETURN(const double rows, cluster_.BytesOfRows());
    ABSL_ASSIGN_OR_RETURN(const double sent, cluster_.BytesSent());
    const WaitSeconds waited = client_->stats().wait;
    const auto began = steady_clock::now();
    // The processes that a thread starts end with it, so it is the requests that have a thread of their own.
    std::atomic<bool> done = false;
    OpenLoop loop;
    absl::StatusOr<std::vector<double>> busy;
    std::thread requests([&] { busy = loop.Run(*load_, rate_, [&] { return done.load(); }); });
    const absl::Status moved = move();
    done = true;
    requests.join();
    const std::chrono::duration<double> took = steady_clock::now() - began;
    ABSL_RETURN_IF_ERROR(moved);
    ABSL_RETURN_IF_ERROR(busy.status());
    ABSL_ASSIGN_OR_RETURN(const ring::SegmentMap after, cluster_.Map());
    ABSL_ASSIGN_OR_RETURN(const double sent_after, cluster_.BytesSent());
    PrintWaits(waited, client_->stats().wait);
    if (killed) return absl::OkStatus();
    Moves& moves = moves_[name];
    moves.quiet_p99.push_back(Percentile(quiet, 0.99));
    moves.p99.push_back(Percentile(*busy, 0.99));
    moves.seconds.push_back(took.count());
    moves.sent.push_back(sent_after - sent);
    const double segments = static_cast<double>(after.SegmentCount());
    moves.needed.push_back(
        rows / segments * static_cast<double>(NewMembers(before, after)) +
        static_cast<double>(loop.rows_pushed() * (sizeof(uint64_t) + Load::kDim * sizeof(float))));
    return absl::OkStatus();
  }

  // Where to look if pulls were slow.
  static void PrintWaits(const WaitSeconds& before, const WaitSeconds& after) {
    std::fprintf(stderr, "  requests waited %.2f s for the network, %.2f s in shards, %.2f s for a primary\n",
                 after.network - before.network, after.queue - before.queue, after.route - before.route);
  }

  absl::Status CheckCounts() {
    ABSL_RETURN_IF_ERROR(client_->Flush());
    for (uint64_t first = 0; first < load_->rows; first += Load::kBatch) {
      std::vector<uint64_t> keys(Load::kBatch);
      for (size_t i = 0; i < keys.size(); ++i) keys[i] = first + i;
      ABSL_ASSIGN_OR_RETURN(const std::vector<float> values, load_->table.Pull(keys));
      for (size_t i = 0; i < values.size(); ++i) {
        const uint64_t key = keys[i / Load::kDim];
        if (values[i] == static_cast<float>(load_->pushes[key])) continue;
        return absl::DataLossError(
            absl::StrCat("row ", key, " has ", values[i], "; it was pushed ", load_->pushes[key], " times"));
      }
    }
    return absl::OkStatus();
  }

  const Setting& setting_;
  const Kind kind_;
  ElasticCluster cluster_;
  std::unique_ptr<Client> client_;
  std::optional<Load> load_;
  double rate_ = 0;
  std::map<std::string, Moves> moves_;
};

}  // namespace

absl::StatusOr<std::vector<Result>> Elastic(const Setting& setting) {
  std::vector<Result> results;
  for (const Kind& kind :
       {Kind{.replicas = 0, .acks = "durable"}, Kind{.replicas = 1, .acks = "replicated"}}) {
    if (setting.only == "newcomer") break;
    ElasticRun run(setting, kind);
    ABSL_RETURN_IF_ERROR(run.Run());
    run.AddTo(results);
  }
  if (setting.only == "moves") return results;
  ABSL_ASSIGN_OR_RETURN(const std::vector<Result> newcomer, Newcomer(setting));
  results.insert(results.end(), newcomer.begin(), newcomer.end());
  return results;
}

}  // namespace paceline::bench
