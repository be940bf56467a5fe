#include "services/shard/streams/stream_filters.h"

#include <span>
#include <utility>

#include "libs/base/status.h"

namespace paceline::shard {

void StreamFilters::Agree(const v1::Hello& hello, v1::Welcome& welcome) {
  constexpr uint32_t kLevel = 2;
  if (welcome.feature_level() < kLevel) return;
  agreed_ = filter::KnownOf(hello.filters());
  if (agreed_.Has(filter::Filter::kKeys)) {
    room_ = context_.key_lists().Take(filter::kListBytesMax);
    if (room_ == nullptr) agreed_.Remove(filter::Filter::kKeys);
  }
  if (room_ != nullptr) {
    keys_.Begin(room_->bytes());
    welcome.set_key_list_bytes(room_->bytes());
  }
  for (const uint32_t number : agreed_.Numbers()) welcome.add_filters(number);
  const filter::FilterSet replies = filter::KnownOf(hello.reply_filters()) & filter::FilterSet::OfValues();
  for (const uint32_t number : replies.Numbers()) welcome.add_reply_filters(number);
}

void StreamFilters::End() {
  keys_.Begin(0);
  room_ = nullptr;
}

absl::StatusOr<std::shared_ptr<filter::ListNotes>> StreamFilters::DecodeKeys(filter::FilterSet applied,
                                                                             v1::KeyForm form,
                                                                             absl::Cord& keys) {
  const size_t stride = form == v1::KEY_FORM_KEYS ? 1 : 2;
  return keys_.Decode(applied, stride, context_.options().frame_bytes_max, keys);
}

absl::StatusOr<std::shared_ptr<filter::ListNotes>> StreamFilters::Decode(
    wire::Frame<v1::PushPullRequest>& request) {
  if (request.head.filters().empty()) return nullptr;
  const absl::StatusOr<filter::FilterSet> applied = filter::AppliedOf(request.head.filters(), agreed_);
  if (!applied.ok()) return nullptr;
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<filter::ListNotes> notes,
                        DecodeKeys(*applied, request.head.key_form(), request.keys));
  const uint64_t room = context_.options().frame_bytes_max - request.keys.size();
  ABSL_RETURN_IF_ERROR(filter::DecodeValues(*applied, room, request.values, context_.clock(), probe_));
  request.head.clear_filters();
  return notes;
}

absl::StatusOr<std::shared_ptr<filter::ListNotes>> StreamFilters::Decode(
    wire::Frame<v1::PullRequest>& request) {
  if (request.head.key_filters().empty()) return nullptr;
  const absl::StatusOr<filter::FilterSet> applied =
      filter::AppliedOf(request.head.key_filters(), agreed_ & filter::FilterSet::OfKeys());
  if (!applied.ok()) return nullptr;
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<filter::ListNotes> notes,
                        DecodeKeys(*applied, request.head.key_form(), request.keys));
  request.head.clear_key_filters();
  return notes;
}

void EncodeRows(Context& context, filter::FilterSet asked, uint32_t dim,
                const std::shared_ptr<char[]>& values, std::shared_ptr<const void> owner,
                wire::Frame<v1::PullReply>& reply) {
  if (asked.empty() || reply.values.empty()) return;
  FilterProbe told(context.probe(), Probe::Traffic::kPull);
  const absl::string_view rows(values.get(), reply.values.size());
  if (const filter::Precision precision = asked.precision(); precision != filter::Precision::kF32) {
    for (size_t at = 0; at < rows.size(); at += dim * sizeof(float)) {
      filter::Quantise(precision, std::span<float>(reinterpret_cast<float*>(values.get() + at), dim));
    }
    reply.values = wire::Borrow(rows, values);
  }
  struct Coded {
    absl::Cord bytes;
    std::shared_ptr<const void> owner;
  };
  const auto coded = std::make_shared<Coded>(Coded{.bytes = reply.values, .owner = std::move(owner)});
  const filter::FilterSet applied = filter::EncodeValues(asked, dim, coded->bytes, context.clock(), told);
  if (applied.empty()) return;
  for (const uint32_t number : applied.Numbers()) reply.head.add_filters(number);
  reply.values = absl::MakeCordFromExternal(coded->bytes.Flatten(), [coded](absl::string_view) {});
}

}  // namespace paceline::shard
