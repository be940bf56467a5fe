// The rules by which waits get a cause with a name.
#include "tools/paceline/explain.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/clock/consistency.h"
#include "tools/paceline/lists.h"
#include "tools/paceline/worker_times.h"

namespace paceline::tool {
namespace {

// Causes with a smaller share of the workers' time are not worth a word.
constexpr double kWorthSaying = 0.05;
// One of several has most of a cause, so it is the reason; otherwise all of them are.
constexpr double kMost = 0.6;
// A shard that works so much of an executor's time, and so many times as much as the others do, has no time
// to take what has come: frames lie in its connections, where it does not see them.
constexpr uint32_t kBusyPermille = 700;
constexpr double kBusier = 1.5;
// A key is hot if so much of what is asked of its shard is for it.
constexpr double kHot = 0.3;

double Share(uint64_t part, uint64_t of) {
  return of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of);
}

std::string Percent(double share) {
  return absl::StrFormat("%.0f %%", 100 * share);
}

// The entry of a map with the largest number, and its share of all.
template <class Key>
struct Top {
  Key key{};
  uint64_t us = 0;
  uint64_t all_us = 0;
  double share() const { return Share(us, all_us); }
};
template <class Key>
Top<Key> TopOf(const std::map<Key, uint64_t>& numbers) {
  Top<Key> top;
  for (const auto& [key, us] : numbers) {
    top.all_us += us;
    if (us > top.us) {
      top.key = key;
      top.us = us;
    }
  }
  return top;
}

class Explainer {
 public:
  Explainer(const v1::StatusReply& status, Explanation& explanation)
      : explanation_(explanation), all_us_(explanation.total.all_us()) {
    for (const v1::ShardStatus& shard : status.shards()) {
      names_[shard.info().shard()] = shard.info().name();
      loads_[shard.info().shard()] = &shard.load();
    }
    for (const v1::Table& table : status.tables()) tables_[table.id()] = table.name();
  }

  void Run() {
    FindStraggler();
    FindShard();
    FindLink();
    std::ranges::stable_sort(explanation_.findings, std::ranges::greater{}, &Finding::share);
  }

 private:
  std::string ShardName(uint32_t shard) const {
    const auto it = names_.find(shard);
    return it == names_.end() ? absl::StrCat("shard ", shard) : it->second;
  }
  void Add(Finding::Kind kind, std::string who, double share, std::string text) {
    explanation_.findings.push_back(
        {.kind = kind, .who = std::move(who), .share = share, .text = std::move(text)});
  }
  const WorkerSplit* WorkerOf(uint32_t rank) const {
    for (const WorkerSplit& worker : explanation_.workers) {
      if (worker.session.rank() == rank) return &worker;
    }
    return nullptr;
  }

  // Others wait for one worker: it is slow. They wait for one another in turn: the bound allows too little.
  void FindStraggler() {
    std::map<uint32_t, uint64_t> waited_for;
    for (const WorkerSplit& worker : explanation_.workers) {
      for (const auto& whom : worker.time.for_workers()) waited_for[whom.rank()] += whom.staleness_us();
    }
    const Top<uint32_t> top = TopOf(waited_for);
    const double share = Share(explanation_.total.blocked().staleness_us(), all_us_);
    if (share < kWorthSaying) return;
    if (top.share() >= kMost) {
      explanation_.straggler = {.name = absl::StrCat("worker ", top.key), .share = Share(top.us, all_us_)};
      return AddStraggler(top.key, explanation_.straggler->share);
    }
    AddTightBound(share);
  }

  // What a straggler itself waits for has findings of its own.
  void AddStraggler(uint32_t rank, double share) {
    const std::string who = absl::StrCat("worker ", rank);
    const WorkerSplit* worker = WorkerOf(rank);
    if (worker != nullptr && Share(worker->time.compute_us(), worker->time.all_us()) < 0.5) return;
    Add(Finding::Kind::kSlowWorker, who, share,
        absl::StrCat("the others wait for ", who, " ", Percent(share), " of the time of all, and it computes",
                     worker == nullptr
                         ? ""
                         : absl::StrCat(" ", Percent(Share(worker->time.compute_us(), worker->time.all_us())),
                                        " of its own"),
                     "; give it less work or a faster machine, or let a work queue share the work out"));
  }

