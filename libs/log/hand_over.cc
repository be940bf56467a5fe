#include "libs/log/hand_over.h"

#include "libs/wire/map_codec.h"

namespace paceline::log {

bool HandOver::Begin(const ring::Member& to, absl::Time now) {
  if (under_way()) return false;
  to_ = to;
  since_ = now;
  return true;
}

void HandOver::End() {
  to_.reset();
  asked_.reset();
}

HandOver::Step HandOver::Next(absl::Time now, bool ready) const {
  if (!under_way()) return Step::kWait;
  if (asked()) return now >= *asked_ + kMax ? Step::kAskBack : Step::kWait;
  if (now > since_ + kMax) return Step::kGiveUp;
  return ready ? Step::kAsk : Step::kWait;
}

v1::ConfigWish HandOver::Wish(Step step, SegmentId segment, Epoch epoch, absl::Time now) {
  asked_ = now;
  v1::ConfigWish wish;
  wish.set_segment(segment.v);
  wish.set_epoch(epoch.v);
  wish.set_kind(step == Step::kAsk ? v1::ConfigWish::SWAP : v1::ConfigWish::KEEP);
  if (step == Step::kAsk) *wish.add_members() = wire::ToProto(*to_);
  return wish;
}

}  // namespace paceline::log
