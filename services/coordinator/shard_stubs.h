#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "paceline/v1/control.grpc.pb.h"
#include "services/coordinator/core_host.h"
#include "services/coordinator/metadata/shard_caller.h"

namespace paceline::coordinator {

// Calls shards by gRPC: one connection a shard, two seconds a call. Answers come as visits of the core.
class ShardStubs final : public ShardCaller {
 public:
  // `host` must outlive the stubs.
  explicit ShardStubs(CoreHost& host) : host_(host) {}
  // Calls Shutdown.
  ~ShardStubs() override;

  // From within a visit of the core.
  void Install(ShardId shard, const std::string& address, v1::InstallRequest request,
               InstallDone done) override;
  void ChangeSession(ShardId shard, const std::string& address, v1::SessionChange change,
                     ChangeDone done) override;

  // Cancels what is under way, waits until all of it has been answered, and answers new calls UNAVAILABLE.
  void Shutdown();

 private:
  struct Connection {
    std::string address;
    std::shared_ptr<v1::ShardControl::Stub> stub;
  };
  template <class Request, class Reply>
  struct Call;

  template <class Request, class Reply>
  void Begin(std::shared_ptr<Call<Request, Reply>> call);
  std::shared_ptr<v1::ShardControl::Stub> StubFor(ShardId shard, const std::string& address)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // False: no call may begin any more.
  bool Enter(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave(grpc::ClientContext* context) ABSL_LOCKS_EXCLUDED(mutex_);

  CoreHost& host_;
  absl::Mutex mutex_;
  std::map<ShardId, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::set<grpc::ClientContext*> under_way_ ABSL_GUARDED_BY(mutex_);
  bool down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace paceline::coordinator