  void AddTightBound(double share) {
    std::map<std::string, uint64_t> tables;
    std::map<std::string, uint32_t> bounds;
    for (const WorkerSplit& worker : explanation_.workers) {
      for (const auto& table : worker.time.of_tables()) {
        tables[table.name()] += table.staleness_us();
        bounds[table.name()] = table.bound();
      }
    }
    const Top<std::string> top = TopOf(tables);
    if (top.us == 0) return;
    const uint32_t bound = bounds[top.key];
    const auto follows = std::ranges::find(explanation_.bounds, top.key, &Explanation::Bound::table);
    const bool largest = follows != explanation_.bounds.end() && follows->clocks >= follows->most;
    const std::string remedy =
        follows == explanation_.bounds.end() ? absl::StrCat("; try ssp:", 2 * bound + 2)
        : largest ? absl::StrCat(", the largest that was allowed; try ssp:auto:", 2 * follows->most)
                  : ", which follows their waiting and has not settled";
    Add(Finding::Kind::kTightBound, absl::StrCat("table ", top.key), share,
        absl::StrCat(
            "the workers wait for one another in turn ", Percent(share), " of their time, at a bound of ",
            bound, " clocks", remedy,
            follows == explanation_.bounds.end() || largest ? " if the model bears older values" : ""));
  }

  // By what it tells of its work.
  bool IsBusy(uint32_t shard) const {
    uint64_t own = 0, others = 0;
    for (const auto& [number, load] : loads_) {
      (number == shard ? own : others) += load->busy_permille();
    }
    return own >= kBusyPermille &&
           static_cast<double>(own * (loads_.size() - 1)) >= kBusier * static_cast<double>(others);
  }

  std::string WorksText(uint32_t shard) const {
    return absl::StrCat(Percent(loads_.at(shard)->busy_permille() / 1000.0), " of an executor's time");
  }

  // Workers wait within one shard, behind other work or for it to do theirs; or for it to take their frames.
  void FindShard() {
    std::map<uint32_t, uint64_t> busy;
    for (const WorkerSplit& worker : explanation_.workers) {
      for (const auto& shard : worker.time.at_shards()) {
        busy[shard.shard()] += shard.queue_us() + shard.apply_us() + shard.back_pressure_us();
        if (IsBusy(shard.shard())) busy[shard.shard()] += shard.network_us();
      }
    }
    const Top<uint32_t> top = TopOf(busy);
    const double share = Share(top.us, all_us_);
    if (top.us == 0) return;
    explanation_.hot_shard = {.name = ShardName(top.key), .share = share};
    if (share < kWorthSaying) return;
    const bool alone =
        names_.size() == 1 || top.share() >= std::min(kMost, 1.5 / static_cast<double>(names_.size()));
    if (!alone) {
      const double together = Share(top.all_us, all_us_);
      return Add(
          Finding::Kind::kOverloadedShard, "all shards", together,
          absl::StrCat("workers wait at the shards ", Percent(together), " of their time; add shards"));
    }
    const std::string seen =
        absl::StrCat("workers wait ", Percent(share), " of their time at ", ShardName(top.key),
                     ", which has ", Percent(top.share()), " of what they wait for at shards",
                     IsBusy(top.key) ? absl::StrCat(" and works ", WorksText(top.key)) : "");
    Add(Finding::Kind::kOverloadedShard, ShardName(top.key), share,
        absl::StrCat(seen, "; see what its machine does besides, and move segments away"));
    AddHotKey(top.key, share);
  }

  // If much of what clients ask of the shard is for one key.
  void AddHotKey(uint32_t shard, double share) {
    const auto load = loads_.find(shard);
    if (load == loads_.end()) return;
    const v1::HotKey* hot = nullptr;
    for (const v1::SegmentLoad& segment : load->second->segments()) {
      for (const v1::HotKey& key : segment.keys()) {
        if (hot == nullptr || key.rows_per_s() > hot->rows_per_s()) hot = &key;
      }
    }
    if (hot == nullptr) return;
    const uint64_t surely = hot->rows_per_s() - std::min(hot->rows_per_s(), hot->error());
    const double asked = Share(surely, load->second->pushed_per_s() + load->second->read_per_s());
    if (asked < kHot) return;
    const auto table = tables_.find(hot->table());
    Add(Finding::Kind::kHotKey,
        absl::StrCat("key ", hot->key(), " of table ",
                     table == tables_.end() ? absl::StrCat(hot->table()) : table->second),
        share,
        absl::StrCat(Percent(std::min(1.0, asked)), " of the rows that ", ShardName(shard),
                     " is asked for are this key, ", hot->rows_per_s(),
                     " a second; cache it with a bound, or split it into several"));
  }

