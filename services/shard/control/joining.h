#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/engine/engine.h"
#include "paceline/v1/coordinator.pb.h"

namespace paceline::shard {

// The steps by which one start of a shard joins its cluster. The owner makes the calls and writes to the
// disk, with a thread or in virtual time:
//
//   kAsk     the coordinator is asked whether the folder may join, and which stamp its store has of the
//            shard; nothing is changed by that, so a folder that is refused stays as it is
//   kWrite   the store's stamp and this start's are written to the folder, and synced
//   kJoin    the store takes this start's stamp in the place of the one it has
//   kJoined
//
// If the process, a call or an answer is lost in between, the folder names both stamps that the store may
// have. A stamp in the folder that is not in the store belongs to a start that ended between the two. The
// next start takes it over and draws none, so that its call and a late one of the start before say the same.
// Without a folder there are no stamps, and kJoin is all. Single owner, no locks.
class Joining {
 public:
  enum class Step { kAsk, kWrite, kJoin, kJoined };

  // `join.folder` is the folder as it was found, if there is one; `join.nonce` is random, and the start's
  // stamp.
  explicit Joining(v1::JoinClusterRequest join);

  Step step() const { return step_; }
  // The request to send to the coordinator. REQUIRES: kAsk or kJoin.
  const v1::JoinClusterRequest& request() const { return request_; }
  // The batch to write and sync. REQUIRES: kWrite.
  engine::Batch Stamps() const;
  void OnWritten();
  // Takes the coordinator's answer. kAborted: ask it again soon. kFailedPrecondition and kInvalidArgument:
  // this start may not join and must end. Others: try again.
  absl::Status OnReply(const absl::StatusOr<v1::JoinClusterReply>& reply);

 private:
  void Ask();
  void OnMayJoin(const v1::JoinClusterReply& reply);

  v1::JoinClusterRequest request_;
  Step step_ = Step::kJoin;
};

}  // namespace paceline::shard
