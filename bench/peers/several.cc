#include "bench/peers/several.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "bench/peers/client_process.h"
#include "bench/peers/machine_systems.h"
#include "bench/peers/plan.h"
#include "libs/base/status.h"
#include "tools/paceline/data_folder.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench::peers {
namespace {

constexpr size_t kOutstanding = 8;

// What is measured in turns. Two shards are beside the first one, several clients beside the best of fewer;
// so is raw TCP with as many clients, which says what of a loss is the machine's.
struct Setup {
  int shards = 1;
  size_t clients = 1;
  bool raw = false;
};
constexpr std::array kSetups = {Setup{1, 1},       Setup{1, 2},       Setup{1, 4},
                                Setup{1, 8},       Setup{2, 1},       Setup{1, 1, true},
                                Setup{1, 2, true}, Setup{1, 4, true}, Setup{1, 8, true}};
constexpr size_t kClientsMax = 8;

struct Subject {
  Data data;
  Kind kind;
  std::vector<size_t> batches;
};

struct SeveralPlan {
  std::vector<Subject> subjects;
  int rounds;
  absl::Duration turn;
};

SeveralPlan PlanFor(const Setting& setting) {
  const std::vector<size_t> batches = {1'000, 10'000};
  if (setting.smallest) {
    return {{{Rows(2'000, 16), Kind::kSparse, {1'000}}}, /*rounds=*/1, absl::Milliseconds(5)};
  }
  const Data dense = Dense(4);
  SeveralPlan plan{{{dense, Kind::kRanged, {dense.rows}}}, /*rounds=*/5, absl::Milliseconds(200)};
  uint64_t rows = 1'000'000;
  if (setting.quick) {
    plan.rounds = 3;
    plan.turn = absl::Milliseconds(60);
    rows = 200'000;
  } else {
    plan.subjects.push_back({Rows(rows, 1), Kind::kSparse, batches});
  }
  for (const Kind kind : {Kind::kRanged, Kind::kSparse})
    plan.subjects.push_back({Rows(rows, 16), kind, batches});
  return plan;
}

// A cluster of its own, without copies, disks or cache, and its clients.
class Cluster {
 public:
  absl::Status Start(tool::Supervisor& supervisor, const Subject& subject, int shards, size_t clients) {
    ABSL_ASSIGN_OR_RETURN(folder_, tool::DataFolder::Open(""));
    cluster_.emplace(
        supervisor, *folder_,
        tool::LocalClusterOptions{.programs = tool::FolderOfPrograms(), .shards = shards, .socket_dir = ""});
    ABSL_RETURN_IF_ERROR(cluster_->Start());
    processes_.emplace(supervisor, folder_->path());
    while (clients_.size() < clients) {
      ABSL_ASSIGN_OR_RETURN(
          auto client, ClientProcess::Start(*processes_, clients_.size(), cluster_->address(), subject.data,
                                            subject.kind));
      clients_.push_back(std::move(client));
    }
    return clients_.front()->Touch();
  }
  ~Cluster() {
    clients_.clear();
    processes_.reset();
    if (cluster_.has_value()) cluster_->Stop();
  }

  // Requests a second of all clients of `setup` together; of raw TCP with `echo`.
  absl::StatusOr<double> Turn(const Setup& setup, const EchoServer& echo, Op op, size_t batch,
                              absl::Duration duration) {
    for (size_t i = 0; i < setup.clients; ++i) {
      ABSL_RETURN_IF_ERROR(setup.raw ? clients_[i]->BeginRaw(echo.tcp_port, op, batch, kOutstanding, duration)
                                     : clients_[i]->Begin(op, batch, kOutstanding, duration));
    }
    double rate = 0;
    for (size_t i = 0; i < setup.clients; ++i) {
      ABSL_ASSIGN_OR_RETURN(const double own, clients_[i]->End());
      rate += own;
    }
    return rate;
  }

  absl::Status Check(const Data& data) {
    std::vector<uint32_t> pushes(data.rows);
    for (const auto& client : clients_) client->CountPushes(data, pushes);
    ABSL_ASSIGN_OR_RETURN(const uint64_t wrong, clients_.front()->WrongRows(pushes));
    if (wrong == 0) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("several: ", wrong, " of ", data.rows, " rows are not what the pushes must have left"));
  }

