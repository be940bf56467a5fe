#include "bench/soak/soak_worker.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/soak/journal.h"
#include "libs/base/mutex.h"
#include "libs/base/status.h"
#include "libs/world/random.h"
#include "libs/world/real_clock.h"
#include "paceline/client.h"

namespace paceline::bench {
namespace {

constexpr int kUnderWayMax = 32;
constexpr int kPushesAClock = 16;
constexpr uint64_t kStaleness = 2;
constexpr uint64_t kAutoMax = 16;

std::atomic<bool> told_to_end = false;

Consistency ModelOf(const std::string& name) {
  if (name == "bsp") return Bsp{};
  if (name == "asp") return Asp{};
  if (name == "ssp:auto") return Ssp{.staleness = kAutoMax, .adaptive = true};
  if (name == "essp") return Essp{.staleness = kStaleness};
  return Ssp{.staleness = kStaleness};
}

// Bounds the pushes whose end is awaited.
class UnderWay {
 public:
  void Begin() {
    MutexLock lock(&mutex_);
    changed_.Await(&mutex_, [this] { return count_ < kUnderWayMax; });
    ++count_;
  }
  void End() {
    MutexLock lock(&mutex_);
    --count_;
    changed_.Signal();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ = 0;
};

// One session, from its opening to its end.
class SoakSession {
 public:
  SoakSession(const SoakWorkerOptions& options, uint32_t workers, int number)
      : options_(options),
        workers_(workers),
        number_(number),
        random_(options.seed * 1000 + static_cast<uint64_t>(number)) {}

  absl::Status Run() {
    ABSL_ASSIGN_OR_RETURN(journal_, Journal::Create(absl::StrCat(options_.journal, ".", number_)));
    ABSL_ASSIGN_OR_RETURN(client_, Client::Connect({.coordinator = options_.coordinator,
                                                    .job = kSoakJob,
                                                    .workers = workers_,
                                                    .timeout = absl::Minutes(2),
                                                    .record = options_.record}));
    ABSL_ASSIGN_OR_RETURN(
        Table counts,
        client_->OpenOrCreate(kCountsTable, Sparse{.rule = Add{}, .consistency = ModelOf(options_.model)}));
    // Folded clocks, so that these are proved too.
    ABSL_ASSIGN_OR_RETURN(Table sums,
                          client_->OpenOrCreate("sums", Sparse{.rule = Add{}, .consistency = Bsp{}}));
    while (!told_to_end) {
      for (int i = 0; i < kPushesAClock; ++i) {
        Push(counts);
        Pace();
      }
      const std::vector<uint64_t> keys = Keys();
      ABSL_RETURN_IF_ERROR(counts.Pull(keys).status());
      (void)sums.PushAsync(keys, std::vector<float>(keys.size(), 1.0f));
      ABSL_RETURN_IF_ERROR(sums.Pull(keys).status());
      ABSL_RETURN_IF_ERROR(client_->Tick());
    }
    ABSL_RETURN_IF_ERROR(client_->Flush());
    return client_->Finish();
  }

 private:
  std::vector<uint64_t> Keys() {
    std::vector<uint64_t> keys(1 + world::Uniform(random_, 24));
    for (uint64_t& key : keys) key = world::Uniform(random_, kCountsKeys);
    return keys;
  }

  // An acknowledgement is in the journal before anybody counts it; one that comes while the process is killed
  // is one of those that were not.
  void Push(Table& counts) {
    const std::vector<uint64_t> keys = Keys();
    std::vector<float> values;
    uint64_t sum = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint64_t value = 1 + world::Uniform(random_, 3);
      sum += value;
      values.push_back(static_cast<float>(value));
    }
    under_way_->Begin();
    const uint64_t push = journal_->Begin(sum);
    counts.PushAsync(keys, values)
        .OnReady([journal = journal_, under_way = under_way_, push](absl::Status status) {
          if (status.ok()) journal->Acknowledged(push);
          under_way->End();
        });
  }

  // As many pushes as the rate allows; after a pause it does not make up for it.
  void Pace() {
    next_ =
        std::max(next_ + absl::Seconds(1 / options_.rate), world::MonotonicNow() - absl::Milliseconds(100));
    absl::SleepFor(next_ - world::MonotonicNow());
  }

  const SoakWorkerOptions& options_;
  const uint32_t workers_;
  const int number_;
  world::SplitMix64 random_;
  absl::Time next_ = world::MonotonicNow();
  std::shared_ptr<Journal> journal_;
  std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
  std::unique_ptr<Client> client_;  // goes first: its callbacks use the others
};

}  // namespace

int RunSoakWorker(const SoakWorkerOptions& options) {
  std::signal(SIGTERM, [](int) { told_to_end = true; });
  // A worker that was stopped for longer than its session may be silent is evicted, and comes back as
  // another.
  for (int number = 0;; ++number) {
    const absl::Status ended = SoakSession(options, number == 0 ? options.workers : 1, number).Run();
    if (ended.ok()) return 0;
    std::fprintf(stderr, "session %d: %s\n", number, ended.ToString().c_str());
    if (!absl::IsAborted(ended)) return 1;
    if (told_to_end) return 0;
  }
}

}  // namespace paceline::bench
