#include "sdk/cpp/src/session/time_account.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {
namespace {

// What is known by name of a bounded number of workers, shards or tables; nullptr: there are too many
// already.
template <class Map, class Key>
typename Map::mapped_type* Named(Map& map, const Key& key) {
  const auto it = map.find(key);
  if (it != map.end()) return &it->second;
  return map.size() < TimeAccount::kNamedMax ? &map[key] : nullptr;
}

uint64_t Us(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Microseconds(duration)));
}

BlockedSeconds SecondsOf(const CauseTimes& times) {
  const auto seconds = [&times](WaitCause cause) { return absl::ToDoubleSeconds(times[cause]); };
  return {.staleness = seconds(WaitCause::kStaleness),
          .network = seconds(WaitCause::kNetwork),
          .queue = seconds(WaitCause::kQueue),
          .apply = seconds(WaitCause::kApply),
          .replication = seconds(WaitCause::kReplication),
          .back_pressure = seconds(WaitCause::kBackPressure),
          .route = seconds(WaitCause::kRoute),
          .work = seconds(WaitCause::kWork),
          .coordinator = seconds(WaitCause::kCoordinator),
          .value_bound = seconds(WaitCause::kValueBound)};
}

v1::WaitCauses ToProto(const CauseTimes& times) {
  v1::WaitCauses proto;
  proto.set_staleness_us(Us(times[WaitCause::kStaleness]));
  proto.set_network_us(Us(times[WaitCause::kNetwork]));
  proto.set_queue_us(Us(times[WaitCause::kQueue]));
  proto.set_apply_us(Us(times[WaitCause::kApply]));
  proto.set_replication_us(Us(times[WaitCause::kReplication]));
  proto.set_back_pressure_us(Us(times[WaitCause::kBackPressure]));
  proto.set_route_us(Us(times[WaitCause::kRoute]));
  proto.set_work_us(Us(times[WaitCause::kWork]));
  proto.set_coordinator_us(Us(times[WaitCause::kCoordinator]));
  proto.set_value_bound_us(Us(times[WaitCause::kValueBound]));
  return proto;
}

uint64_t SumOf(const v1::WaitCauses& causes) {
  return causes.staleness_us() + causes.network_us() + causes.queue_us() + causes.apply_us() +
         causes.replication_us() + causes.back_pressure_us() + causes.route_us() + causes.work_us() +
         causes.coordinator_us() + causes.value_bound_us();
}

// The entries with the longest times, the longest first.
template <class Map, class TimeOf>
std::vector<typename Map::const_iterator> Longest(const Map& map, TimeOf time_of) {
  std::vector<typename Map::const_iterator> all;
  for (auto it = map.begin(); it != map.end(); ++it) all.push_back(it);
  std::ranges::stable_sort(
      all, [&](const auto& a, const auto& b) { return time_of(a->second) > time_of(b->second); });
  if (all.size() > TimeAccount::kReportedMax) all.resize(TimeAccount::kReportedMax);
  return all;
}

}  // namespace

absl::Duration CauseTimes::Total() const {
  absl::Duration total;
  for (const absl::Duration time : times_) total += time;
  return total;
}

void CauseTimes::Add(const CauseTimes& other) {
  for (size_t i = 0; i < kWaitCauses; ++i) times_[i] += other.times_[i];
}

CauseTimes CauseTimes::Share(absl::Duration duration) const {
  CauseTimes shares;
  const absl::Duration total = Total();
  absl::Duration rest = duration;
  size_t largest = static_cast<size_t>(WaitCause::kNetwork);
  if (total > absl::ZeroDuration()) {
    for (size_t i = 0; i < kWaitCauses; ++i) {
      if (times_[i] > times_[largest]) largest = i;
      shares.times_[i] = duration * absl::FDivDuration(times_[i], total);
      rest -= shares.times_[i];
    }
  }
  shares.times_[largest] += rest;
  return shares;
}

double WaitedBuilder::Take(WaitCause cause, absl::Duration wanted) {
  const absl::Duration taken = std::clamp(wanted, absl::ZeroDuration(), rest_);
  rest_ -= taken;
  waited.causes[cause] += taken;
  return absl::ToDoubleSeconds(taken);
}