 private:
  std::unique_ptr<tool::DataFolder> folder_;
  std::optional<tool::LocalCluster> cluster_;
  std::optional<Processes> processes_;
  std::vector<std::unique_ptr<ClientProcess>> clients_;
};

// Of one kind of request: a rate each round, by setup.
using Rates = std::array<std::vector<double>, kSetups.size()>;

// Two shards on two cores at 1,000 rows share out what little work a request is.
double GoalOf(const Setup& setup, size_t batch) {
  return setup.shards > 1 && batch <= 1'000 ? 0.75 : 0.9;
}

// What raw TCP with as many clients reaches of its best with fewer, in percent.
nlohmann::json RawTcpPercent(const Rates& rates, const Setup& setup) {
  double best = 0;
  for (size_t i = 0; i < kSetups.size(); ++i) {
    if (!kSetups[i].raw || setup.shards > 1) continue;
    const double rate = Median(rates[i]);
    if (kSetups[i].clients == setup.clients) return static_cast<int>(std::lround(100 * rate / best));
    best = std::max(best, rate);
  }
  return nullptr;
}

void Report(const Subject& subject, size_t batch, Op op, const Rates& rates, std::vector<Result>& results) {
  const Data& data = subject.data;
  const double per_request =
      data.dense ? static_cast<double>(data.bytes()) / 1e9 : static_cast<double>(batch);
  const double one = Median(rates[0]) * per_request;
  double best = one;
  for (size_t i = 1; i < kSetups.size(); ++i) {
    const Setup& setup = kSetups[i];
    if (setup.raw) continue;
    const double rate = Median(rates[i]) * per_request;
    results.push_back({.workload = "several",
                       .params = {{"data", data.name},
                                  {"table", NameOf(subject.kind)},
                                  {"batch", batch},
                                  {"shards", setup.shards},
                                  {"clients", setup.clients},
                                  {"cores", std::thread::hardware_concurrency()}},
                       .metric = absl::StrCat(NameOf(op), data.dense ? " GB/s" : " keys/s"),
                       .value = rate,
                       .limit_name = setup.shards > 1 ? "one shard" : "the best with fewer clients",
                       .limit = setup.shards > 1 ? one : best,
                       .goal = GoalOf(setup, batch)});
    if (const nlohmann::json percent = RawTcpPercent(rates, setup); !percent.is_null()) {
      results.back().params["raw_tcp_percent"] = percent;
    }
    if (setup.shards == 1) best = std::max(best, rate);
  }
}

absl::Status Measure(tool::Supervisor& supervisor, const EchoServer& echo, const Subject& subject,
                     const SeveralPlan& plan, std::vector<Result>& results) {
  Cluster one, two;
  ABSL_RETURN_IF_ERROR(one.Start(supervisor, subject, /*shards=*/1, kClientsMax));
  ABSL_RETURN_IF_ERROR(two.Start(supervisor, subject, /*shards=*/2, /*clients=*/1));
  for (const size_t batch : subject.batches) {
    for (const Op op : {Op::kPush, Op::kPull}) {
      Rates rates;
      for (int round = -1; round < plan.rounds; ++round) {  // the first one warms up
        for (size_t i = 0; i < kSetups.size(); ++i) {
          Cluster& cluster = kSetups[i].shards > 1 ? two : one;
          ABSL_ASSIGN_OR_RETURN(const double rate, cluster.Turn(kSetups[i], echo, op, batch, plan.turn));
          if (round >= 0) rates[i].push_back(rate);
        }
      }
      Report(subject, batch, op, rates, results);
    }
  }
  ABSL_RETURN_IF_ERROR(one.Check(subject.data));
  return two.Check(subject.data);
}

}  // namespace

absl::StatusOr<std::vector<Result>> Several(const Setting& setting) {
  ABSL_ASSIGN_OR_RETURN(const auto supervisor, tool::Supervisor::Create());
  ABSL_ASSIGN_OR_RETURN(const auto folder, tool::DataFolder::Open(""));
  EchoServer echo(*supervisor, folder->path());
  ABSL_RETURN_IF_ERROR(echo.Start());
  const SeveralPlan plan = PlanFor(setting);
  std::vector<Result> results;
  for (const Subject& subject : plan.subjects) {
    Say(absl::StrCat("several: ", subject.data.name, ", ", NameOf(subject.kind)));
    ABSL_RETURN_IF_ERROR(Measure(*supervisor, echo, subject, plan, results));
  }
  return results;
}

}  // namespace paceline::bench::peers
