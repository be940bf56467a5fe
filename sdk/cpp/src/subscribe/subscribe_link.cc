#include "sdk/cpp/src/subscribe/subscribe_link.h"

#include <utility>

namespace paceline::sdk {

SubscribeLink::SubscribeLink(Context& context, SubscribeListener& listener, ring::ShardInfo shard)
    : Link(context, world::StreamKind::kSubscribe, std::move(shard)), listener_(listener) {}

bool SubscribeLink::HasWork() const {
  if (does_not_serve_ != Incarnation() && does_not_serve_ == shard().incarnation) return false;
  return !segments_.empty() || listener_.HasChange(*this) || listener_.HasToSay(*this);
}

bool SubscribeLink::Next(absl::Cord* frame) {
  wire::Frame<v1::SubscribeRequest> request;
  bool some = listener_.TakeChange(*this, request, segments_);
  some |= listener_.TakeToSay(*this, request.head);
  if (!some && confirmed_ == received_) return false;
  if (confirmed_ != received_) request.head.set_confirmed(received_);
  confirmed_ = received_;
  *frame = wire::Encode(request);
  return true;
}

void SubscribeLink::Receive(absl::Cord bytes) {
  absl::StatusOr<wire::Frame<v1::SubscribeUpdate>> update = wire::Decode<v1::SubscribeUpdate>(bytes);
  if (!update.ok()) return BrokeRules(update.status());
  if (update->head.has_welcome()) Welcomed(update->head.welcome());
  if (!usable()) {
    if (update->head.refusals_size() > 0) RefusedAtHello(update->head.refusals(0));
    return;
  }
  if (absl::Status kept = listener_.OnUpdate(*this, *update); !kept.ok()) return BrokeRules(kept);
  if (update->head.number() == 0) return;
  received_ = update->head.number();
  Wake();
}

void SubscribeLink::OnDown() {
  if (absl::IsUnimplemented(last_error())) does_not_serve_ = shard().incarnation;
  received_ = confirmed_ = 0;
  listener_.OnSetsLost(*this, std::exchange(segments_, {}));
  listener_.OnStreamLost(*this);
}

}  // namespace paceline::sdk