  // A worker's way to all shards is slow, everybody's to one shard, or one worker's to one shard.
  void FindLink() {
    std::map<uint32_t, uint64_t> workers, shards;
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> links;
    for (const WorkerSplit& worker : explanation_.workers) {
      for (const auto& shard : worker.time.at_shards()) {
        if (IsBusy(shard.shard())) continue;  // FindShard has these
        workers[worker.session.rank()] += shard.network_us();
        shards[shard.shard()] += shard.network_us();
        links[{worker.session.rank(), shard.shard()}] += shard.network_us();
      }
    }
    const auto worker = TopOf(workers);
    const auto shard = TopOf(shards);
    const auto link = TopOf(links);
    const double share = Share(worker.all_us, all_us_);
    // One worker of many may have a slow link though all of them together hardly wait for the network.
    const WorkerSplit* slowest = WorkerOf(worker.key);
    const double own = slowest == nullptr ? 0 : Share(worker.us, slowest->time.all_us());
    if (share < kWorthSaying && own < 0.3) return;
    const std::string seen =
        absl::StrCat("requests were under way ", Percent(share), " of the workers' time, ");
    const std::string remedy = "; see the network between them, and what else the machines do";
    if (explanation_.workers.size() > 1 && worker.share() >= kMost) {
      const std::string name = absl::StrCat("worker ", worker.key);
      const bool one = names_.size() > 1 && link.share() >= kMost;
      return Add(Finding::Kind::kSlowLink,
                 one ? absl::StrCat(name, " to ", ShardName(link.key.second)) : name,
                 Share(worker.us, all_us_),
                 absl::StrCat(seen, Percent(worker.share()), " of it those of ", name,
                              one ? absl::StrCat(" to ", ShardName(link.key.second)) : "", remedy));
    }
    if (names_.size() > 1 && shard.share() >= kMost) {
      const std::string name = ShardName(shard.key);
      Add(Finding::Kind::kSlowLink, name, Share(shard.us, all_us_),
          absl::StrCat(seen, Percent(shard.share()), " of it those to ", name, remedy));
      return AddHotKey(shard.key, Share(shard.us, all_us_));
    }
    Add(Finding::Kind::kNetwork, "all links", share,
        absl::StrCat(
            seen,
            "between all of them; pull ahead (PullAsync), push without waiting, use larger batches, or a "
            "cache with a larger bound"));
    if (names_.size() == 1) AddHotKey(shard.key, share);
  }

  Explanation& explanation_;
  const uint64_t all_us_;
  std::map<uint32_t, std::string> names_;           // of shards
  std::map<uint32_t, const v1::ShardLoad*> loads_;  // of shards
  std::map<uint32_t, std::string> tables_;          // their names
};

}  // namespace

std::string KindName(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kSlowWorker:
      return "slow_worker";
    case Finding::Kind::kSlowLink:
      return "slow_link";
    case Finding::Kind::kOverloadedShard:
      return "overloaded_shard";
    case Finding::Kind::kHotKey:
      return "hot_key";
    case Finding::Kind::kTightBound:
      return "tight_bound";
    case Finding::Kind::kNetwork:
      return "network";
  }
  return "";
}

absl::StatusOr<Explanation> Explain(const std::string& job, const v1::StatusReply& now,
                                    const v1::StatusReply* before) {
  const v1::JobStatus* found = FindJob(now, job);
  if (found == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("job '", job, "' does not exist; `paceline job list` shows those that do"));
  }
  Explanation explanation;
  explanation.job = job;
  for (const v1::Table& table : now.tables()) {
    if (table.job() != found->job() || table.bound_max() == 0) continue;
    explanation.bounds.push_back({.table = table.name(),
                                  .clocks = clock::BoundOf(table.bound(), table.bound_max()),
                                  .most = table.bound_max()});
  }
  for (const v1::SessionStatus& session : found->sessions()) {
    if (!session.has_time()) continue;
    WorkerSplit worker{.session = session, .time = session.time()};
    if (const v1::WorkerTime* then = before == nullptr ? nullptr : TimeOf(*before, job, session.session())) {
      worker.time = Since(worker.time, *then);
    }
    AddTo(explanation.total, worker.time);
    explanation.workers.push_back(std::move(worker));
  }
  if (explanation.total.all_us() == 0) {
    return absl::NotFoundError(
        absl::StrCat("no worker of job '", job, "' has told where its time goes",
                     before == nullptr ? "; ask again in a second, while it trains" : " meanwhile"));
  }
  std::ranges::stable_sort(explanation.workers, {},
                           [](const WorkerSplit& worker) { return worker.session.rank(); });
  Explainer(now, explanation).Run();
  return explanation;
}

}  // namespace paceline::tool
