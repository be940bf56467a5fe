#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "libs/base/text.h"

namespace paceline::rpc {

// The same code and message in the other library's type; the codes are numbered alike. Messages are escaped
// both ways: they may repeat what a stranger said.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), Escaped(status.message())};
}
inline absl::Status FromGrpc(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), Escaped(status.error_message())};
}

}  // namespace paceline::rpc
