#include "bench/peers/training.h"

#include <unistd.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/lr_epoch.h"
#include "bench/peers/meters.h"
#include "bench/peers/ps_lite_system.h"
#include "libs/base/status.h"
#include "libs/world/real_clock.h"
#include "tools/paceline/data_folder.h"
#include "tools/paceline/local_cluster.h"

namespace paceline::bench::peers {
namespace {

constexpr char kHere[] = "without a server";

struct Epoch {
  double seconds = 0;
  double loss = 0;
};

// Who trains: one epoch after the other on the same model.
struct Trainer {
  std::string name;
  bool ours = false;
  std::string skipped = {};
  pid_t client = 0;
  pid_t server = 0;
  std::function<absl::StatusOr<Epoch>()> train = {};
  std::vector<double> seconds = {}, cpu_seconds = {};  // of each epoch but the first
  double first_loss = 0;
};

// Our cluster, with a worker that is alone in its job.
class OurCluster {
 public:
  absl::Status Start(tool::Supervisor& supervisor) {
    ABSL_ASSIGN_OR_RETURN(folder_, tool::DataFolder::Open(""));  // temporary: the shard has no disk
    cluster_.emplace(supervisor, *folder_, tool::LocalClusterOptions{.programs = tool::FolderOfPrograms()});
    ABSL_RETURN_IF_ERROR(cluster_->Start());
    ABSL_ASSIGN_OR_RETURN(client_, Client::Connect({.coordinator = cluster_->address(),
                                                    .job = "training",
                                                    .client_name = "paceline-bench",
                                                    .workers = 1}));
    return absl::OkStatus();
  }
  ~OurCluster() {
    client_.reset();
    if (cluster_.has_value()) cluster_->Stop();
  }

  absl::StatusOr<Trainer> Train(const std::string& kind, const TableSchema& schema,
                                const std::vector<lr::Batch>& batches) {
    ABSL_ASSIGN_OR_RETURN(Table table, client_->OpenOrCreate(kind, schema));
    Trainer trainer{.name = kind, .ours = true, .client = getpid(), .server = cluster_->AnyShard()->process};
    trainer.train = [this, table, &batches]() mutable -> absl::StatusOr<Epoch> {
      const absl::Time began = world::MonotonicNow();
      ABSL_ASSIGN_OR_RETURN(const double loss, lr::EpochThere(batches, *client_, table));
      return Epoch{.seconds = absl::ToDoubleSeconds(world::MonotonicNow() - began), .loss = loss};
    };
    return trainer;
  }

