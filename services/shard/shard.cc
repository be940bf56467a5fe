#include "services/shard/shard.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/base/version.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/packed.h"
#include "services/shard/pull_stream.h"
#include "services/shard/push_stream.h"

namespace paceline::shard {

// Memory and row counts of all segments together.
class Shard::SharedBudget : public log::Budget {
 public:
  SharedBudget(uint64_t bytes_max, Probe& probe) : bytes_max_(bytes_max), probe_(probe) {}

  bool Admits(uint64_t more_bytes) override { return bytes() + more_bytes <= bytes_max_; }
  void Grown(int64_t bytes) override { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void RowsUpdated(uint64_t rows) override {
    rows_updated_.fetch_add(rows, std::memory_order_relaxed);
    probe_.RowsPushed(rows);
  }
  void Logged(const log::Segment& segment, Epoch epoch, const log::Record& record) override {
    probe_.Logged(segment, epoch, record);
  }
  uint64_t bytes() const { return static_cast<uint64_t>(bytes_.load(std::memory_order_relaxed)); }
  uint64_t rows_updated() const { return rows_updated_.load(std::memory_order_relaxed); }

 private:
  const uint64_t bytes_max_;
  Probe& probe_;
  std::atomic<int64_t> bytes_{0};
  std::atomic<uint64_t> rows_updated_{0};
};

namespace {

size_t SegmentsOf(const Shard::View& view) {
  return view.map == nullptr ? 0 : view.map->SegmentCount();
}

}  // namespace

Shard::Shard(ShardOptions options, const world::Clock& clock, Probe& probe)
    : options_(std::move(options)),
      clock_(clock),
      probe_(probe),
      budget_(std::make_shared<SharedBudget>(options_.memory_budget_bytes, probe)) {
  for (int i = 0; i < std::max(options_.executors, 1); ++i)
    executors_.push_back(std::make_unique<Executor>());
  View view;
  view.catalogue = std::make_shared<const Catalogue>();
  view_ = std::make_shared<const View>(std::move(view));
}

std::shared_ptr<const Shard::View> Shard::view() const {
  absl::MutexLock lock(&mutex_);
  return view_;
}

std::shared_ptr<const Shard::View> Shard::Publish(const std::function<void(View&)>& change) {
  View next = *view_;
  change(next);
  view_ = std::make_shared<const View>(std::move(next));
  return view_;
}

void Shard::Identify(ring::Member self) {
  std::shared_ptr<const View> now;
  {
    absl::MutexLock lock(&mutex_);
    now = Publish([&](View& view) { view.self = self; });
  }
  Configure(now);
}

void Shard::OnWantCatalogue(WantCatalogue want) {
  absl::MutexLock lock(&mutex_);
  want_catalogue_ = std::move(want);
}

void Shard::CatalogueWanted(CatalogueVersion version) {
  WantCatalogue want;
  {
    absl::MutexLock lock(&mutex_);
    want = want_catalogue_;
  }
  if (want) want(version);
}

absl::StatusOr<v1::InstallReply> Shard::Install(const v1::InstallRequest& request) {
  std::shared_ptr<const ring::SegmentMap> map;
  std::shared_ptr<const Catalogue> catalogue;
  if (request.has_map()) {
    ABSL_ASSIGN_OR_RETURN(ring::SegmentMap parsed, wire::MapFromProto(request.map()));
    map = std::make_shared<const ring::SegmentMap>(std::move(parsed));
  }
  if (request.has_catalogue()) {
    ABSL_ASSIGN_OR_RETURN(Catalogue parsed, Catalogue::FromProto(request.catalogue()));
    catalogue = std::make_shared<const Catalogue>(std::move(parsed));
  }
  std::shared_ptr<const View> now;
  {
    absl::MutexLock lock(&mutex_);
    if (map != nullptr && view_->map != nullptr && view_->map->ring_bits() != map->ring_bits()) {
      return absl::InvalidArgumentError(absl::StrCat("map: ring_bits ", map->ring_bits(),
                                                     "; this shard's ring has ", view_->map->ring_bits(),
                                                     " and it never changes"));
    }
    if (map != nullptr && hosts_.empty()) {
      for (uint32_t s = 0; s < map->SegmentCount(); ++s)
        hosts_.push_back(std::make_unique<SegmentHost>(SegmentId(s)));
    }
    now = Publish([&](View& view) {
      if (map != nullptr && (view.map == nullptr || map->version() > view.map->version())) view.map = map;
      if (catalogue != nullptr && catalogue->version() > view.catalogue->version())
        view.catalogue = catalogue;
    });
  }
  if (map != nullptr) Configure(now);
  v1::InstallReply reply;
  reply.set_map_version(now->map == nullptr ? 0 : now->map->version().v);
  reply.set_catalogue_version(now->catalogue->version().v);
  return reply;
}

void Shard::Configure(const std::shared_ptr<const View>& view) {
  if (view->map == nullptr || view->self.incarnation == Incarnation()) return;
  // Segments ignore a map older than one they know, so two calls that overtake each other do no harm.
  ForEachSegment(
      [this, view](SegmentHost& host) { host.Configure(*view->map, view->self, options_.name, budget_); },
      [] {});
}

void Shard::ForEachSegment(Visit visit, Done done) {
  if (view()->map == nullptr) {
    done();
    return;
  }
  struct Round {
    Visit visit;
    Done done;
    std::atomic<size_t> left;
  };
  auto round = std::make_shared<Round>();
  round->visit = std::move(visit);
  round->done = std::move(done);
  round->left = executors_.size();
  for (size_t e = 0; e < executors_.size(); ++e) {
    executors_[e]->Run([this, e, round] {
      for (size_t s = e; s < hosts_.size(); s += executors_.size()) round->visit(*hosts_[s]);
      if (round->left.fetch_sub(1) == 1) round->done();
    });
  }
}

void Shard::ChangeSession(const v1::SessionChange& change,
                          std::function<void(absl::StatusOr<v1::SessionChangeReply>)> done) {
  const auto seals = wire::ParseSeals(change.seals());
  if (!seals.ok()) {
    done(seals.status());
    return;
  }
  struct Outcome {
    bool primary = false;
    bool committed = false;
    std::string why;
    std::optional<Clock> join_behind;
    clock::LineCounts seals;
  };
  auto outcomes = std::make_shared<std::vector<Outcome>>(SegmentsOf(*view()));
  for (const wire::Seal& seal : *seals) {
    for (uint64_t s = seal.segment.v; s < uint64_t{seal.segment.v} + seal.run && s < outcomes->size(); ++s) {
      (*outcomes)[s].seals.At(seal.line) = seal.number;
    }
  }
  ForEachSegment(
      [this, change, outcomes](SegmentHost& host) {
        // The first map may have come in between; then nothing of it is answered for yet.
        if (host.primary() == nullptr || host.id().v >= outcomes->size()) return;
        Outcome& outcome = (*outcomes)[host.id().v];
        outcome.primary = true;
        host.primary()->SetNow(clock_.Now());
        outcome.committed = host.primary()->Change(change, outcome.seals, &outcome.why, &outcome.join_behind);
      },
      [this, outcomes, done = std::move(done)] {
        v1::SessionChangeReply reply;
        const auto now = view();
        reply.set_map_version(now->map == nullptr ? 0 : now->map->version().v);
        for (uint32_t s = 0; s < outcomes->size(); ++s) {
          const Outcome& outcome = (*outcomes)[s];
          if (outcome.committed) reply.add_committed(s);
          if (outcome.join_behind.has_value()) {
            auto* behind = reply.add_join_refused();
            behind->set_segment(s);
            behind->set_min_clock(*outcome.join_behind);
          }
          constexpr int kWaitsMax = 4;
          if (!outcome.why.empty() && reply.waits_size() < kWaitsMax) reply.add_waits(outcome.why);
        }
        done(std::move(reply));
      });
}

void Shard::ReleaseSegment(SegmentId segment, std::shared_ptr<const ring::SegmentMap> map,
                           std::function<void(std::optional<log::Segment>)> done) {
  executor(ExecutorOf(segment)).Run([this, segment, map = std::move(map), done = std::move(done)] {
    done(host(segment).Release(*map));
  });
}

void Shard::AdoptSegment(log::Segment state, std::shared_ptr<const ring::SegmentMap> map, Done done) {
  const SegmentId segment = state.id();
  executor(ExecutorOf(segment))
      .Run([this, segment, map = std::move(map), done = std::move(done), state = std::move(state)]() mutable {
        host(segment).Adopt(std::move(state), *map, budget_);
        done();
      });
}

std::shared_ptr<world::AcceptedStream> Shard::NewPushStream() {
  return std::make_shared<PushStream>(*this);
}
std::shared_ptr<world::AcceptedStream> Shard::NewPullStream() {
  return std::make_shared<PullStream>(*this);
}

void Shard::OnTime() {
  const absl::Time now = clock_.Now();
  ForEachSegment(
      [now](SegmentHost& host) {
        if (host.primary() != nullptr) host.primary()->OnTime(now);
      },
      [] {});
}

void Shard::Describe(std::function<void(v1::BeatRequest)> done) {
  struct Seen {
    uint64_t rows = 0;
    uint64_t parked = 0;
    SegmentHost::Role role = SegmentHost::Role::kElsewhere;
    std::vector<v1::WorkerClock> workers;
    std::vector<v1::JobClock> jobs;
  };
  auto seen = std::make_shared<std::vector<Seen>>(SegmentsOf(*view()));
  ForEachSegment(
      [seen](SegmentHost& host) {
        if (host.id().v >= seen->size()) return;  // the first map came in between
        Seen& mine = (*seen)[host.id().v];
        mine.role = host.role();
        if (host.primary() == nullptr) return;
        mine.rows = host.primary()->segment().rows();
        mine.parked = host.primary()->parked();
        for (const auto& [job, clock] : host.primary()->segment().jobs()) {
          v1::JobClock& of_job = mine.jobs.emplace_back();
          of_job.set_job(job.v);
          of_job.set_min_clock(clock.min_clock());
          for (const auto& [session, worker] : clock.workers()) {
            v1::WorkerClock& of_worker = mine.workers.emplace_back();
            of_worker.set_job(job.v);
            of_worker.set_session(session.v);
            of_worker.set_clock(worker.counted);
            of_worker.set_rank(worker.rank);
          }
        }
      },
      [this, seen, done = std::move(done)] {
        v1::BeatRequest beat;
        const auto now = view();
        beat.set_shard(now->self.shard.v);
        beat.set_incarnation(now->self.incarnation.v);
        beat.set_map_version(now->map == nullptr ? 0 : now->map->version().v);
        beat.set_catalogue_version(now->catalogue->version().v);
        beat.set_bytes(budget_->bytes());
        beat.set_bytes_budget(options_.memory_budget_bytes);
        beat.set_rows_pushed(budget_->rows_updated());
        beat.set_rows_pulled(rows_pulled_.load(std::memory_order_relaxed));
        beat.set_version(std::string(kVersion));
        std::map<uint32_t, uint64_t> min_clocks;
        std::map<uint64_t, v1::WorkerClock> workers;
        for (const Seen& segment : *seen) {
          beat.set_rows(beat.rows() + segment.rows);
          beat.set_parked(beat.parked() + segment.parked);
          if (segment.role == SegmentHost::Role::kPrimary) beat.set_primaries(beat.primaries() + 1);
          if (segment.role == SegmentHost::Role::kLost) beat.set_lost(beat.lost() + 1);
          for (const v1::JobClock& job : segment.jobs) {
            const auto [it, fresh] = min_clocks.emplace(job.job(), job.min_clock());
            if (!fresh) it->second = std::min(it->second, job.min_clock());
          }
          for (const v1::WorkerClock& worker : segment.workers) {
            const auto [it, fresh] = workers.emplace(worker.session(), worker);
            if (!fresh) it->second.set_clock(std::min(it->second.clock(), worker.clock()));
          }
        }
        for (const auto& [job, min_clock] : min_clocks) {
          v1::JobClock* of_job = beat.add_jobs();
          of_job->set_job(job);
          of_job->set_min_clock(min_clock);
        }
        for (const auto& [session, worker] : workers) *beat.add_workers() = worker;
        done(std::move(beat));
      });
}

void Shard::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    Publish([](View& view) { view.stopping = true; });
  }
  v1::Refusal stopping;
  stopping.set_reason(v1::Refusal::UNAVAILABLE);
  stopping.set_retry_after_ms(1000);
  stopping.set_message(absl::StrCat(options_.name, " is stopping"));
  ForEachSegment(
      [stopping](SegmentHost& host) {
        if (host.primary() != nullptr) host.primary()->Abandon(stopping);
      },
      [] {});
}

}  // namespace paceline::shard
