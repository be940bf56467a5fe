#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "paceline/v1/control.grpc.pb.h"
#include "services/coordinator/metadata/shard_caller.h"

namespace paceline::coordinator {

// Calls shards over gRPC, one channel an address, two seconds a call. Answers come on gRPC's threads and go
// through `enter`, which lets one in at a time, or drops them once the coordinator is gone. Used under the
// same lock.
class GrpcShardCaller : public ShardCaller {
 public:
  // Runs what it is given under the coordinator's lock, or not at all. Must be callable for as long as calls
  // are out.
  using Enter = std::function<void(absl::FunctionRef<void()>)>;

  explicit GrpcShardCaller(Enter enter) : enter_(std::move(enter)) {}

  void Install(ShardId shard, const std::string& address, v1::InstallRequest request,
               InstallDone done) override;
  void ChangeSession(ShardId shard, const std::string& address, v1::SessionChange change,
                     ChangeDone done) override;

 private:
  v1::ShardControl::Stub& StubFor(ShardId shard, const std::string& address);

  struct Peer {
    std::string address;
    std::unique_ptr<v1::ShardControl::Stub> stub;
  };

  const Enter enter_;
  std::map<ShardId, Peer> peers_;
};

}  // namespace paceline::coordinator
