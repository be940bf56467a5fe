#include "bench/consistency/pictures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/consistency/curves.h"
#include "examples/lib/steady_now.h"
#include "libs/base/status.h"

namespace paceline::bench {
namespace {

constexpr TrainedJob kJobs[] = {TrainedJob::kFactors, TrainedJob::kTopics};

template <class Of>
double MedianOf(const std::vector<TrainingRun>& runs, Of of) {
  std::vector<double> values;
  for (const TrainingRun& run : runs) values.push_back(of(run));
  return Median(std::move(values));
}

double Seconds(const std::vector<TrainingRun>& runs) {
  return MedianOf(runs, [](const TrainingRun& run) { return run.to_reference; });
}
double Waiting(const std::vector<TrainingRun>& runs) {
  return MedianOf(runs, [](const TrainingRun& run) { return run.waiting; });
}

int64_t Reached(const std::vector<TrainingRun>& runs) {
  return std::ranges::count_if(runs, [](const TrainingRun& run) { return run.to_reference < kNeverSeconds; });
}

// The median of what the runs of one model are of those of another with the same seeds.
template <class Of>
double MedianRatio(const std::vector<TrainingRun>& runs, const std::vector<TrainingRun>& beside, Of of) {
  std::vector<double> ratios;
  for (size_t i = 0; i < runs.size(); ++i) ratios.push_back(of(runs[i]) / std::max(of(beside[i]), 1e-9));
  return Median(std::move(ratios));
}

nlohmann::json CurveOf(const TrainingRun& run) {
  nlohmann::json curve = nlohmann::json::array();
  for (const examples::LossPoint& point : run.curve) {
    curve.push_back({point.clock, point.seconds, point.loss});
  }
  return curve;
}

size_t Find(const std::vector<Model>& models, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(models, name, &Model::name) - models.begin());
}

}  // namespace

absl::Status Pictures::Run(const std::string& only) {
  struct Picture {
    const char* name;
    absl::Status (Pictures::*draw)();
  };
  constexpr Picture kPictures[] = {{"staleness", &Pictures::Staleness},
                                   {"convergence", &Pictures::Convergence},
                                   {"delays", &Pictures::Delays},
                                   {"auto", &Pictures::Automatic}};
  const absl::Time began = examples::SteadyNow();
  for (const Picture& picture : kPictures) {
    if (only.empty() || only == picture.name) ABSL_RETURN_IF_ERROR((this->*picture.draw)());
  }
  const nlohmann::json params = {{"picture", "none"}, {"workers", kTrainedWorkers}};
  AddGoal(params, "longest run s", longest_, kNeverSeconds);
  AddGoal(params, "all minutes", absl::ToDoubleMinutes(examples::SteadyNow() - began), plan_.minutes_max);
  return absl::OkStatus();
}

absl::StatusOr<TrainingRun> Pictures::One(const std::string& what, const TrainingSpec& spec) {
  ABSL_RETURN_IF_ERROR(proceed_());
  absl::StatusOr<TrainingRun> run = trainer_.Run(spec);
  if (!run.ok()) {
    return absl::Status(run.status().code(), absl::StrCat(NameOf(spec.job), ", ", what, ", seed ", spec.seed,
                                                          ": ", run.status().message()));
  }
  std::fprintf(stderr, "%-20s %-24s seed %d %6.2f s, reference loss after %5.2f s, %4.1f %% waiting%s\n",
               NameOf(spec.job), what.c_str(), static_cast<int>(spec.seed), run->seconds, run->to_reference,
               100 * run->waiting, run->diverged ? ", diverged" : "");
  longest_ = std::max(longest_, run->seconds);
  return run;
}

void Pictures::Add(nlohmann::json params, const std::string& metric, double value,
                   const std::string& limit_name, double limit, bool lower) {
  results_.push_back({.workload = "consistency",
                      .params = std::move(params),
                      .metric = metric,
                      .value = value,
                      .limit_name = limit_name,
                      .limit = limit,
                      .lower_is_better = lower});
}

// -- (a) how old values are --

absl::Status Pictures::Staleness() {
  for (const TrainedJob job : kJobs) {
    for (const Model& model : StalenessModels()) {
      ABSL_ASSIGN_OR_RETURN(
          const TrainingRun run,
          One(model.name, {.job = job, .consistency = model.consistency, .pauses = Pauses::Kind::kBeat}));
      AddStaleness(job, model, run);
    }
  }
  return absl::OkStatus();
}

