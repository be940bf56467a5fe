#include "services/coordinator/metadata/jobs/bounds.h"

#include <utility>

#include "libs/clock/consistency.h"

namespace paceline::coordinator {

void Bounds::OnTime() {
  std::erase_if(policies_,
                [this](const auto& entry) { return context_.facts.FindTable(entry.first) == nullptr; });
  // A choice is committed as an intent, which leaves the tables as they are.
  for (const auto& [id, table] : context_.facts.tables()) {
    if (table.bound_max() == 0 || context_.facts.FindRuleChange(id) != nullptr) continue;
    const auto bound = policies_[id].Next(
        {.bound = clock::BoundOf(table.bound(), table.bound_max()), .from = table.rule_clock()},
        table.bound_max(), WaitsOf(table));
    if (bound.has_value()) changes_.ChangeBound(table, *bound);
  }
}

std::vector<BoundPolicy::Waits> Bounds::WaitsOf(const v1::Table& table) const {
  std::vector<BoundPolicy::Waits> workers;
  for (const auto& [id, session] : context_.facts.sessions()) {
    if (session.job() != table.job() || session.state() != SessionRecord::WORKER) continue;
    const v1::WorkerTime* time = sessions_.TimeOf(id);
    if (time == nullptr) return {};
    BoundPolicy::Waits waits{.session = id, .clock = sessions_.Clock(id), .all_us = time->all_us()};
    for (const v1::WorkerTime::OfTable& of : time->of_tables()) {
      if (of.name() == table.name()) waits.staleness_us = of.staleness_us();
    }
    for (const v1::WorkerTime::ForWorker& whom : time->for_workers()) {
      waits.for_us[whom.rank()] = whom.staleness_us();
    }
    workers.push_back(std::move(waits));
  }
  return workers;
}

std::vector<Bounds::Gauge> Bounds::gauges() const {
  std::vector<Gauge> gauges;
  for (const auto& [id, table] : context_.facts.tables()) {
    if (table.bound_max() == 0) continue;
    const JobRecord* job = context_.facts.FindJob(table.job());
    gauges.push_back({.job = table.job(),
                      .job_name = job == nullptr ? "" : job->name(),
                      .table = table.name(),
                      .bound = clock::BoundOf(table.bound(), table.bound_max())});
  }
  return gauges;
}

}  // namespace paceline::coordinator
