#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sdk/cpp/src/pull/pull_link.h"
#include "sdk/cpp/src/pull/pull_op.h"
#include "sdk/cpp/src/push/pusher.h"
#include "sdk/cpp/src/session/context.h"
#include "sdk/cpp/src/session/time_account.h"
#include "sdk/cpp/src/session/wait_reports.h"

namespace paceline::sdk {

// All reads: splits a pull by shard, asks, asks again where needed, and checks the answers before the user
// sees a value.
class Puller final : public PullListener {
 public:
  Puller(Context& context, const Pusher& pusher) : context_(context), pusher_(pusher) {}

  void Pull(PullCall call);
  // A pull whose parts ride with those of a push. The caller supplies the number of each part; its `asking`
  // is 1 (see PushLink).
  std::shared_ptr<PullOp> PullWithPush(PullCall call, Clock reader);
  // Its push has failed.
  void OnPushFailed(PullOp& op, absl::Status why) { End(op, std::move(why)); }
  // The largest min clock that was certified, in any segment.
  Clock newest_min_clock() const { return newest_min_clock_; }
  // context.routes is newer than at the last call.
  void OnMap();
  // What waits for this client to be a reader may perhaps be handed out now.
  void OnReadable();
  // Ends all pulls; no callback is made afterwards.
  void Fail(const absl::Status& why);
  // The oldest pull under way; nullopt: there is none.
  std::optional<Waiting> Waits() const;

  // PullListener:
  void OnNumbered() override;
  void OnSending(PullRequest& request, absl::Time usable_since) override;
  absl::Status OnReply(Link& link, const PullRequest& request,
                       const wire::Frame<v1::PullReply>& reply) override;
  void OnRefusedStream(Link& link, const v1::Refusal& refusal) override;
  void OnLost(PullRequest& request) override;
  void OnRideLost(PullRequest& request) override;

 private:
  // The last certified state of a segment. The min clock never falls. A part that was applied but not
  // committed may be discarded with its epoch.
  struct Known {
    Clock min_clock = 0;
    Epoch epoch;
    PartNumber own = 0;  // in that epoch
  };

  PullLink& LinkFor(ShardId shard);
  void DialHeirs();
  std::shared_ptr<PullOp> Begin(PullCall call);
  // The content of one part of a reply: rows, in the order asked for; or those that have changed.
  struct Content {
    size_t at = 0;                                   // in the reply's values
    absl::Cord values;                               // of changes, and for the cache; otherwise empty
    std::optional<uint32_t> changes = std::nullopt;  // unset: the shard does not say
    absl::string_view changed = {};                  // their keys
  };
  // The pieces of a reply that the pull's sink gets when the visit has ended. Null: none so far.
  using Handed = std::shared_ptr<std::vector<Stretch>>;
  void OnServed(Link& link, const PullRequest& request, const PullRequest::Asked& asked,
                const wire::Certificate& certificate, const Content& content,
                const wire::Frame<v1::PullReply>& reply, Handed& handed);
  // `values` are those of all the pieces that are handed out together.
  void TakeRows(const PullOp& op, const Batch::Piece& piece, const wire::Certificate& certificate,
                const Content& content, const absl::Cord& values, bool rides, Handed& handed);
  // True: its segment has more slices.
  absl::StatusOr<bool> TakeSlice(const PullRequest& request, const PullRequest::Asked& asked,
                                 const wire::Certificate& certificate, const absl::Cord& values);
  // Of a table under a value bound: true: it may be handed out now.
  bool IsFit(const wire::Certificate& certificate) const;
  // Keeps what was served of such a table, until all of the pull may be handed out at once.
  void Hold(PullOp& op, uint32_t part, const wire::Certificate& certificate, absl::Cord values, bool rides);
  void Drop(PullOp& op, uint32_t part);
  // Hands out what is held, asks again for what is too old by now, or waits until this client is a reader.
  // `waited`: what it has waited for, if its last part has just come.
  void HandOut(const std::shared_ptr<PullOp>& op, std::optional<Waited> waited = std::nullopt);
  // Hands out these parts, which are held, together.
  void TakeHeld(PullOp& op, const std::vector<uint32_t>& parts);
  void TakeChanges(const PullOp& op, const Batch::Piece& piece, const wire::Certificate& certificate,
                   const Content& content);
  void OnRefused(Link& link, const PullRequest& request, const PullRequest::Asked& asked,
                 const v1::Refusal& refusal);
  void Ask(const std::shared_ptr<PullOp>& op, const std::vector<uint32_t>& parts);
  // Asks for those of the pull's parts whose number is known by now. True: some are still to be asked for.
  bool AskNumbered(const std::shared_ptr<PullOp>& op);
  void AskAfter(const std::shared_ptr<PullOp>& op, uint32_t part, absl::Duration pause);
  // OK if the certificate keeps every promise. DATA_LOSS and INTERNAL end the client.
  absl::Status Check(const Link& link, const PullRequest& request, const PullRequest::Asked& asked,
                     const wire::Certificate& certificate) const;
  // What the pull, which has ended with this part, waited for.
  Waited WaitedFor(const Link& link, const PullOp& op, const PullPart& part, const PullRequest& request,
                   const v1::PullReply& reply) const;
  // Adds what a pull waited for to the client's sums. Once for each.
  void Count(const Waited& waited);
  void OnDeadline(const std::shared_ptr<PullOp>& op);
  void End(PullOp& op, absl::Status status, std::optional<Waited> waited = std::nullopt);
  std::string NameOf(const PullOp& op) const {
    return (op.call.reducing != nullptr ? "reduction of " : "pull of ") + op.call.table->Name();
  }

  Context& context_;
  const Pusher& pusher_;
  std::map<ShardId, std::shared_ptr<PullLink>> links_;
  std::map<uint64_t, std::shared_ptr<PullOp>> ops_;
  std::vector<std::shared_ptr<PullOp>> unnumbered_;  // with parts that wait for the numbers of pushed ones
  static constexpr size_t kPruneAtLeast = 64;
  size_t prune_unnumbered_at_ = kPruneAtLeast;  // those that have ended go when there are so many
  std::vector<Known> known_;                    // by segment
  Clock newest_min_clock_ = 0;
  std::shared_ptr<const Routes> routed_by_;
  uint64_t pulls_ = 0;
};

}  // namespace paceline::sdk
