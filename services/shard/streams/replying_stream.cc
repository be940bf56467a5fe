#include "services/shard/streams/replying_stream.h"

#include <algorithm>
#include <utility>

namespace paceline::shard {

ReplyingStream::ReplyingStream(Context& context, std::string kind)
    : ServedStream(context, std::move(kind)), read_at_(context.clock().Now()) {}

void ReplyingStream::Fail(uint64_t request, v1::Refusal refusal) {
  context_.probe().Refused(refusal.reason());
  wire::Frame<v1::PullReply> reply;
  reply.head.set_request(request);
  *reply.head.add_refusals() = std::move(refusal);
  Reply(reply, 0, /*priority=*/0);
}

bool ReplyingStream::Reserve(uint64_t bytes) {
  MutexLock lock(&mutex_);
  // One reply always fits, however large.
  if (reserved_ != 0 && reserved_ + bytes > context_.options().reply_bytes_max) return false;
  reserved_ += bytes;
  return true;
}

bool ReplyingStream::Unread(absl::Time now) const {
  return RepliesWait() && now - read_at_ > context_.options().unread_timeout;
}

uint64_t ReplyingStream::Waits(uint64_t reserved, uint64_t bytes) {
  if (!RepliesWait()) read_at_ = context_.clock().Now();
  const uint64_t takes = std::max(reserved, bytes);
  reserved_ += takes - reserved;
  return takes;
}

void ReplyingStream::GoesOut(uint64_t takes) {
  read_at_ = context_.clock().Now();
  reserved_ -= takes;
}

}  // namespace paceline::shard
