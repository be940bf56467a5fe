#pragma once

#include <algorithm>
#include <string>
#include <type_traits>

#include "CLI/CLI.hpp"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/rpc/coordinators.h"
#include "paceline/v1/coordinator.grpc.pb.h"

namespace paceline::tool {

// A client of the cluster's coordinator; if there are several, of the one that leads.
class Coordinator {
 public:
  // `addresses`: host:port, several separated by commas.
  explicit Coordinator(const std::string& addresses);

  const std::string& address() const { return coordinators_.addresses(); }
  // UNAVAILABLE at once if no process listens there; DEADLINE_EXCEEDED if no answer came in time. With
  // several coordinators: the leader's answer, with the problems of the others; if none leads, one's
  // explanation. Asks each of them, for at most `timeout`.
  absl::StatusOr<v1::StatusReply> Status(absl::Duration timeout);
  // The newest map.
  absl::StatusOr<v1::Map> Map(absl::Duration timeout);
  // Sends the request with this method of the stub, and repeats it until a coordinator leads or the time is
  // up. DEADLINE_EXCEEDED if not all shards have answered in time, naming those it waits for; a change goes
  // on. Repeat RemoveShard while it returns kAborted.
  template <class Request, class Reply>
  absl::StatusOr<Reply> Ask(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*,
                                                                          const Request&, Reply*),
                            std::type_identity_t<Request> request, absl::Duration timeout) {
    Reply reply;
    const auto ask = [&](v1::Coordinator::Stub& stub, grpc::ClientContext& context, absl::Duration left) {
      // The coordinator is given a little less than the call, so that its own words arrive.
      if constexpr (requires { request.set_timeout_ms(0); })
        request.set_timeout_ms(static_cast<uint32_t>(std::max<int64_t>(1, absl::ToInt64Milliseconds(left))));
      return (stub.*method)(&context, request, &reply);
    };
    if (absl::Status asked = Repeat(ask, timeout); !asked.ok()) return asked;
    return reply;
  }

 private:
  absl::Status Repeat(absl::FunctionRef<grpc::Status(v1::Coordinator::Stub& stub,
                                                     grpc::ClientContext& context, absl::Duration left)>
                          ask,
                      absl::Duration timeout);
  absl::StatusOr<v1::StatusReply> StatusOf(const rpc::Coordinators::One& one, absl::Duration timeout);

  rpc::Coordinators coordinators_;
};

// Explains to the user why a coordinator gave no answer, or this one.
std::string WhyNot(const absl::Status& status, const std::string& coordinator);

// Adds --coordinator, with its default and its environment variable.
void AddCoordinatorOption(CLI::App& command, std::string& coordinator);

}  // namespace paceline::tool
