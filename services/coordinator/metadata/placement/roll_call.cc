#include "services/coordinator/metadata/placement/roll_call.h"

#include <algorithm>

#include "services/coordinator/metadata/changes/call_shard.h"

namespace paceline::coordinator {
namespace {

constexpr absl::Duration kLived = absl::Milliseconds(200);
constexpr absl::Duration kBetweenCalls = absl::Milliseconds(100);

}  // namespace

bool RollCall::Lives(const v1::Member& member) {
  const ShardRecord* known = context_.facts.FindShard(member.shard());
  if (known == nullptr || known->info().incarnation() != member.incarnation()) return false;
  Asked& asked = asked_[member.shard()];
  if (asked.incarnation != member.incarnation()) asked = {.incarnation = member.incarnation()};
  if (context_.now - asked.lived_at <= kLived) return true;
  if (context_.now - asked.at >= kBetweenCalls) Ask(member.shard(), asked);
  return false;
}

void RollCall::Ask(uint32_t shard, Asked& asked) {
  const ShardRecord& known = *context_.facts.FindShard(shard);
  asked.at = context_.now;
  CallShard(context_, known.info(), &ShardCaller::Identify, {},
            [this, shard, nonce = known.nonce(), incarnation = asked.incarnation,
             at = asked.at](const absl::StatusOr<v1::IdentifyReply>& reply) {
              const auto it = asked_.find(shard);
              if (it == asked_.end() || it->second.incarnation != incarnation) return;
              if (!reply.ok() || reply->nonce() != nonce) return;
              it->second.lived_at = std::max(it->second.lived_at, at);
              on_answer_();
            });
}

}  // namespace paceline::coordinator
