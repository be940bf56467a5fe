#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "libs/base/ids.h"
#include "paceline/v1/control.pb.h"

namespace paceline::coordinator {

// Calls from the coordinator to shards. They never block. Each is answered exactly once, within a bounded
// time: in production after at most 2 s, then with DEADLINE_EXCEEDED. The coordinator repeats a call as long
// as it matters, so a call may be lost, late, or doubled.
//
// Answers enter the coordinator like everything else: one at a time, under the same lock, perhaps within the
// call itself. An answer that comes after the coordinator was destroyed is dropped.
class ShardCaller {
 public:
  using InstallDone = std::function<void(absl::StatusOr<v1::InstallReply>)>;
  using ChangeDone = std::function<void(absl::StatusOr<v1::ChangeReply>)>;
  using FenceDone = std::function<void(absl::StatusOr<v1::FenceReply>)>;
  using RecruitDone = std::function<void(absl::StatusOr<v1::RecruitReply>)>;
  using HandOverDone = std::function<void(absl::StatusOr<v1::HandOverReply>)>;
  using IdentifyDone = std::function<void(absl::StatusOr<v1::IdentifyReply>)>;
  using EmptyFolderDone = std::function<void(absl::StatusOr<v1::EmptyFolderReply>)>;

  virtual ~ShardCaller() = default;
  // `address` is the host:port of the newest start of `shard`.
  virtual void Install(ShardId shard, const std::string& address, v1::InstallRequest request,
                       InstallDone done) = 0;
  virtual void MakeChange(ShardId shard, const std::string& address, v1::Change change, ChangeDone done) = 0;
  virtual void Fence(ShardId shard, const std::string& address, v1::FenceRequest request, FenceDone done) = 0;
  virtual void Recruit(ShardId shard, const std::string& address, v1::RecruitRequest request,
                       RecruitDone done) = 0;
  virtual void HandOver(ShardId shard, const std::string& address, v1::HandOverRequest request,
                        HandOverDone done) = 0;
  virtual void Identify(ShardId shard, const std::string& address, v1::IdentifyRequest request,
                        IdentifyDone done) = 0;
  virtual void EmptyFolder(ShardId shard, const std::string& address, v1::EmptyFolderRequest request,
                           EmptyFolderDone done) = 0;
};

}  // namespace paceline::coordinator
