#include "services/coordinator/metadata/members/superseding.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/coordinator/metadata/changes/call_shard.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

// The time limit for an answer. (ShardCaller has a longer deadline.)
constexpr absl::Duration kAnswerWithin = absl::Milliseconds(200);
// How long an answer counts; a later request asks again.
constexpr absl::Duration kCounts = absl::Seconds(1);

}  // namespace

bool Superseding::ProvesEnd(const v1::JoinClusterRequest& request, const ShardRecord& known) {
  return !known.place().empty() && known.place() == request.folder().place();
}

void Superseding::Ask(const ShardRecord& known) {
  const uint32_t shard = known.info().shard();
  asked_[shard] = {.nonce = known.nonce(), .at = context_.now, .answered = false, .listens = std::nullopt};
  CallShard(context_, known.info(), &ShardCaller::Identify, {},
            [this, shard, nonce = known.nonce()](const absl::StatusOr<v1::IdentifyReply>& reply) {
              const auto it = asked_.find(shard);
              if (it == asked_.end() || it->second.nonce != nonce) return;
              if (context_.now - it->second.at > kAnswerWithin) return;
              it->second.answered = true;
              if (reply.ok() && reply->nonce() != 0) it->second.listens = reply->nonce();
            });
}

absl::Status Superseding::Check(const v1::JoinClusterRequest& request, const ShardRecord& known,
                                absl::Duration silent) {
  if (ProvesEnd(request, known)) return absl::OkStatus();
  const std::string& name = known.info().name();
  const std::string earlier = absl::StrCat("the start of ", name, " at ", known.info().address());
  const auto it = asked_.find(known.info().shard());
  const bool fresh =
      it != asked_.end() && it->second.nonce == known.nonce() && context_.now - it->second.at <= kCounts;
  if (!fresh) Ask(known);
  const Asked& asked = asked_.at(known.info().shard());
  const bool waits = !asked.answered && context_.now - asked.at <= kAnswerWithin;
  if (!fresh || waits)
    return absl::AbortedError(absl::StrCat(earlier, " is asked whether it lives; ask again"));
  if (asked.listens == known.nonce()) {
    return absl::FailedPreconditionError(
        absl::StrCat(earlier,
                     " lives, and only one may: stop that one, or give this one another --name; this "
                     "process must end"));
  }
  const bool own_folder = request.folder().cluster() != 0;  // the folder was checked before
  if (asked.listens.has_value() || own_folder || silent > context_.options.shard_silent)
    return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(earlier, " does not answer, but has been silent for ",
                                             Seconds(silent), " only; this one joins after ",
                                             Seconds(context_.options.shard_silent)));
}

}  // namespace paceline::coordinator
