// Rows that shards tell of: sets, and the updates of them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "libs/base/little_endian.h"
#include "libs/base/planted.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/pull/cord_reader.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {
namespace {

constexpr Clock kPause = 64;  // clocks without a set, after one that was refused for good reason

// One part in so many of what rows may take is for pushes that are kept.
constexpr uint64_t kOwnShare = 4;

// So many keys that do not join any more do no harm.
constexpr size_t kJoiningSpare = 64;

// Takes at most `room` keys, and lessens it.
std::vector<uint64_t> TakeSome(std::vector<uint64_t>& keys, size_t& room) {
  const size_t some = std::min(keys.size(), room);
  std::vector<uint64_t> taken(keys.end() - static_cast<ptrdiff_t>(some), keys.end());
  keys.resize(keys.size() - some);
  room -= some;
  return taken;
}

}  // namespace

RowCache::Set& RowCache::SetOf(Rows& rows, SegmentId segment) {
  if (segment.v >= rows.sets.size()) rows.sets.resize(segment.v + 1);
  return rows.sets[segment.v];
}

bool RowCache::InUpdates(const Rows& rows, const Stamp& stamp) {
  if (stamp.segment.v >= rows.sets.size()) return false;
  const Set& set = rows.sets[stamp.segment.v];
  return set.there && stamp.epoch == set.epoch;
}

bool RowCache::IsTold(Rows& rows, const Entry& entry) const {
  if (!entry.told || !entry.has_values() || !InUpdates(rows, StampOf(entry))) return false;
  return InSet(rows.held.RestOf(entry), rows.sets[StampOf(entry).segment.v]);
}

// As with a chain: own pushes that the last update covers have not changed the row beside what it tells.
void RowCache::BringUpTold(Rows& rows, Entry& entry) {
  if (!IsTold(rows, entry)) return;
  const Set& set = rows.sets[StampOf(entry).segment.v];
  if (StampOf(entry).version < set.end) BringTo(rows, entry, set.stamp);
}

void RowCache::Join(Rows& rows, const Row& row) {
  Entry& entry = *row.entry;
  Rest& rest = *row.rest;
  Set& set = SetOf(rows, rest.segment);
  entry.unread = 0;
  if (rest.set == kQueued) return;
  if (InSet(rest, set)) {
    // What an update told of it when it had an older version, or none, is not in this one.
    const Stamp& stamp = StampOf(entry);
    entry.told = !entry.due && rest.set <= set.known && InUpdates(rows, stamp) && stamp.version >= set.end;
    return;
  }
  entry.told = entry.due = false;
  rest.set = 0;
  if (rows.bound < set.resume_at) return;
  rest.set = kQueued;
  if (set.joining.empty()) sets_changed_.push_back(rest.segment);
  set.joining.push_back(entry.key);
  if (set.joining.size() > 2 * uint64_t{rows.held.size()} + kJoiningSpare) ForgetEvicted(rows, set);
}

// While no shard is told, because it is away or does not know sets, rows come and go.
void RowCache::ForgetEvicted(Rows& rows, Set& set) {
  std::ranges::sort(set.joining);
  const auto again = std::ranges::unique(set.joining);
  set.joining.erase(again.begin(), again.end());
  std::erase_if(set.joining, [&](uint64_t key) {
    const Row row = rows.held.Find(key);
    return !row || row.rest->set != kQueued;
  });
}

void RowCache::Leave(Rows& rows, const Row& row) {
  if (!rows.told || row.rest->set == 0) return;
  Set& set = SetOf(rows, row.rest->segment);
  if (InSet(*row.rest, set)) {
    if (set.leaving.empty()) sets_changed_.push_back(row.rest->segment);
    set.leaving.push_back(row.entry->key);
  }
  row.rest->set = 0;
  row.entry->told = row.entry->due = false;
}

void RowCache::TakeLeaving(Rows& rows, absl::FunctionRef<bool(SegmentId)> mine, SetChange& change) {
  size_t room = kSetChangeKeys;
  for (uint32_t s = 0; s < rows.sets.size() && room > 0; ++s) {
    Set& set = rows.sets[s];
    if ((!set.leaves && set.leaving.empty()) || !mine(SegmentId(s))) continue;
    std::vector<uint64_t> keys;
    if (std::exchange(set.leaves, false)) {
      set.leaving.clear();
    } else {
      keys = TakeSome(set.leaving, room);
    }
    change.segments.emplace_back(SegmentId(s), std::move(keys));
  }
}

