#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

// How many replicas a StatefulSet is to have, by the Kubernetes API.
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

}  // namespace paceline::coordinator
