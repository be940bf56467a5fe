#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "paceline/v1/control.grpc.pb.h"
#include "services/coordinator/core_host.h"
#include "services/coordinator/metadata/changes/shard_caller.h"

namespace paceline::coordinator {

// Calls shards over gRPC: one connection per shard, two seconds per call. Answers enter the core as visits.
class ShardStubs final : public ShardCaller {
 public:
  // `host` must outlive the stubs.
  explicit ShardStubs(CoreHost& host) : host_(host) {}
  // Calls Shutdown.
  ~ShardStubs() override;

  // Call these from within a visit of the core.
  void MakeChange(ShardId shard, const std::string& address, v1::Change change, ChangeDone done) override;
#define CALL(Name) \
  void Name(ShardId shard, const std::string& address, v1::Name##Request request, Name##Done done) override;
  PACELINE_CALLS_OF_SHARDS(CALL)
#undef CALL

  // Cancels the calls under way, waits until all of them are answered, and answers new calls UNAVAILABLE.
  void Shutdown();

 private:
  struct Connection {
    std::string address;
    std::shared_ptr<v1::ShardControl::Stub> stub;
  };
  template <class Request, class Reply>
  struct Call;

  // Makes the call of the stub's `method` at the end of the visit.
  template <class Request, class Reply, class Method>
  void Queue(Method method, ShardId shard, const std::string& address, Request request,
             std::function<void(absl::StatusOr<Reply>)> done);
  // The same change, of a shard of level 1.
  void MakeAtLevelOne(ShardId shard, const std::string& address, const v1::Change& change,
                      const ChangeDone& done);
  template <class Request, class Reply>
  void Begin(std::shared_ptr<Call<Request, Reply>> call);
  std::shared_ptr<v1::ShardControl::Stub> StubFor(ShardId shard, const std::string& address);
  // False: no call may begin any more.
  bool Enter(grpc::ClientContext* context);
  void Leave(grpc::ClientContext* context);

  CoreHost& host_;
  // Guards the members below. A standard-library lock for ThreadSanitizer's sake (see core_host.h).
  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<ShardId, Connection> connections_;
  std::set<grpc::ClientContext*> under_way_;
  bool down_ = false;
};

}  // namespace paceline::coordinator
