#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "libs/base/text.h"

namespace paceline::rpc {

// The same code and message in the other library's type; the codes have equal numbers. Messages are escaped
// both ways: they may contain text from outside.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), Escaped(status.message())};
}
// Where no connection was made gRPC wraps the system's error twice. This returns the system's error alone,
// and the address it concerns, unless that is the one that was `asked`: a name may resolve to several.
inline std::string PlainWords(absl::string_view words, absl::string_view asked) {
  const absl::string_view all = words;
  if (!absl::ConsumePrefix(&words, "failed to connect to all addresses; last error: "))
    return std::string(all);
  constexpr absl::string_view kWhy = ": Failed to connect to remote host: ";
  const size_t why = words.find(kWhy);
  const size_t address = words.find("ipv");
  if (why == words.npos || address == words.npos || address > why) return std::string(all);
  const absl::string_view peer = words.substr(address + 5, why - address - 5);  // after "ipv4:" or "ipv6:"
  const absl::string_view reason = words.substr(why + kWhy.size());
  return peer == asked ? std::string(reason) : absl::StrCat(reason, " (", peer, ")");
}
inline absl::Status FromGrpc(const grpc::Status& status, absl::string_view asked = "") {
  return {static_cast<absl::StatusCode>(status.error_code()),
          PlainWords(Escaped(status.error_message()), asked)};
}

}  // namespace paceline::rpc