void Pictures::AddStaleness(TrainedJob job, const Model& model, const TrainingRun& run) {
  constexpr double kMost = 0.9;     // of the reads
  constexpr double kCounts = 0.03;  // of the reads, that a value of staleness is seen at all
  nlohmann::json reads = nlohmann::json::object();
  for (const auto& [clocks, rows] : run.staleness_rows) reads[absl::StrCat(clocks)] = rows;
  const nlohmann::json params = {
      {"picture", "staleness"}, {"job", NameOf(job)}, {"model", model.name}, {"reads", reads}};
  const auto* essp = std::get_if<Essp>(&model.consistency);
  if (essp == nullptr) {
    AddGoal(params, "clocks of staleness that 3 % of reads have",
            static_cast<double>(ValuesWithShare(run.staleness_rows, kCounts)), kShownBound / 2.0,
            /*lower=*/false);
    return;
  }
  const uint64_t fresh = essp->every.has_value() ? 1 : (kShownBound + 1) / 2 + 1;
  AddGoal(params, absl::StrCat("share of reads at most ", fresh, fresh == 1 ? " clock" : " clocks", " stale"),
          ShareUpTo(run.staleness_rows, fresh), kMost, /*lower=*/false);
}

// -- (b) how fast it converges, and (d) how much of it is waiting --

absl::Status Pictures::Convergence() {
  std::map<TrainedJob, std::vector<Model>> models;
  std::map<TrainedJob, std::vector<Runs>> runs;
  for (const TrainedJob job : kJobs) {
    models[job] = ConvergenceModels(job, plan_.bounds);
    runs[job].resize(models[job].size());
  }
  for (uint64_t seed = 1; seed <= plan_.seeds; ++seed) {  // in turn: the machine's mood changes
    for (const TrainedJob job : kJobs) {
      for (size_t i = 0; i < models[job].size(); ++i) {
        const Model& model = models[job][i];
        ABSL_ASSIGN_OR_RETURN(TrainingRun run,
                              One(model.name, {.job = job, .consistency = model.consistency, .seed = seed}));
        runs[job][i].push_back(std::move(run));
      }
    }
  }
  for (const TrainedJob job : kJobs) {
    AddConvergence(job, models[job], runs[job]);
    AddWaiting(job, models[job], runs[job]);
  }
  return absl::OkStatus();
}

void Pictures::AddConvergence(TrainedJob job, const std::vector<Model>& models,
                              const std::vector<Runs>& runs) {
  const double beside = Seconds(runs[Find(models, "ssp:0")]);
  for (size_t i = 0; i < models.size(); ++i) {
    Add({{"picture", "convergence"},
         {"job", NameOf(job)},
         {"model", models[i].name},
         {"seeds", runs[i].size()},
         {"reached by", Reached(runs[i])},
         {"loss per clock", MedianOf(runs[i], [](const TrainingRun& run) { return run.loss_per_clock; })},
         {"waiting", Waiting(runs[i])},
         {"curve", CurveOf(runs[i].front())}},
        "s to the reference loss", Seconds(runs[i]), "ssp:0", beside, true);
  }
  std::vector<double> where_stale;
  for (const uint64_t s : plan_.bounds) {
    const Runs& ssp = runs[Find(models, absl::StrCat("ssp:", s))];
    const Runs& essp = runs[Find(models, absl::StrCat("essp:", s))];
    const nlohmann::json params = {{"picture", "convergence"}, {"job", NameOf(job)}, {"s", s}};
    AddGoal(params, "loss per clock, essp of ssp",
            MedianRatio(essp, ssp, [](const TrainingRun& run) { return run.loss_per_clock; }), 1.02);
    const double seconds = MedianRatio(essp, ssp, [](const TrainingRun& run) { return run.to_reference; });
    AddGoal(params, "s to the reference loss, essp of ssp", seconds, 1.05);
    if (s >= 3) where_stale.push_back(seconds);
  }
  AddGoal({{"picture", "convergence"}, {"job", NameOf(job)}, {"s", "3 or more"}},
          "s to the reference loss, essp of ssp", Median(where_stale), 1);
}

void Pictures::AddWaiting(TrainedJob job, const std::vector<Model>& models, const std::vector<Runs>& runs) {
  constexpr double kHardly = 0.05, kMuch = 0.3;
  const auto best = static_cast<size_t>(
      std::ranges::min_element(runs, {}, [](const Runs& of_model) { return Seconds(of_model); }) -
      runs.begin());
  const nlohmann::json params = {{"picture", "waiting"}, {"job", NameOf(job)}};
  const auto add = [&](size_t i, const char* metric, double goal, bool lower) {
    nlohmann::json of_model = params;
    of_model["model"] = models[i].name;
    AddGoal(std::move(of_model), metric, Waiting(runs[i]), goal, lower);
  };
  add(Find(models, "bsp"), "share of waiting under bsp", kMuch, /*lower=*/false);
  add(best, "share of waiting of the fastest", kHardly, /*lower=*/true);
}

