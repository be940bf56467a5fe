// Invariants of disks.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/log/record_codec.h"
#include "paceline/v1/replication.pb.h"
#include "tests/sim/invariants.h"

namespace paceline::sim {

// The records are applied once more, from the first one on.
void Invariants::Durable(const std::string& where, const log::Segment& found) {
  const SegmentId id = found.id();
  const auto& records = records_[id.v];
  std::pair<Epoch, Lsn> at{found.epoch(), found.version()};
  const auto old = replayed_.find(id);
  const bool any = old != replayed_.end();
  std::vector<const absl::Cord*> missing;  // the last one first
  while (at.second != Lsn() && !(any && at == std::pair(old->second.epoch(), old->second.version()))) {
    const auto it = records.find(at);
    if (it == records.end()) {
      verdict_.Violated("Durable",
                        absl::StrCat("segment ", id.v, ": the disk of ", where, " has record ", at.second.v,
                                     " of epoch ", at.first.v, ", which was never written"));
      return;
    }
    missing.push_back(&it->second.record);
    at = {it->second.before, Lsn(at.second.v - 1)};
  }
  log::Segment state =
      any && at.second != Lsn() ? std::move(old->second) : log::Segment(id, found.ring_bits());
  if (any) replayed_.erase(old);
  for (auto record = missing.rbegin(); record != missing.rend(); ++record) {
    state.Apply(*log::DecodeRecord(**record));
  }
  if (state.Hash() != found.Hash()) {
    verdict_.Violated("Durable", absl::StrCat("segment ", id.v, ": the disk of ", where,
                                              " has another state than the log's at record ",
                                              found.version().v, " of epoch ", found.epoch().v));
  }
  replayed_.emplace(id, std::move(state));
}

void Invariants::Kept(const std::string& where, SegmentId segment, Lsn found, Lsn promised) {
  if (found >= promised) return;
  verdict_.Violated("Durable", absl::StrCat("segment ", segment.v, ": the disk of ", where,
                                            " was said to have record ", promised.v, " and has ", found.v));
}

// For marks: the member that continues where all have been started again.
void Invariants::OnConfig(SegmentId segment, const v1::SegmentConfig& before, const v1::Map& map) {
  const v1::SegmentConfig& config = map.segments(static_cast<int>(segment.v));
  floors_[segment.v] = {Epoch(config.emptied_in()), config.change_floor()};
  std::vector<v1::Member> members(before.replicas().begin(), before.replicas().end());
  members.push_back(before.primary());
  const v1::Member& now = config.primary();
  const bool from_disk = std::ranges::any_of(members, [&now](const v1::Member& member) {
    return member.shard() == now.shard() && member.incarnation() != now.incarnation();
  });
  if (!from_disk) return;
  marks_.Hit(members.size() > 1 ? "all members of a segment end, and a disk goes on"
                                : "the only member of a segment ends, and its disk goes on");
  std::set<log::LogPosition> found;
  for (const v1::Member& member : members) {
    for (const v1::ShardInfo& shard : map.shards()) {
      if (shard.shard() != member.shard()) continue;
      const ring::Member start{.shard = ShardId(shard.shard()),
                               .incarnation = Incarnation(shard.incarnation())};
      const auto log = logs_.find({start, segment});
      found.insert(log == logs_.end() ? log::LogPosition() : log->second);
    }
  }
  if (found.size() > 1) marks_.Hit("a disk of a member has less than another one's");
}

// A segment of which nobody was told begins anew by itself; everything else is on disks.
void Invariants::OnNothingFound(SegmentId segment) {
  verdict_.Violated("Durable",
                    absl::StrCat("segment ", segment.v, ": no disk has anything of it, but ",
                                 ledgers_[segment.v].committed.v, " records were said to be on all"));
}

void Invariants::Cut(const std::string& where, const engine::Batch::PutBase& base) {
  v1::SegmentImage image;
  const bool parsed = image.ParseFromString(base.bytes);
  if (parsed && Lsn(image.lsn()) >= base.lsn) return;
  verdict_.Violated(
      "Cut", absl::StrCat("segment ", base.segment.v, ": on the disk of ", where,
                          " the log is cut at record ", base.lsn.v, ", but its base is as of ", image.lsn()));
}

}  // namespace paceline::sim