void RowCache::TakeJoining(Rows& rows, absl::FunctionRef<bool(SegmentId)> mine, SetChange& change) {
  size_t room = kSetChangeKeys;
  for (uint32_t s = 0; s < rows.sets.size() && room > 0; ++s) {
    Set& set = rows.sets[s];
    if (set.joining.empty() || !mine(SegmentId(s))) continue;
    std::vector<uint64_t> keys = TakeSome(set.joining, room);
    // Those that were evicted meanwhile do not join.
    std::erase_if(keys, [&](uint64_t key) {
      const Row row = rows.held.Find(key);
      if (!row || row.rest->set != kQueued) return true;
      row.rest->set = change.number;
      return false;
    });
    if (keys.empty()) continue;
    set.asked.emplace_back(change.number, keys);
    change.segments.emplace_back(SegmentId(s), std::move(keys));
  }
}

bool RowCache::HasSetChange(const TableInfo& table, absl::FunctionRef<bool(SegmentId)> mine) const {
  const Rows* rows = Find(table.id);
  if (rows == nullptr) return false;
  for (uint32_t s = 0; s < rows->sets.size(); ++s) {
    const Set& set = rows->sets[s];
    const bool some = set.leaves || !set.leaving.empty() || !set.joining.empty();
    if (some && mine(SegmentId(s))) return true;
  }
  return false;
}

std::optional<SetChange> RowCache::TakeSetChange(const TableInfo& table,
                                                 absl::FunctionRef<bool(SegmentId)> mine) {
  Rows* rows = Find(table.id);
  if (rows == nullptr) return std::nullopt;
  SetChange change{.number = set_changes_ + 1, .leave = true, .segments = {}};
  TakeLeaving(*rows, mine, change);  // first, as a key may join again
  if (change.segments.empty()) {
    change.leave = false;
    TakeJoining(*rows, mine, change);
  }
  if (change.segments.empty()) return std::nullopt;
  set_changes_ = change.number;
  return change;
}

void RowCache::EndSet(Set& set) {
  if (Planted(Bug::kUpdateOverGap)) return;
  set.there = false;
  stamps_.Release(std::exchange(set.stamp, Stamps::kNone));
  set.first = set_changes_ + 1;
  set.asked.clear();
  set.leaving.clear();
}

void RowCache::OnSetEnded(const TableInfo& table, SegmentId segment, bool pause) {
  Rows* rows = Find(table.id);
  if (rows == nullptr) return;
  Set& set = SetOf(*rows, segment);
  EndSet(set);
  if (!set.joining.empty()) sets_changed_.push_back(segment);
  if (pause) set.resume_at = rows->bound + kPause;
}

void RowCache::OnUpdate(const TableInfo& table, const wire::Certificate& certificate, Lsn after,
                        uint32_t number, std::optional<uint32_t> count, absl::string_view keys,
                        const absl::Cord& values, absl::string_view left_out) {
  Rows* rows = Find(table.id);
  if (rows == nullptr || !rows->told) return;
  Set& set = SetOf(*rows, certificate.segment);
  if (!count.has_value() || !Valid(certificate.segment, certificate.epoch, certificate.version)) {
    return EndSet(set);
  }
  const bool follows =
      set.there && set.epoch == certificate.epoch && (set.end == after || Planted(Bug::kUpdateOverGap));
  if (!follows) {
    set.there = false;
    set.first = std::max(set.first, set.known + 1);
  }
  Know(*rows, set, number, certificate, after);
  const uint32_t stamp = stamps_.Make(certificate);
  CordReader reader(values);
  for (uint32_t i = 0; i < *count; ++i) {
    PutTold(*rows, set, LoadU64(keys.data() + i * sizeof(uint64_t)), certificate, stamp, reader);
  }
  for (size_t at = 0; at < left_out.size(); at += sizeof(uint64_t)) {
    LeaveOut(*rows, set, LoadU64(left_out.data() + at), number);
  }
  set.there = true;
  set.epoch = certificate.epoch;
  set.end = certificate.version;
  stamps_.Release(std::exchange(set.stamp, stamp));
  ++changes_;
  Trim();
}

