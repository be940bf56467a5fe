#include "libs/log/uncommitted.h"

namespace paceline::log {

void Uncommitted::Add(Lsn lsn, std::shared_ptr<AckSink> sink, wire::Mark mark) {
  marks_.push_back({.lsn = lsn, .sink = std::move(sink), .mark = mark});
}

std::vector<std::shared_ptr<AckSink>> Uncommitted::Tell(Lsn committed) {
  std::vector<std::shared_ptr<AckSink>> told;
  while (!marks_.empty() && marks_.front().lsn <= committed) {
    Mark& first = marks_.front();
    first.sink->Committed(first.mark);
    if (told.empty() || told.back() != first.sink) told.push_back(std::move(first.sink));
    marks_.pop_front();
  }
  return told;
}

void Uncommitted::BeginEpoch(const Segment& segment, Lsn committed) {
  written_.clear();
  NoteMinClocks(segment, committed);
}

void Uncommitted::NoteMinClocks(const Segment& segment, Lsn committed) {
  Show(committed);
  for (const auto& [job, clock] : segment.jobs()) {
    const auto [written, first] = written_.try_emplace(job, clock.min_clock());
    if (!first && written->second == clock.min_clock()) continue;
    written->second = clock.min_clock();
    moved_.push_back({.lsn = segment.version(), .job = job, .min_clock = clock.min_clock()});
  }
}

// Publishes the min clocks whose records have been committed since.
void Uncommitted::Show(Lsn committed) {
  while (!moved_.empty() && moved_.front().lsn <= committed) {
    shown_[moved_.front().job] = moved_.front().min_clock;
    moved_.pop_front();
  }
}

Clock Uncommitted::MinClock(JobId job, Lsn committed) {
  Show(committed);
  const auto shown = shown_.find(job);
  return shown == shown_.end() ? 0 : shown->second;
}

void Uncommitted::Forget(JobId job) {
  written_.erase(job);
  shown_.erase(job);
  std::erase_if(moved_, [&](const MovedClock& moved) { return moved.job == job; });
}

bool Uncommitted::IsSafe(size_t kind, uint64_t id, Lsn before, Lsn safe) {
  const auto change = changes_.find({kind, id});
  if (safe < (change == changes_.end() ? before : change->second)) return false;
  if (change != changes_.end()) changes_.erase(change);
  return true;
}

}  // namespace paceline::log