// -- (c) a bound may be too tight and too loose --

absl::StatusOr<float> Pictures::TunedRate() {
  ABSL_ASSIGN_OR_RETURN(const Model in_step, ModelOf("delay:0"));
  std::vector<double> seconds;
  for (const float rate : plan_.rates) {
    Runs runs;
    for (uint64_t seed = 1; seed <= plan_.tuning_seeds; ++seed) {
      ABSL_ASSIGN_OR_RETURN(TrainingRun run,
                            One(absl::StrCat("delay:0, rate ", rate),
                                {.consistency = in_step.consistency, .seed = seed, .lr = rate}));
      runs.push_back(std::move(run));
    }
    seconds.push_back(Seconds(runs));
  }
  return plan_.rates[static_cast<size_t>(std::ranges::min_element(seconds) - seconds.begin())];
}

absl::Status Pictures::Delays() {
  constexpr double kWorse = 1.05;
  ABSL_ASSIGN_OR_RETURN(const float rate, TunedRate());
  std::vector<Runs> runs(plan_.delays.size());
  for (uint64_t seed = 1; seed <= plan_.seeds; ++seed) {
    for (size_t i = 0; i < plan_.delays.size(); ++i) {
      ABSL_ASSIGN_OR_RETURN(const Model model, ModelOf(absl::StrCat("delay:", plan_.delays[i])));
      ABSL_ASSIGN_OR_RETURN(TrainingRun run,
                            One(model.name, {.consistency = model.consistency, .seed = seed, .lr = rate}));
      runs[i].push_back(std::move(run));
    }
  }
  std::vector<double> seconds;
  for (const Runs& of_delay : runs) seconds.push_back(Seconds(of_delay));
  const double best = std::ranges::min(seconds);
  for (size_t i = 0; i < runs.size(); ++i) {
    Add({{"picture", "delay"},
         {"job", NameOf(TrainedJob::kFactors)},
         {"tau", plan_.delays[i]},
         {"rate", std::round(100.0 * rate) / 100},
         {"reached by", Reached(runs[i])},
         {"waiting", Waiting(runs[i])}},
        "s to the reference loss", seconds[i], "the best tau", best, true);
  }
  for (const size_t end : {size_t{0}, runs.size() - 1}) {
    AddGoal({{"picture", "delay"}, {"job", NameOf(TrainedJob::kFactors)}, {"tau", plan_.delays[end]}},
            "s to the reference loss, of the best tau's", seconds[end] / best, kWorse, /*lower=*/false);
  }
  return absl::OkStatus();
}

// -- (e) a bound that follows the waiting --

absl::Status Pictures::Automatic() {
  struct Workload {
    const char* name;
    TrainedJob job;
    Pauses::Kind pauses;
  };
  constexpr Workload kWorkloads[] = {
      {"matrix factorisation, slow in turns", TrainedJob::kFactors, Pauses::Kind::kTurns},
      {"topics (LDA), slow in turns", TrainedJob::kTopics, Pauses::Kind::kTurns},
      {"matrix factorisation, nobody slow", TrainedJob::kFactors, Pauses::Kind::kEven}};
  ABSL_ASSIGN_OR_RETURN(const Model automatic, ModelOf("ssp:auto"));
  std::vector<Model> models;  // as --model means them
  for (const uint64_t s : plan_.bounds) {
    ABSL_ASSIGN_OR_RETURN(Model fixed, ModelOf(absl::StrCat("ssp:", s)));
    models.push_back(std::move(fixed));
  }
  models.push_back(automatic);
  for (const Workload& workload : kWorkloads) {
    std::vector<Runs> runs(models.size());
    for (uint64_t round = 1; round <= plan_.rounds; ++round) {
      for (size_t i = 0; i < models.size(); ++i) {
        ABSL_ASSIGN_OR_RETURN(TrainingRun run, One(models[i].name, {.job = workload.job,
                                                                    .consistency = models[i].consistency,
                                                                    .pauses = workload.pauses,
                                                                    .seed = round}));
        runs[i].push_back(std::move(run));
      }
    }
    nlohmann::json seconds = nlohmann::json::object();
    double best = kNeverSeconds;
    for (size_t i = 0; i < models.size(); ++i) {
      seconds[models[i].name] = Seconds(runs[i]);
      if (i + 1 < models.size()) best = std::min(best, Seconds(runs[i]));
    }
    AddGoal({{"picture", "auto"}, {"job", workload.name}, {"model", automatic.name}, {"seconds", seconds}},
            "s to the reference loss, of the best fixed bound's", Seconds(runs.back()) / best, 1.05);
  }
  return absl::OkStatus();
}

}  // namespace paceline::bench
