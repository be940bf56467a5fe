#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/engine/engine.h"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::shard {

// How one start of a shard becomes a member of its cluster. Whoever owns it makes the calls and writes to the
// disk, with a thread or in virtual time:
//
//   kAsk     the coordinator is asked whether the folder may join, and which stamp its store has of the
//   shard;
//            nothing is changed by that, so a folder that is refused stays as it is
//   kWrite   the store's stamp and this start's are written to the folder, and synced
//   kJoin    the store takes this start's stamp in the place of the one it has
//   kJoined
//
// Whatever is lost in between — the process, a call, an answer — the folder names both stamps that the store
// may have by then. A stamp that is in the folder and not in the store is that of a start that ended between
// the two; the next start takes it over and draws none, so that a late call of the one that ended and its own
// say the same. Without a folder there are no stamps, and kJoin is all. Single owner, no locks.
class Joining {
 public:
  enum class Step { kAsk, kWrite, kJoin, kJoined };

  // `join.folder` is what was found, if there is one; `join.nonce` is random, and the start's stamp.
  explicit Joining(v1::JoinClusterRequest join);

  Step step() const { return step_; }
  // What the coordinator is to be sent. REQUIRES: kAsk or kJoin.
  const v1::JoinClusterRequest& request() const { return request_; }
  // What is to be written, and synced. REQUIRES: kWrite.
  engine::Batch Stamps() const;
  void OnWritten();
  // What it answered. kAborted: it is to be asked again soon. kFailedPrecondition and kInvalidArgument: this
  // start may not join, and is to end. Others: try again.
  absl::Status OnReply(const absl::StatusOr<v1::JoinClusterReply>& reply);

 private:
  void Ask();
  void OnMayJoin(const v1::JoinClusterReply& reply);

  v1::JoinClusterRequest request_;
  Step step_ = Step::kJoin;
};

}  // namespace paceline::shard
