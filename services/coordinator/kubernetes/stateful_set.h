#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/world/task_thread.h"
#include "services/coordinator/core_host.h"
#include "services/coordinator/metadata/placement/wanted_shards.h"

namespace paceline::coordinator {

// Where the Kubernetes API is, and as whom it is asked.
struct KubernetesApi {
  std::string address;      // https://HOST:PORT
  std::string account_dir;  // with the files token and ca.crt; the token is read anew for each call
};

// As a pod finds it: by KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. kFailedPrecondition: they are
// not set.
absl::StatusOr<KubernetesApi> ApiOfPod(const std::string& account_dir);

// The number of replicas that the scale of a StatefulSet wants. Blocks, five seconds at most. The error says
// what is wrong and what to do; kPermissionDenied: the service account lacks the right.
absl::StatusOr<uint32_t> ReadScale(const KubernetesApi& api, const std::string& space,
                                   const std::string& name);

// What an answer of the API server of that HTTP status means.
absl::StatusOr<uint32_t> ReplicasOf(long http_status, const std::string& body, const std::string& space,
                                    const std::string& name);

// Reads the scale on a thread of its own. Thread-safe.
class StatefulSet final : public WantedShards {
 public:
  // `host` must outlive this object.
  StatefulSet(CoreHost& host, KubernetesApi api, std::string space, std::string name)
      : host_(host), api_(std::move(api)), space_(std::move(space)), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  void Read(std::function<void(absl::StatusOr<uint32_t>)> done) override;
  // Returns when the call under way has ended; begins no other.
  void Stop() { thread_.Stop(); }

 private:
  CoreHost& host_;
  const KubernetesApi api_;
  const std::string space_;
  const std::string name_;
  world::TaskThread thread_;
};

}  // namespace paceline::coordinator
