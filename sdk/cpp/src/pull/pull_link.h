#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "libs/filter/coder.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "paceline/v1/shard.pb.h"
#include "sdk/cpp/src/pull/pull_op.h"
#include "sdk/cpp/src/session/filter_counts.h"
#include "sdk/cpp/src/session/link.h"

namespace paceline::sdk {

// The pull stream to one shard: requests that wait to be sent, the most urgent first, and requests that wait
// for their answers, which come in any order.
class PullLink final : public Link {
 public:
  PullLink(Context& context, PullListener& listener, ring::ShardInfo shard);

  void Ask(PullRequest request);

 protected:
  bool HasWork() const override { return !queue_.empty() || !asked_.empty(); }
  bool Next(absl::Cord* frame) override;
  void Receive(absl::Cord frame) override;
  void OnUp() override;
  void OnDown() override;

 private:
  static constexpr size_t kPruneAtLeast = 64;
  using QueuePlace = std::pair<uint32_t, uint64_t>;  // (priority, id)

  void Put(PullRequest request);
  // Drops queued parts of pulls that have ended or were asked again. False: nothing is left of the request.
  static bool Prune(PullRequest& request);
  wire::Frame<v1::PullRequest> Fill(PullRequest& request) const;
  // Codes the keys as the table wants it and the shard takes it, and asks for coded rows. REQUIRES: the frame
  // is sent.
  void Code(const PullOp& op, wire::Frame<v1::PullRequest>& frame);

  PullListener& listener_;
  absl::btree_map<QueuePlace, PullRequest> queue_;
  size_t prune_at_ = kPruneAtLeast;               // the queue is pruned when it grows to this length
  absl::btree_map<uint64_t, PullRequest> asked_;  // by id; of the current stream
  uint64_t asked_bytes_ = 0;
  uint64_t ids_ = 0;
  FilterCounts filter_counts_;
  filter::KeyEncoder key_encoder_;  // of the current stream
};

}  // namespace paceline::sdk
