// What followers are sent: an image, and records.
#include <algorithm>
#include <utility>
#include <vector>

#include "libs/log/replicas.h"

namespace paceline::log {
namespace {

constexpr uint64_t kFrameBytes = uint64_t{1} << 20;
constexpr uint64_t kPiecesUnderWay = 4;  // of a record that does not fit one frame

}  // namespace

void Replicas::StartImage(Follower& follower, const Segment& segment) {
  follower.state = State::kImage;
  follower.exchange = ++*numbers_;
  follower.asked_in = epoch_;
  follower.walk.emplace(segment);
  follower.walked = false;
  follower.whole = Lsn(UINT64_MAX);
  follower.pages_sent = follower.pages_held = follower.bytes_sent = 0;
  follower.held = follower.durable = Lsn();
  follower.image = follower.sent = segment.version();
  v1::ReplicateRequest::Segment head = Head(follower);
  *head.mutable_image() = ImageOf(segment);
  port_->Send(follower.member, std::move(head), absl::Cord());
}

void Replicas::SendPages(Follower& follower, const Segment& segment) {
  const absl::Time now = clock_->Now();
  const auto admitted = [&] { return pace_.limit == nullptr || pace_.limit->Admits(now); };
  while (!follower.walked && follower.pages_sent - follower.pages_held < pace_.pages && admitted()) {
    std::vector<v1::PageImage> pages;
    follower.walked = !follower.walk->Next(segment, pace_.frame_bytes, &pages);
    v1::ReplicateRequest::Segment head = Head(follower);
    follower.pages_sent += pages.size();
    for (v1::PageImage& page : pages) *head.add_pages() = std::move(page);
    head.set_image_complete(follower.walked);
    const uint64_t bytes = head.ByteSizeLong();
    follower.bytes_sent += bytes;
    if (pace_.limit != nullptr) pace_.limit->Spend(bytes, now);
    port_->Send(follower.member, std::move(head), absl::Cord());
  }
  if (!follower.walked) return;
  follower.whole = segment.version();
  StreamFrom(follower, follower.sent);
}

void Replicas::StreamFrom(Follower& follower, Lsn lsn) {
  follower.state = State::kStreaming;
  follower.sent = lsn;
  follower.record_bytes_sent = follower.record_bytes_held = 0;
}

void Replicas::SendRecords(Follower& follower) {
  while (follower.sent < tail_.end().lsn) {
    if (!tail_.EpochAt(follower.sent).has_value()) {  // cut while it was asked for its position
      follower.state = State::kDown;
      return;
    }
    v1::ReplicateRequest::Segment head = Head(follower);
    head.set_lsn(follower.sent.v);
    head.set_lsn_epoch(tail_.EpochAt(follower.sent).value_or(Epoch()).v);
    absl::Cord body;
    head.set_records(tail_.Gather(follower.sent, kFrameBytes, &body));
    if (!SendPieces(follower, head, body)) return;
    follower.sent = Lsn(follower.sent.v + head.records());
    follower.record_bytes_sent = follower.record_bytes_held = 0;
  }
}

// Only so many are under way that other segments' records need not wait long behind them.
bool Replicas::SendPieces(Follower& follower, const v1::ReplicateRequest::Segment& head,
                          const absl::Cord& body) {
  while (follower.record_bytes_sent < body.size()) {
    if (follower.record_bytes_sent - std::min(follower.record_bytes_held, follower.record_bytes_sent) >=
        kPiecesUnderWay * pace_.record_bytes) {
      return false;
    }
    v1::ReplicateRequest::Segment piece = head;
    piece.set_record_at(follower.record_bytes_sent);
    if (body.size() - follower.record_bytes_sent > pace_.record_bytes) piece.set_records(0);
    port_->Send(follower.member, std::move(piece),
                body.Subcord(follower.record_bytes_sent, pace_.record_bytes));
    follower.record_bytes_sent += pace_.record_bytes;
  }
  return true;
}

void Replicas::Pump(const Segment& segment) {
  for (const auto& follower : followers_) {
    if (follower->state == State::kImage) SendPages(*follower, segment);
    if (follower->state == State::kStreaming) SendRecords(*follower);
  }
}

}  // namespace paceline::log