 private:
  std::unique_ptr<tool::DataFolder> folder_;
  std::optional<tool::LocalCluster> cluster_;
  std::unique_ptr<Client> client_;
};

Trainer Here(const std::vector<lr::Batch>& batches) {
  Trainer trainer{.name = kHere, .client = getpid()};
  trainer.train = [&batches, weights = std::vector<float>(lr::kFeatures)]() mutable -> absl::StatusOr<Epoch> {
    const absl::Time began = world::MonotonicNow();
    const double loss = lr::EpochHere(batches, weights);
    return Epoch{.seconds = absl::ToDoubleSeconds(world::MonotonicNow() - began), .loss = loss};
  };
  return trainer;
}

absl::StatusOr<Trainer> OnPsLite(tool::Supervisor& supervisor,
                                 const absl::StatusOr<std::filesystem::path>& driver,
                                 const std::filesystem::path& folder, const std::filesystem::path& batches,
                                 PsLiteRows rows) {
  Trainer trainer{.name = rows == PsLiteRows::kFlat ? "ps-lite flat" : "ps-lite map"};
  if (!driver.ok()) {
    trainer.skipped = std::string(driver.status().message());
    return trainer;
  }
  const Data data{.name = "logistic regression", .rows = lr::kFeatures, .dim = 1};
  std::filesystem::create_directories(folder);
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<PsLite> system, StartPsLite(supervisor, *driver, folder, data, rows));
  trainer.client = system->client_process();
  trainer.server = system->server_process();
  trainer.train = [system, batches]() -> absl::StatusOr<Epoch> {
    ABSL_ASSIGN_OR_RETURN(const PsLite::Epoch epoch, system->TrainEpoch(batches));
    return Epoch{.seconds = epoch.seconds, .loss = epoch.loss};
  };
  return trainer;
}

absl::Status TrainOnce(Trainer& trainer, bool first) {
  if (trainer.train == nullptr) return absl::OkStatus();
  const auto cpu = [&] { return ProcessCpuSeconds(trainer.client) + ProcessCpuSeconds(trainer.server); };
  const double before = cpu();
  ABSL_ASSIGN_OR_RETURN(const Epoch epoch, trainer.train());
  if (first) {  // rows are born, memory is touched: not counted
    trainer.first_loss = epoch.loss;
    return absl::OkStatus();
  }
  trainer.seconds.push_back(epoch.seconds);
  trainer.cpu_seconds.push_back(cpu() - before);
  return absl::OkStatus();
}

// They add up the same updates in another order, and all but one of them some batches late.
absl::Status CheckLosses(const std::vector<Trainer>& trainers) {
  for (const Trainer& trainer : trainers) {
    if (trainer.train == nullptr) continue;
    const double here = trainers.front().first_loss;
    if (std::abs(trainer.first_loss - here) <= 0.05 * here) continue;
    return absl::DataLossError(absl::StrCat("peers: the mean loss of the first epoch was ",
                                            trainer.first_loss, " with ", trainer.name, " and ", here, " ",
                                            kHere));
  }
  return absl::OkStatus();
}

void AddResults(const Trainer& ours, const Trainer& beside, size_t examples, std::vector<Result>& results) {
  const auto add = [&](const char* metric, const std::vector<double>& own, const std::vector<double>& other) {
    results.push_back({.workload = "peers",
                       .params = {{"data", "logistic regression"},
                                  {"examples", examples},
                                  {"features", lr::kFeatures},
                                  {"ahead", lr::kAhead},
                                  {"table", ours.name},
                                  {"loss", ours.first_loss}},
                       .metric = metric,
                       .value = Median(own),
                       .limit_name = beside.name,
                       .limit = Median(other),
                       .lower_is_better = true,
                       .skipped = beside.skipped,
                       .goal = {}});
  };
  add("epoch s", ours.seconds, beside.seconds);
  if (beside.name == kHere) results.back().goal = ours.name == "ranged" ? 6.5 : 9;
  add("epoch CPU-s", ours.cpu_seconds, beside.cpu_seconds);
}

}  // namespace

absl::StatusOr<std::vector<Result>> TrainInTurns(tool::Supervisor& supervisor, const Setting& setting,
                                                 const absl::StatusOr<std::filesystem::path>& driver) {
  const size_t examples = setting.smallest ? 4 * lr::kBatch : 102'400;
  const std::vector<lr::Batch> batches = lr::MakeBatches(examples);
  ABSL_ASSIGN_OR_RETURN(const auto folder, tool::DataFolder::Open(""));
  const std::filesystem::path file = folder->path() / "batches";
  ABSL_RETURN_IF_ERROR(WriteBatches(batches, file));
  OurCluster cluster;
  ABSL_RETURN_IF_ERROR(cluster.Start(supervisor));
  const Rule rule = Sgd{.lr = lr::kLearningRate};
  const Consistency consistency =
      Ssp{.staleness = lr::kAhead};  // and kAhead clocks more, by which pulls are early
  std::vector<Trainer> trainers{Here(batches)};
  ABSL_ASSIGN_OR_RETURN(
      trainers.emplace_back(),
      cluster.Train("ranged", Ranged{.rows = lr::kFeatures, .rule = rule, .consistency = consistency},
                    batches));
  ABSL_ASSIGN_OR_RETURN(
      trainers.emplace_back(),
      cluster.Train("sparse", paceline::Sparse{.rule = rule, .consistency = consistency}, batches));
  for (const PsLiteRows rows : {PsLiteRows::kFlat, PsLiteRows::kMap}) {
    ABSL_ASSIGN_OR_RETURN(
        trainers.emplace_back(),
        OnPsLite(supervisor, driver, folder->path() / (rows == PsLiteRows::kFlat ? "flat" : "map"), file,
                 rows));
  }
  for (int round = 0; round <= setting.Rounds(9); ++round) {
    for (Trainer& trainer : trainers) ABSL_RETURN_IF_ERROR(TrainOnce(trainer, round == 0));
  }
  ABSL_RETURN_IF_ERROR(CheckLosses(trainers));
  std::vector<Result> results;
  for (const Trainer& ours : trainers) {
    if (!ours.ours) continue;
    for (const Trainer& beside : trainers) {
      if (!beside.ours) AddResults(ours, beside, examples, results);
    }
  }
  return results;
}

}  // namespace paceline::bench::peers
