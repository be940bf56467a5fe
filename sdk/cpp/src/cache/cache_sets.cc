// Rows that shards tell of: sets, and the updates of them.
#include <algorithm>
#include <cstring>

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

bool RowCache::IsTold(const Row& row) {
  const std::vector<Set>& sets = row.rows->sets;
  if (!row.told || row.segment.v >= sets.size()) return false;
  const Set& set = sets[row.segment.v];
  return set.there && InSet(row, set) && row.has_values && row.epoch == set.epoch;
}

// As with a chain: own pushes that the last update covers have not changed the row beside what it tells.
void RowCache::BringUpTold(Row& row) {
  if (!IsTold(row)) return;
  const Set& set = row.rows->sets[row.segment.v];
  if (row.version >= set.end) return;
  row.version = set.end;
  row.min_clock = set.min_clock;
  row.own = set.own;
  row.has_own = row.has_own || row.own >= row.pushed;
}

void RowCache::Join(Rows& rows, Row& row) {
  Set& set = SetOf(rows, row.segment);
  row.unread = 0;
  if (row.set == kQueued) return;
  if (InSet(row, set)) {
    // What an update told of it when it had an older version, or none, is not in this one.
    row.told =
        !row.due && row.set <= set.known && set.there && row.epoch == set.epoch && row.version >= set.end;
    return;
  }
  row.told = row.due = false;
  row.set = 0;
  if (rows.bound < set.resume_at) return;
  row.set = kQueued;
  if (set.joining.empty()) sets_changed_.push_back(row.segment);
  set.joining.push_back(row.key);
  if (set.joining.size() > 2 * rows.index.size() + kJoiningSpare) ForgetEvicted(rows, set);
}

// While no shard is told, because it is away or does not know sets, rows come and go.
void RowCache::ForgetEvicted(const Rows& rows, Set& set) {
  std::ranges::sort(set.joining);
  const auto again = std::ranges::unique(set.joining);
  set.joining.erase(again.begin(), again.end());
  std::erase_if(set.joining, [&](uint64_t key) {
    const auto it = rows.index.find(key);
    return it == rows.index.end() || it->second->set != kQueued;
  });
}

void RowCache::Leave(Row& row) {
  if (!row.rows->told || row.set == 0) return;
  Set& set = SetOf(*row.rows, row.segment);
  if (InSet(row, set)) {
    if (set.leaving.empty()) sets_changed_.push_back(row.segment);
    set.leaving.push_back(row.key);
  }
  row.set = 0;
  row.told = row.due = false;
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
      const auto it = rows.index.find(key);
      if (it == rows.index.end() || it->second->set != kQueued) return true;
      it->second->set = change.number;
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
  CordReader reader(values);
  for (uint32_t i = 0; i < *count; ++i) {
    PutTold(*rows, set, LoadU64(keys.data() + i * sizeof(uint64_t)), certificate, reader);
  }
  for (size_t at = 0; at < left_out.size(); at += sizeof(uint64_t)) {
    LeaveOut(*rows, set, LoadU64(left_out.data() + at), number);
  }
  set.there = true;
  set.epoch = certificate.epoch;
  set.end = certificate.version;
  set.min_clock = certificate.min_clock;
  set.own = certificate.own;
}

// The rows of changes that the update knows are told of, unless it began after their version.
void RowCache::Know(Rows& rows, Set& set, uint32_t number, const wire::Certificate& certificate, Lsn after) {
  for (; !set.asked.empty() && set.asked.front().first <= number; set.asked.pop_front()) {
    const auto& [change, keys] = set.asked.front();
    for (const uint64_t key : keys) {
      const auto it = rows.index.find(key);
      if (it == rows.index.end() || it->second->set != change) continue;
      Row& row = *it->second;
      row.told = row.has_values && row.epoch == certificate.epoch && row.version >= after;
    }
  }
  set.known = std::max(set.known, number);
}

void RowCache::PutTold(Rows& rows, Set& set, uint64_t key, const wire::Certificate& certificate,
                       CordReader& values) {
  const size_t row_bytes = rows.dim * sizeof(float);
  const auto it = rows.index.find(key);
  if (it == rows.index.end()) return values.Skip(row_bytes);
  Row& row = *it->second;
  BringUpTold(row);  // as of the last update
  const bool newer = row.epoch == certificate.epoch && row.version >= certificate.version;
  if (row.due) row.told = InSet(row, set) && row.set <= set.known;
  row.due = false;
  if (row.has_values && newer) return values.Skip(row_bytes);
  const bool again = row.has_values && row.has_own && row.keeps_own;
  if (certificate.own < row.pushed && !again) {
    // The update lacks a push, the row lacks the change.
    row.has_values = row.has_own = false;
    return values.Skip(row_bytes);
  }
  values.Read(reinterpret_cast<char*>(row.values()), row_bytes);
  row.epoch = certificate.epoch;
  row.version = certificate.version;
  row.min_clock = certificate.min_clock;
  row.own = certificate.own;
  row.has_values = row.has_own = row.keeps_own = true;
  ForgetOwn(rows, row, row.own);
  ApplyOwn(rows, row);
  row.told = InSet(row, set) && row.set <= set.known;
  if (row.unread >= rows.unread_max) return Leave(row);
  ++row.unread;
}

// It stays as of the last update. The shard names it no more, so that it remains so, also if it is pulled
// meanwhile. One that has left the set, or joined again since, begins anew there too.
void RowCache::LeaveOut(Rows& rows, Set& set, uint64_t key, uint32_t number) {
  const auto it = rows.index.find(key);
  if (it == rows.index.end()) return;
  Row& row = *it->second;
  if (!InSet(row, set) || row.set > number) return;
  BringUpTold(row);
  row.told = false;
  row.due = true;
}

void RowCache::KeepOwn(Rows& rows, Row& row, const char* gradient, PartNumber number) {
  if (!row.keeps_own) return;
  ForgetOwn(rows, row, row.own);
  const size_t row_bytes = rows.dim * sizeof(float);
  if (own_bytes_ + row_bytes > bytes_max_ / kOwnShare) {
    ForgetOwn(rows, row, UINT64_MAX);
    row.keeps_own = false;
    return;
  }
  OwnPush& push = rows.own_pushes[&row].emplace_back(OwnPush{.number = number, .gradient = {}});
  push.gradient.resize(rows.dim);
  std::memcpy(push.gradient.data(), gradient, row_bytes);
  own_bytes_ += row_bytes;
}

void RowCache::ApplyOwn(Rows& rows, Row& row) {
  const auto kept = rows.own_pushes.find(&row);
  if (kept == rows.own_pushes.end()) return;
  for (const OwnPush& push : kept->second) {
    rows.kernel.Apply(row.values(), rows.dim, push.gradient.data(), rows.dim);
  }
}

void RowCache::ForgetOwn(Rows& rows, Row& row, PartNumber upto) {
  const auto kept = rows.own_pushes.find(&row);
  if (kept == rows.own_pushes.end()) return;
  std::vector<OwnPush>& pushes = kept->second;
  const auto later =
      std::find_if(pushes.begin(), pushes.end(), [&](const OwnPush& p) { return p.number > upto; });
  own_bytes_ -= static_cast<uint64_t>(later - pushes.begin()) * rows.dim * sizeof(float);
  pushes.erase(pushes.begin(), later);
  if (pushes.empty()) rows.own_pushes.erase(kept);
}

}  // namespace paceline::sdk