// The rows of changes that the update knows are told of, unless it began after their version.
void RowCache::Know(Rows& rows, Set& set, uint32_t number, const wire::Certificate& certificate, Lsn after) {
  for (; !set.asked.empty() && set.asked.front().first <= number; set.asked.pop_front()) {
    const auto& [change, keys] = set.asked.front();
    for (const uint64_t key : keys) {
      const Row row = rows.held.Find(key);
      if (!row || row.rest->set != change) continue;
      const Stamp& stamp = StampOf(*row.entry);
      row.entry->told = row.entry->has_values() && stamp.epoch == certificate.epoch && stamp.version >= after;
    }
  }
  set.known = std::max(set.known, number);
}

void RowCache::PutTold(Rows& rows, Set& set, uint64_t key, const wire::Certificate& certificate,
                       uint32_t stamp, CordReader& values) {
  const size_t row_bytes = rows.dim * sizeof(float);
  const Row row = rows.held.Find(key);
  if (!row) return values.Skip(row_bytes);
  Entry& entry = *row.entry;
  BringUpTold(rows, entry);  // as of the last update
  const Stamp& before = StampOf(entry);
  const bool newer = before.epoch == certificate.epoch && before.version >= certificate.version;
  const bool told = InSet(*row.rest, set) && row.rest->set <= set.known;
  if (entry.due) entry.told = told;
  entry.due = false;
  if (entry.has_values() && newer) return values.Skip(row_bytes);
  const bool again = entry.has_values() && entry.has_own && entry.keeps_own;
  if (certificate.own < row.rest->pushed && !again) {
    // The update lacks a push, the row lacks the change.
    VoidValues(entry);
    return values.Skip(row_bytes);
  }
  values.Read(reinterpret_cast<char*>(row.values), row_bytes);
  SetStamp(entry, stamp);
  entry.has_own = entry.keeps_own = true;
  ForgetOwn(rows, key, certificate.own);
  ApplyOwn(rows, row);
  entry.told = told;
  if (entry.unread >= rows.unread_max) return Leave(rows, row);
  ++entry.unread;
}

// It stays as of the last update. The shard names it no more, so that it remains so, also if it is pulled
// meanwhile. One that has left the set, or joined again since, begins anew there too.
void RowCache::LeaveOut(Rows& rows, Set& set, uint64_t key, uint32_t number) {
  const Row row = rows.held.Find(key);
  if (!row || !InSet(*row.rest, set) || row.rest->set > number) return;
  BringUpTold(rows, *row.entry);
  row.entry->told = false;
  row.entry->due = true;
}

void RowCache::KeepOwn(Rows& rows, const Row& row, const char* gradient, PartNumber number) {
  Entry& entry = *row.entry;
  if (!entry.keeps_own) return;
  ForgetOwn(rows, entry.key, StampOf(entry).own);
  const size_t row_bytes = rows.dim * sizeof(float);
  if (own_bytes_ + row_bytes > bytes_max_ / kOwnShare) {
    ForgetOwn(rows, entry.key, UINT64_MAX);
    entry.keeps_own = false;
    return;
  }
  OwnPush& push = rows.own_pushes[entry.key].emplace_back(OwnPush{.number = number, .gradient = {}});
  push.gradient.resize(rows.dim);
  std::memcpy(push.gradient.data(), gradient, row_bytes);
  own_bytes_ += row_bytes;
}

void RowCache::ApplyOwn(Rows& rows, const Row& row) {
  const auto kept = rows.own_pushes.find(row.entry->key);
  if (kept == rows.own_pushes.end()) return;
  for (const OwnPush& push : kept->second) {
    rows.kernel.Apply(row.values, rows.dim, push.gradient.data(), rows.dim);
  }
}

void RowCache::ForgetOwn(Rows& rows, uint64_t key, PartNumber upto) {
  const auto kept = rows.own_pushes.find(key);
  if (kept == rows.own_pushes.end()) return;
  std::vector<OwnPush>& pushes = kept->second;
  const auto later =
      std::find_if(pushes.begin(), pushes.end(), [&](const OwnPush& p) { return p.number > upto; });
  own_bytes_ -= static_cast<uint64_t>(later - pushes.begin()) * rows.dim * sizeof(float);
  pushes.erase(pushes.begin(), later);
  if (pushes.empty()) rows.own_pushes.erase(kept);
}

}  // namespace paceline::sdk
