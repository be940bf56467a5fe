#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sdk/cpp/src/context.h"
#include "sdk/cpp/src/pull_link.h"
#include "sdk/cpp/src/pull_op.h"
#include "sdk/cpp/src/pusher.h"

namespace paceline::sdk {

// Everything about reads: splits a pull by shard, asks, asks again where needed, and checks what comes back
// before anybody sees it.
class Puller {
 public:
  Puller(Context& context, const Pusher& pusher) : context_(context), pusher_(pusher) {}

  void Pull(PullCall call);
  // context.routes is newer than at the last call.
  void OnMap();
  // Ends all; nothing is called afterwards.
  void Fail(const absl::Status& why);

  // -- from the links --
  void OnSending(PullRequest& request, absl::Time usable_since);
  void OnServed(PullLink& link, const PullRequest& request, const PullRequest::Asked& asked,
                const wire::Certificate& certificate, absl::Cord values, const v1::PullReply& reply);
  void OnRefused(PullLink& link, const PullRequest& request, const PullRequest::Asked& asked,
                 const v1::Refusal& refusal);
  void OnRefusedStream(PullLink& link, const v1::Refusal& refusal);
  // The stream broke before the answer came.
  void OnLost(PullRequest& request);

 private:
  // What was certified last of a segment; it never falls.
  struct Known {
    Clock min_clock = 0;
    PartNumber own = 0;
  };

  PullLink& LinkFor(ShardId shard);
  void Ask(const std::shared_ptr<PullOp>& op, const std::vector<uint32_t>& parts);
  void AskAfter(const std::shared_ptr<PullOp>& op, uint32_t part, absl::Duration pause);
  // OK if the certificate keeps every promise. DATA_LOSS and INTERNAL are the client's end.
  absl::Status Check(const PullLink& link, const PullRequest& request, const PullRequest::Asked& asked,
                     const wire::Certificate& certificate) const;
  void CountWait(const PullOp& op, const PullPart& part, const PullRequest& request,
                 const v1::PullReply& reply);
  void OnDeadline(const std::shared_ptr<PullOp>& op);
  void End(PullOp& op, absl::Status status);
  std::string NameOf(const PullOp& op) const { return "pull of " + op.call.table->Name(); }

  Context& context_;
  const Pusher& pusher_;
  std::map<ShardId, std::shared_ptr<PullLink>> links_;
  std::map<uint64_t, std::shared_ptr<PullOp>> ops_;
  std::vector<Known> known_;  // by segment
  std::shared_ptr<const Routes> routed_by_;
  uint64_t pulls_ = 0;
};

}  // namespace paceline::sdk
