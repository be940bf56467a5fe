#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "paceline/v1/coordinator.grpc.pb.h"

namespace paceline::tool {

// A cluster's coordinator, asked from outside.
class Coordinator {
 public:
  explicit Coordinator(const std::string& address);

  const std::string& address() const { return address_; }
  // UNAVAILABLE at once if nobody listens there; DEADLINE_EXCEEDED if no answer came in time.
  absl::StatusOr<v1::StatusReply> Status(absl::Duration timeout);

 private:
  const std::string address_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
};

}  // namespace paceline::tool
