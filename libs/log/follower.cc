#include "libs/log/follower.h"

#include <utility>

#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/log/record_check.h"
#include "libs/log/record_codec.h"
#include "libs/log/segment_image.h"

namespace paceline::log {
Follower::Follower(SegmentId segment, int ring_bits, ShardSide shard)
    : id_(segment), ring_bits_(ring_bits), shard_(std::move(shard)), tail_(LogPosition{}) {}

Follower Follower::Empty(SegmentId segment, int ring_bits, ShardSide shard) {
  Follower follower(segment, ring_bits, std::move(shard));
  follower.segment_.emplace(segment, ring_bits);
  return follower;
}

Follower::Follower(Segment segment, LogTail tail, ShardSide shard)
    : id_(segment.id()),
      ring_bits_(segment.ring_bits()),
      shard_(std::move(shard)),
      segment_(std::move(segment)),
      tail_(std::move(tail)) {
  CountMemory();
}

Follower::~Follower() {
  if (shard_.memory == nullptr) return;  // moved from
  kept_.reset();
  Discard();
}

LogPosition Follower::position() const {
  if (!segment_.has_value()) return {};
  return {.epoch = segment_->epoch(), .lsn = segment_->version()};
}

void Follower::Discard() {
  segment_.reset();
  tail_ = LogTail(LogPosition{});
  pieces_.Clear();
  whole_ = newest_page_ = Lsn();
  image_complete_ = true;
  CountMemory();
}

bool Follower::MemoryIsShort() const {
  return !shard_.memory->Admits(kLeftToOthers);
}

LogPosition Follower::fallback() const {
  if (kept_.has_value()) return {.epoch = kept_->segment.epoch(), .lsn = kept_->segment.version()};
  return whole() ? position() : LogPosition{};
}

void Follower::FallBack() {
  if (!kept_.has_value()) return;
  Discard();
  segment_ = std::move(kept_->segment);
  tail_ = std::move(kept_->tail);
  kept_.reset();
  shard_.records->Installed(*segment_);
  CountMemory();
}

void Follower::CountMemory() {
  int64_t bytes = segment_.has_value() ? static_cast<int64_t>(segment_->bytes()) : 0;
  if (kept_.has_value()) bytes += static_cast<int64_t>(kept_->segment.bytes());
  bytes += static_cast<int64_t>(pieces_.size());
  if (bytes != counted_) shard_.memory->Grown(bytes - counted_);
  counted_ = bytes;
}

Follower::State Follower::Release() {
  kept_.reset();
  pieces_.Clear();
  shard_.memory->Grown(-std::exchange(counted_, 0));
  State state{.segment = *std::move(segment_), .tail = std::move(tail_)};
  segment_.reset();
  tail_ = LogTail(LogPosition{});
  return state;
}

v1::ReplicateReply::Ack Follower::Take(const v1::ReplicateRequest::Segment& frame, absl::Cord body,
                                       bool member) {
  v1::ReplicateReply::Ack ack;
  ack.set_segment(id_.v);
  ack.set_epoch(frame.epoch());
  ack.set_transfer(frame.transfer());
  absl::Status taken;
  bool continues = true;
  const bool keep = member && whole() && !Planted(Bug::kImageToMember);
  if (frame.has_image() && keep) {
    taken = absl::FailedPreconditionError("a member keeps what it has");
  } else if (frame.has_image()) {
    TakeImage(frame);
  } else if (frame.pages_size() > 0 || frame.image_complete()) {
    taken = TakePages(frame);
  } else {
    const LogPosition before{.epoch = Epoch(frame.lsn_epoch()), .lsn = Lsn(frame.lsn())};
    // Pages that were lost with a link do not come again, so an incomplete image is not a state to continue.
    const bool agrees =
        before == position() || (Planted(Bug::kDivergedSuffixKept) && before.lsn == position().lsn);
    const bool amid = !image_complete_ && !Planted(Bug::kRecordsAmidImage);
    continues = segment_.has_value() && !amid && agrees && TakePiece(frame, body);
    if (continues) taken = TakeRecords(frame, body);
    if (continues && frame.records() > 0) CountMemory();
  }
  if (!taken.ok() && !keep) keeps() ? FallBack() : Discard();
  if (kept_.has_value() && (whole() || MemoryIsShort())) {
    kept_.reset();
    CountMemory();
  }
  if (!taken.ok() || !segment_.has_value()) {
    ack.set_state(v1::ReplicateReply::NO_STATE);
    return ack;
  }
  ack.set_state(continues ? v1::ReplicateReply::HOLDS : v1::ReplicateReply::BEHIND);
  // An incomplete image cannot be continued.
  if (!continues && !whole()) ack.set_state(v1::ReplicateReply::NO_STATE);
  // While pages are under way the follower reports no position: if nothing is written meanwhile, the image's
  // own LSN would pass for the whole state.
  if (image_complete_ || Planted(Bug::kPagesNotAwaited) || Planted(Bug::kRecordsAmidImage)) {
    ack.set_lsn(position().lsn.v);
    ack.set_lsn_epoch(position().epoch.v);
    const bool same = pieces_epoch_ == Epoch(frame.epoch()) && pieces_transfer_ == frame.transfer();
    if (continues && same) ack.set_record_bytes(pieces_.size());
  }
  ack.set_pages(frame.transfer() == transfer_ ? pages_ : 0);
  return ack;
}

void Follower::TakeImage(const v1::ReplicateRequest::Segment& frame) {
  if (whole()) kept_ = State{.segment = *std::move(segment_), .tail = std::move(tail_)};
  Discard();
  auto segment = SegmentFromImage(frame.image(), id_, ring_bits_);
  if (!segment.ok()) return;
  segment_ = *std::move(segment);
  tail_ = LogTail(position());
  transfer_ = frame.transfer();
  pages_ = 0;
  image_complete_ = false;
  whole_ = Lsn(UINT64_MAX);
  CountMemory();
  shard_.records->Installed(*segment_);
}

absl::Status Follower::TakePages(const v1::ReplicateRequest::Segment& frame) {
  if (!segment_.has_value() || frame.transfer() != transfer_ || image_complete_) {
    return absl::FailedPreconditionError("pages of an image that did not begin here");
  }
  for (const v1::PageImage& page : frame.pages()) {
    ABSL_RETURN_IF_ERROR(InstallPage(*segment_, page));
    newest_page_ = std::max(newest_page_, Lsn(page.version()));
    ++pages_;
  }
  if (frame.image_complete()) {
    image_complete_ = true;
    whole_ = newest_page_;
  }
  CountMemory();
  return absl::OkStatus();
}

// Those of another exchange are of a link that broke, or of another primary, whose record may be another.
bool Follower::TakePiece(const v1::ReplicateRequest::Segment& frame, absl::Cord& body) {
  const bool more = frame.records() == 0;
  if (more && body.empty()) return true;  // it only asks for the position
  const bool same = pieces_epoch_ == Epoch(frame.epoch()) && pieces_transfer_ == frame.transfer();
  if (frame.record_at() != (same ? pieces_.size() : 0)) return false;
  if (!same) pieces_.Clear();
  if (!more && pieces_.empty()) return true;
  pieces_.Append(std::move(body));
  pieces_epoch_ = Epoch(frame.epoch());
  pieces_transfer_ = frame.transfer();
  if (more) {
    body.Clear();
    CountMemory();
  } else {
    body = std::exchange(pieces_, {});
  }
  return true;
}

absl::Status Follower::TakeRecords(const v1::ReplicateRequest::Segment& frame, const absl::Cord& body) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<absl::Cord> records, SplitRecords(body, frame.records()));
  for (const absl::Cord& bytes : records) {
    ABSL_ASSIGN_OR_RETURN(const Record record, DecodeRecord(bytes));
    ABSL_RETURN_IF_ERROR(CheckApplies(*segment_, record));
    segment_->Apply(record);
    tail_.Append(segment_->epoch(), bytes);
    shard_.records->Applied(*segment_, AppliedRecord(record, bytes));
  }
  // Every other replica holds the committed records, so nobody will need them from this follower.
  tail_.CutTo(Lsn(std::min(frame.committed(), position().lsn.v)));
  return absl::OkStatus();
}

}  // namespace paceline::log
