#include "services/shard/segment_host.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"

namespace paceline::shard {
namespace {

constexpr uint32_t kRetryAfterMs = 20;

}  // namespace

void SegmentHost::Configure(const ring::SegmentMap& map, const ring::Member& self,
                            const std::string& shard_name, std::shared_ptr<log::Budget> budget) {
  const Epoch epoch = map.EpochOf(id_);
  const ring::Member& primary = map.Primary(id_);
  const bool newer_epoch = epoch > epoch_;
  map_version_ = std::max(map_version_, map.version());
  if (epoch < epoch_ && primary == self && Planted(Bug::kStaleEpochServed)) {
    primary_.emplace(id_, map.ring_bits(), epoch, std::move(budget));
    role_ = Role::kPrimary;
  }
  if (epoch < epoch_) return;
  epoch_ = epoch;
  if (primary == self) {
    if (role_ == Role::kPrimary || !newer_epoch) return;
    if (tenure_ > 0) {
      // It was here, went, and came back without its rows: an empty one would pass for the real one.
      role_ = Role::kLost;
      lost_message_ = absl::StrCat("segment ", id_.v, " came back to ", shard_name, " in epoch ", epoch.v,
                                   " without its data; restart the job from its last saved model");
      return;
    }
    primary_.emplace(id_, map.ring_bits(), epoch, std::move(budget));
    ++tenure_;
    role_ = Role::kPrimary;
    return;
  }
  if (role_ == Role::kPrimary) {
    primary_->Release(MovedTo(primary));
    primary_.reset();
  }
  role_ = primary.shard == self.shard ? Role::kLost : Role::kElsewhere;
  if (role_ == Role::kLost) {
    lost_message_ =
        absl::StrCat("segment ", id_.v, " was held in the memory of an earlier start of ", shard_name,
                     " (incarnation ", primary.incarnation.v, "; this is ", self.incarnation.v,
                     ") and has no other member: its acknowledged data is gone. Start the cluster with a "
                     "fresh --data-dir and the "
                     "job again, from its last saved model if there is one");
  }
}

v1::Refusal SegmentHost::MovedTo(const ring::Member& primary) const {
  v1::Refusal moved;
  moved.set_reason(v1::Refusal::MOVED);
  moved.set_map_version(map_version_.v);
  moved.set_message(absl::StrCat("segment ", id_.v, " moved to ", ring::ToString(primary)));
  return moved;
}

std::optional<log::Segment> SegmentHost::Release(const ring::SegmentMap& map) {
  if (role_ != Role::kPrimary || map.EpochOf(id_) <= epoch_) return std::nullopt;
  epoch_ = map.EpochOf(id_);
  map_version_ = std::max(map_version_, map.version());
  role_ = Role::kElsewhere;
  log::Segment state = primary_->Release(MovedTo(map.Primary(id_)));
  primary_.reset();
  return state;
}

void SegmentHost::Adopt(log::Segment state, const ring::SegmentMap& map,
                        std::shared_ptr<log::Budget> budget) {
  epoch_ = map.EpochOf(id_);
  map_version_ = std::max(map_version_, map.version());
  primary_.emplace(std::move(state), epoch_, std::move(budget));
  ++tenure_;
  role_ = Role::kPrimary;
}

std::optional<v1::Refusal> SegmentHost::Misrouted(Epoch sender_epoch) const {
  if (role_ == Role::kPrimary) return std::nullopt;
  v1::Refusal refusal;
  refusal.set_segment(id_.v);
  refusal.set_map_version(map_version_.v);
  if (sender_epoch > epoch_) {
    refusal.set_reason(v1::Refusal::UNAVAILABLE);
    refusal.set_retry_after_ms(kRetryAfterMs);
    refusal.set_message(absl::StrCat("segment ", id_.v, ": you know epoch ", sender_epoch.v,
                                     ", this shard only ", epoch_.v, " yet; ask again"));
  } else if (role_ == Role::kLost) {
    refusal.set_reason(v1::Refusal::DATA_LOSS);
    refusal.set_message(lost_message_);
  } else {
    refusal.set_reason(v1::Refusal::MOVED);
    refusal.set_message(
        absl::StrCat("segment ", id_.v, " is not served here; see map version ", map_version_.v));
  }
  return refusal;
}

std::optional<v1::Refusal> SegmentHost::Take(const log::Part& part, Epoch sender_epoch, absl::Time now) {
  if (auto refusal = Misrouted(sender_epoch)) {
    refusal->set_line(static_cast<v1::Line>(part.update.line));
    refusal->set_number(part.update.number);
    return refusal;
  }
  primary_->SetNow(now);
  return primary_->Take(part);
}

void SegmentHost::Serve(log::Read read, Epoch sender_epoch, absl::Time now) {
  if (auto refusal = Misrouted(sender_epoch)) {
    read.sink->Refused(read.part, *std::move(refusal));
    return;
  }
  primary_->Serve(std::move(read), now);
}

}  // namespace paceline::shard
