#include "libs/log/subscriptions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/log/keys.h"
#include "libs/log/refusals.h"

namespace paceline::log {
namespace {

size_t RowBytes(const table::Schema& schema) {
  return schema.dim * sizeof(float);
}

}  // namespace

std::optional<v1::Refusal> Subscriptions::Change(const SetChange& change, const View& view) {
  const Name name{change.stream, change.table->id};
  auto it = sets_.find(name);
  const table::KeyView keys = Keys(change.keys);
  if (change.leave) {
    if (it == sets_.end()) return std::nullopt;
    if (keys.empty()) {
      Erase(it);
      return std::nullopt;
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      keys_ -= it->second.keys.erase(keys[i]);
      it->second.due.erase(keys[i]);
    }
    it->second.set = std::max(it->second.set, change.set);
    return std::nullopt;
  }
  if (keys_ + keys.size() > kKeysMax || (it == sets_.end() && sets_.size() >= kSetsMax)) Sweep();
  if (keys_ + keys.size() > kKeysMax || (it == sets_.end() && sets_.size() >= kSetsMax)) {
    if (it != sets_.end()) Erase(it);
    return RefusalOf(v1::Refusal::OVER_BUDGET, view.segment.id(),
                     absl::StrCat("clients want to be told of too many rows here: ", keys_, " of ", kKeysMax,
                                  " in ", sets_.size(), " of ", kSetsMax,
                                  " sets; pull them, and let rows leave that are not read"));
  }
  if (it == sets_.end()) {
    Set set{.session = change.session, .job = change.job, .table = change.table, .sink = change.sink};
    set.upto = view.segment.version();
    set.told = view.segment.MinClockOf(change.job);
    view.tracker.Track(change.table->id, view.segment.version());
    it = sets_.emplace(name, std::move(set)).first;
  }
  Set& set = it->second;
  set.every = std::max<uint32_t>(change.every, 1);
  set.budget = change.budget;
  if (set.budget > 0) view.tracker.Weigh(change.table->id);
  set.set = std::max(set.set, change.set);
  for (size_t i = 0; i < keys.size(); ++i) {
    keys_ += set.keys.insert(keys[i]).second ? 1 : 0;
    set.due.erase(keys[i]);  // one that is named again begins anew
  }
  return std::nullopt;
}

bool Subscriptions::Tell(const View& view) {
  bool some = false;
  for (auto it = sets_.begin(); it != sets_.end();) {
    it = TellOne(it->second, view, &some) ? Erase(it) : std::next(it);
  }
  if (some) Settle(view);
  return some;
}

void Subscriptions::Settle(const View& view) const {
  absl::flat_hash_map<TableId, Lsn> told;  // by all sets with a budget
  for (const auto& [name, set] : sets_) {
    if (set.budget == 0) continue;
    const auto [it, first] = told.try_emplace(name.second, set.upto);
    if (!first) it->second = std::min(it->second, set.upto);
  }
  for (const auto& [table, upto] : told) view.tracker.Settle(table, upto);
}

bool Subscriptions::TellOne(Set& set, const View& view, bool* some) {
  while (true) {
    if (set.sink->gone() || view.segment.FindSession(set.session) == nullptr) return true;
    if (!set.waits.has_value()) {
      if (!Due(set, view)) return false;
      set.waits = Build(set, view);
      if (!set.waits.has_value()) return false;
      set.upto = set.waits->certificate.version;
      set.told = set.waits->certificate.min_clock;
    }
    if (set.waits->certificate.version > view.committed && !Planted(Bug::kUpdateBeforeCommit)) return false;
    if (Planted(Bug::kUpdateClockTooNew)) {
      set.waits->certificate.min_clock = view.segment.MinClockOf(set.job);
    }
    *some = true;
    const bool known = set.waits->known;
    set.sink->Updated(*std::exchange(set.waits, std::nullopt));
    if (!known) return true;
  }
}

bool Subscriptions::Due(const Set& set, const View& view) const {
  return view.segment.MinClockOf(set.job) >= set.told + set.every;
}

std::optional<SetUpdate> Subscriptions::Build(Set& set, const View& view) {
  // A later update tells no less. To choose its rows again at every commit would cost the segment too much.
  if (set.lacked > 0 && set.sink->Reserve(set.lacked) == nullptr) return std::nullopt;
  SetUpdate update{.table = set.table,
                   .after = set.upto,
                   .certificate = {.segment = view.segment.id(),
                                   .served = true,
                                   .epoch = view.epoch,
                                   .began = view.began,
                                   .version = view.segment.version(),
                                   .min_clock = view.segment.MinClockOf(set.job),
                                   .own = view.segment.FindSession(set.session)->applied.At(Line::kArrival)},
                   .set = set.set};
  const auto changed = view.tracker.Since(set.table->id, set.upto, UINT64_MAX);
  if (changed.has_value()) {
    for (const uint64_t key : *changed) {
      if (set.keys.contains(key)) update.keys.push_back(key);
    }
  }
  DueRows due;
  if (changed.has_value() && (set.budget > 0 || !set.due.empty())) due = Choose(set, view, update);
  const size_t row_bytes = RowBytes(set.table->schema);
  const bool fits = update.keys.size() <= kBytesMax / (sizeof(uint64_t) + row_bytes);
  update.known = (changed.has_value() && fits) || Planted(Bug::kOverflowNotTold);
  if (!changed.has_value() || !fits) update.keys.clear();
  update.values.resize(update.keys.size() * row_bytes);
  const size_t named = update.keys.size() + update.left_out.size();
  const uint64_t bytes = wire::kCertificateBytes + named * sizeof(uint64_t) + update.values.size();
  update.room = set.sink->Reserve(bytes);
  set.lacked = update.room == nullptr ? bytes : 0;
  if (update.room == nullptr) return std::nullopt;
  set.due = std::move(due);
  const Segment::Table* table = view.segment.FindTable(set.table->id);
  if (!update.keys.empty()) table->rows.Read(absl::MakeConstSpan(update.keys), update.values.data());
  return update;
}

Subscriptions::DueRows Subscriptions::Choose(const Set& set, const View& view, SetUpdate& update) {
  DueRows due = set.due;
  for (const uint64_t key : update.keys) due[key] += view.tracker.Moved(set.table->id, key);
  std::vector<std::pair<float, uint64_t>> rows;
  rows.reserve(due.size());
  for (const auto& [key, moved] : due) rows.emplace_back(moved, key);
  std::ranges::sort(rows, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  size_t sent = rows.size();
  if (set.budget > 0) {
    const uint64_t fit = std::min(set.budget, kBytesMax) / (sizeof(uint64_t) + RowBytes(set.table->schema));
    sent = std::min<size_t>(sent, std::max<uint64_t>(fit, 1));
  }
  update.keys.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t key = rows[i].second;
    if (i < sent) {
      update.keys.push_back(key);
      due.erase(key);
    } else if (!set.due.contains(key)) {
      update.left_out.push_back(key);
    }
  }
  std::ranges::sort(update.keys);
  std::ranges::sort(update.left_out);
  if (Planted(Bug::kLeftOutCalledFresh)) update.left_out.clear();
  return due;
}

Subscriptions::Sets::iterator Subscriptions::Erase(Sets::iterator it) {
  keys_ -= it->second.keys.size();
  return sets_.erase(it);
}

void Subscriptions::End(TableId table, SegmentId segment, const v1::Refusal& why) {
  for (auto it = sets_.begin(); it != sets_.end();) {
    if (it->first.second != table) {
      ++it;
      continue;
    }
    it->second.sink->Ended(segment, table, why);
    it = Erase(it);
  }
}

void Subscriptions::EndAll(SegmentId segment, const v1::Refusal& why) {
  for (auto it = sets_.begin(); it != sets_.end(); it = Erase(it)) {
    it->second.sink->Ended(segment, it->first.second, why);
  }
}

void Subscriptions::Sweep() {
  for (auto it = sets_.begin(); it != sets_.end();) it = it->second.sink->gone() ? Erase(it) : std::next(it);
}

}  // namespace paceline::log
