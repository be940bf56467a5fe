#include "services/shard/disk/segment_disk.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "libs/base/planted.h"

namespace paceline::shard {
namespace {

engine::PageKey KeyOf(TableId table, const table::PageRange& range) {
  return {.table = table, .start = range.start, .depth = static_cast<uint32_t>(range.depth)};
}

// The shard answers the coordinator about it once it is safe. The same holds for the first record of an
// epoch: with it all that an earlier primary wrote counts as said.
bool IsWaitedFor(const log::Record& record) {
  return log::AskedAboutAs(record).has_value() || std::holds_alternative<log::BeginEpoch>(record);
}

}  // namespace

void SegmentDisk::Restore(Found found) {
  anything_ = found.anything;
  usable_ = found.usable;
  state_ = found.usable ? State::kWritten : State::kNothing;
  if (found.usable) pages_ = std::move(found.pages);
  // Loading has synced what was there.
  if (found.usable) given_ = asked_ = durable_ = found.held;
  log_bytes_ = found.log_bytes;
}

void SegmentDisk::OnRecord(const log::Segment& segment, const log::AppliedRecord& record) {
  if (state_ != State::kNothing && !keep_ && IsLost()) Forget();
  if (state_ == State::kNothing) {
    if (segment.version() != Lsn(1)) return;
    if (anything_) Forget();
    state_ = State::kWritten;
    usable_ = true;  // from the empty segment on
  }
  batch_.Add(engine::LogEntry{
      .segment = segment_, .epoch = segment.epoch(), .lsn = segment.version(), .record = record.bytes()});
  log_bytes_ += record.bytes().size();
  if (walk_.has_value()) walk_->log_bytes += record.bytes().size();
  anything_ = marked_ = true;
  given_ = segment.version();
  if (IsWaitedFor(record.record())) wanted_ = given_;
}

bool SegmentDisk::IsLost() const {
  const uint64_t pending = disk_.pending_bytes();
  return pending > kDiskLostAtWork || (pending > kDiskLost && disk_.health().bad());
}

void SegmentDisk::Forget() {
  if (anything_) batch_.Add(engine::Batch::Reset{segment_});
  state_ = State::kNothing;
  anything_ = usable_ = false;
  pages_.clear();
  walk_.reset();
  log_bytes_ = 0;
  ++life_;
  given_ = durable_ = wanted_ = asked_ = Lsn();
  marked_ = false;
}

std::optional<SegmentDisk::Mark> SegmentDisk::TakeMark() {
  const bool waited_for = all_waited_for_ || asked_ == Lsn() || wanted_ > asked_;
  if (!marked_ || !(usable() || Planted(Bug::kBaseNotAwaited)) || !waited_for) return std::nullopt;
  marked_ = false;
  asked_ = given_;
  return Mark{.life = life_, .lsn = given_};
}

bool SegmentDisk::OnDurable(const Mark& mark) {
  if (mark.life != life_ && !Planted(Bug::kEarlierLifeCounts)) return false;
  if (mark.lsn <= durable_) return false;
  durable_ = mark.lsn;
  moved_ = true;
  stalls_ = false;
  return true;
}

v1::ReplicateReply::DiskState SegmentDisk::state() const {
  if (stalls_) return v1::ReplicateReply::DISK_STALLS;
  return ready() ? v1::ReplicateReply::DISK_READY : v1::ReplicateReply::DISK_FILLS;
}

// A slow disk that makes progress is worth waiting for.
void SegmentDisk::Watch(absl::Time now) {
  if (!Waits()) waits_since_ = absl::InfiniteFuture();
  if (Waits() && (moved_ || waits_since_ == absl::InfiniteFuture())) waits_since_ = now;
  moved_ = false;
  stalls_ = now > waits_since_ + kStalls || disk_.health().bad();
}

bool SegmentDisk::Due(const log::Segment& segment, absl::Time now) const {
  if (state_ == State::kNothing) return true;
  if (log_bytes_ >= std::max(pace_.log_bytes, segment.bytes() / 2)) return true;
  return log_bytes_ > 0 && now > last_base_ + pace_.log_age;
}

log::NextVisit SegmentDisk::OnTime(const log::Segment& segment, absl::Time now) {
  if (last_base_ == absl::InfinitePast()) last_base_ = now;
  Watch(now);
  if (disk_.pending_bytes() + batch_.bytes() > kDiskBusy) return log::NextVisit::kSoon;
  if (!walk_.has_value() && Due(segment, now)) Begin(segment);
  if (walk_.has_value()) Step(segment, now);
  if (Waits() || stalls_ || walk_.has_value()) return log::NextVisit::kSoon;
  return log_bytes_ > 0 ? log::NextVisit::kAtBeat : log::NextVisit::kNever;
}

void SegmentDisk::Begin(const log::Segment& segment) {
  if (state_ == State::kNothing && anything_) Forget();
  state_ = State::kWritten;
  given_ = segment.version();
  walk_.emplace(Walk{.at = segment.version(),
                     .image = log::ImageOf(segment).SerializeAsString(),
                     .pages = log::PageWalk(segment),
                     .log_bytes = 0,
                     .seen = {}});
}

void SegmentDisk::Step(const log::Segment& segment, absl::Time now) {
  moved_ = true;
  std::vector<v1::PageImage> out;
  const bool more = walk_->pages.Next(segment, usable_ ? pace_.step_bytes : pace_.first_step_bytes, &out,
                                      [this](TableId table, const table::Page& page) {
                                        const engine::PageKey key = KeyOf(table, page.range());
                                        walk_->seen.insert(key);
                                        const auto had = pages_.find(key);
                                        return had == pages_.end() || page.version() > had->second;
                                      });
  for (v1::PageImage& page : out) {
    const engine::PageKey key{.table = TableId(page.table()), .start = page.start(), .depth = page.depth()};
    pages_[key] = segment.version();
    anything_ = true;
    if (Planted(Bug::kPageAheadOfLog)) page.set_version(std::min(page.version(), walk_->at.v));
    batch_.Add(engine::Batch::PutPage{.segment = segment_, .key = key, .bytes = page.SerializeAsString()});
  }
  if (!more) End(now);
}

// Pages that were split are covered by their halves, those of dropped tables by nothing: the base no longer
// needs them.
void SegmentDisk::End(absl::Time now) {
  std::erase_if(pages_, [this](const auto& page) {
    if (walk_->seen.contains(page.first)) return false;
    batch_.Add(engine::Batch::DeletePage{.segment = segment_, .key = page.first});
    return true;
  });
  const Lsn cut = Planted(Bug::kLogCutEarly) ? given_ : walk_->at;
  batch_.Add(engine::Batch::PutBase{.segment = segment_, .lsn = cut, .bytes = std::move(walk_->image)});
  log_bytes_ = walk_->log_bytes;
  anything_ = usable_ = marked_ = true;
  last_base_ = now;
  ++bases_;
  walk_.reset();
}

}  // namespace paceline::shard
