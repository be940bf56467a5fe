#include "bench/soak/load.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "libs/base/status.h"
#include "libs/world/random.h"
#include "libs/world/real_clock.h"

namespace paceline::bench {
namespace {

constexpr char kJob[] = "load";
constexpr uint64_t kKeys = 4096;
constexpr uint64_t kBatch = 64;
constexpr absl::Duration kTimeout = absl::Minutes(1);

}  // namespace

Load::Load(int workers, double clocks_per_second)
    : every_(absl::Seconds(1 / clocks_per_second)), workers_(static_cast<size_t>(workers)) {}

Load::~Load() {
  (void)Stop();
}

absl::StatusOr<std::unique_ptr<Load>> Load::Start(const std::string& coordinator, int workers,
                                                  double clocks_per_second) {
  std::unique_ptr<Load> load(new Load(workers, clocks_per_second));
  {
    std::vector<std::jthread> connecting;  // they start together
    for (Worker& worker : load->workers_) {
      connecting.emplace_back([&] { worker.status = load->Connect(coordinator, worker); });
    }
  }
  for (const Worker& worker : load->workers_) ABSL_RETURN_IF_ERROR(worker.status);
  for (size_t w = 0; w < load->workers_.size(); ++w) {
    load->threads_.emplace_back([load = load.get(), w] { load->Run(load->workers_[w], w); });
  }
  return load;
}

absl::Status Load::Connect(const std::string& coordinator, Worker& worker) {
  ABSL_ASSIGN_OR_RETURN(worker.client, Client::Connect({.coordinator = coordinator,
                                                        .job = kJob,
                                                        .workers = static_cast<uint32_t>(workers_.size()),
                                                        .timeout = kTimeout}));
  ABSL_ASSIGN_OR_RETURN(Table table, worker.client->OpenOrCreate(
                                         "rows", Sparse{.rule = Add{}, .consistency = Ssp{.staleness = 2}}));
  worker.table = std::make_unique<Table>(std::move(table));
  return absl::OkStatus();
}

absl::Status Load::Clock(Worker& worker, uint64_t seed) {
  world::SplitMix64 random(seed);
  std::vector<uint64_t> keys(kBatch);
  for (uint64_t& key : keys) key = world::Uniform(random, kKeys);
  ABSL_RETURN_IF_ERROR(worker.table->Pull(keys).status());
  ABSL_RETURN_IF_ERROR(worker.table->Push(keys, std::vector<float>(keys.size(), 1)));
  return worker.client->Tick();
}

void Load::Run(Worker& worker, uint64_t seed) {
  absl::Status status;
  for (uint64_t clock = 0; status.ok() && !Stopping(); ++clock) {
    const absl::Time began = world::MonotonicNow();
    {
      MutexLock lock(&mutex_);
      worker.began = began;
    }
    status = Clock(worker, seed << 32 | clock);
    {
      MutexLock lock(&mutex_);
      worker.longest = std::max(worker.longest, world::MonotonicNow() - began);
      worker.began = absl::InfiniteFuture();
    }
    absl::SleepFor(began + every_ - world::MonotonicNow());  // the pace of a worker that computes
  }
  if (status.ok()) status = worker.client->Finish();
  MutexLock lock(&mutex_);
  worker.status = std::move(status);
}

bool Load::Stopping() {
  MutexLock lock(&mutex_);
  return stop_;
}

absl::Duration Load::TakeLongest() {
  MutexLock lock(&mutex_);
  absl::Duration longest;
  for (Worker& worker : workers_) {
    const absl::Duration under_way = world::MonotonicNow() - worker.began;  // negative infinity: none
    longest = std::max({longest, worker.longest, under_way});
    worker.longest = absl::ZeroDuration();
  }
  return longest;
}

absl::Status Load::Stop() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  threads_.clear();
  for (const Worker& worker : workers_) ABSL_RETURN_IF_ERROR(worker.status);
  return absl::OkStatus();
}

}  // namespace paceline::bench
