#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "libs/base/ids.h"
#include "paceline/v1/control.pb.h"

namespace paceline::coordinator {

// The calls, besides MakeChange: a v1::NameRequest is answered with a v1::NameReply.
// clang-format off
#define PACELINE_CALLS_OF_SHARDS(CALL) \
  CALL(Install) CALL(Fence) CALL(Recruit) CALL(HandOver) CALL(Identify) CALL(EmptyFolder)
// clang-format on

// Calls from the coordinator to shards. They never block. Each is answered exactly once, within a bounded
// time: in production after at most 2 s, then with DEADLINE_EXCEEDED. The coordinator repeats a call as long
// as it matters, so a call may be lost, late, or doubled.
//
// Answers enter the coordinator like everything else: one at a time, under the same lock, perhaps within the
// call itself. An answer that comes after the coordinator was destroyed is dropped.
class ShardCaller {
 public:
  using ChangeDone = std::function<void(absl::StatusOr<v1::ChangeReply>)>;

  virtual ~ShardCaller() = default;
  // `address` is the host:port of the newest start of `shard`.
  virtual void MakeChange(ShardId shard, const std::string& address, v1::Change change, ChangeDone done) = 0;
#define CALL(Name)                                                                        \
  using Name##Done = std::function<void(absl::StatusOr<v1::Name##Reply>)>;                \
  virtual void Name(ShardId shard, const std::string& address, v1::Name##Request request, \
                    Name##Done done) = 0;
  PACELINE_CALLS_OF_SHARDS(CALL)
#undef CALL
};

}  // namespace paceline::coordinator