absl::Time& TimeAccount::EndOf(uint64_t thread, absl::Time if_new) {
  const auto [it, is_new] = threads_.try_emplace(thread, if_new);
  if (!is_new) return it->second;
  ++threads_seen_;
  if (threads_.size() <= kThreadsMax) return it->second;
  const auto oldest = std::ranges::min_element(threads_, {}, [&](const auto& entry) {
    return entry.first == thread ? absl::InfiniteFuture() : entry.second;
  });
  threads_.erase(oldest);
  return it->second;
}

void TimeAccount::Begin(uint64_t thread, absl::Time now) {
  EndOf(thread, now) = now;
}

void TimeAccount::Blocked(uint64_t thread, const Stay& stay, const Waited& waited) {
  absl::Time& end = EndOf(thread, stay.from);
  const absl::Duration passed = std::max(stay.to - end, absl::ZeroDuration());
  const absl::Duration blocked = std::clamp(stay.blocked, absl::ZeroDuration(), passed);
  end = std::max(end, stay.to);
  compute_ += passed - blocked;
  const CauseTimes share = waited.causes.Share(blocked);
  blocked_.Add(share);
  if (waited.for_rank.has_value()) {
    if (absl::Duration* time = Named(for_rank_, *waited.for_rank)) *time += share[WaitCause::kStaleness];
  }
  if (waited.shard.has_value()) {
    if (CauseTimes* times = Named(at_shard_, *waited.shard)) times->Add(share);
  }
  if (waited.table == nullptr || share[WaitCause::kStaleness] == absl::ZeroDuration()) return;
  if (OfTable* of = Named(of_table_, waited.table->id)) {
    of->table = waited.table;
    of->staleness += share[WaitCause::kStaleness];
  }
}

// Threads wait for some of the operations' time, and for what is no operation.
CauseTimes TimeAccount::Overlapped() const {
  CauseTimes overlapped;
  for (size_t i = 0; i < kWaitCauses; ++i) {
    const auto cause = static_cast<WaitCause>(i);
    overlapped[cause] = std::max(operations_[cause] - blocked_[cause], absl::ZeroDuration());
  }
  return overlapped;
}

TimeSplit TimeAccount::split() const {
  return {.threads = threads_seen_,
          .all = absl::ToDoubleSeconds(compute_ + blocked_.Total()),
          .compute = absl::ToDoubleSeconds(compute_),
          .blocked = SecondsOf(blocked_),
          .overlapped = SecondsOf(Overlapped())};
}

v1::WorkerTime TimeAccount::Report() const {
  v1::WorkerTime report;
  report.set_threads(threads_seen_);
  report.set_compute_us(Us(compute_));
  *report.mutable_blocked() = ToProto(blocked_);
  *report.mutable_overlapped() = ToProto(Overlapped());
  report.set_all_us(report.compute_us() + SumOf(report.blocked()));  // of the rounded numbers
  for (const auto& it : Longest(for_rank_, [](absl::Duration time) { return time; })) {
    v1::WorkerTime::ForWorker& worker = *report.add_for_workers();
    worker.set_rank(it->first);
    worker.set_staleness_us(Us(it->second));
  }
  const auto of_shard = [](const CauseTimes& times) {
    return times[WaitCause::kNetwork] + times[WaitCause::kQueue] + times[WaitCause::kApply] +
           times[WaitCause::kBackPressure];
  };
  for (const auto& it : Longest(at_shard_, of_shard)) {
    v1::WorkerTime::AtShard& shard = *report.add_at_shards();
    shard.set_shard(it->first.v);
    shard.set_network_us(Us(it->second[WaitCause::kNetwork]));
    shard.set_queue_us(Us(it->second[WaitCause::kQueue]));
    shard.set_apply_us(Us(it->second[WaitCause::kApply]));
    shard.set_back_pressure_us(Us(it->second[WaitCause::kBackPressure]));
  }
  for (const auto& it : Longest(of_table_, [](const OfTable& of) { return of.staleness; })) {
    v1::WorkerTime::OfTable& table = *report.add_of_tables();
    table.set_name(it->second.table->name);
    table.set_staleness_us(Us(it->second.staleness));
    table.set_bound(static_cast<uint32_t>(PromiseOf(it->second.table->consistency).staleness.value_or(0)));
  }
  return report;
}

}  // namespace paceline::sdk
