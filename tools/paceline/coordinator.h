#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "CLI/CLI.hpp"
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
  // Any other request, by the stub's function for it; asked again until a coordinator leads or the time is
  // up. DEADLINE_EXCEEDED names whom the request waits for; what it has begun goes on.
  template <class Request, class Reply>
  absl::StatusOr<Reply> Ask(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*,
                                                                          const Request&, Reply*),
                            Request request, absl::Duration timeout) {
    Reply reply;
    const absl::Status heard = Repeat(timeout, [&](auto& stub, auto* context, uint32_t left_ms) {
      if constexpr (requires { request.set_timeout_ms(0); }) request.set_timeout_ms(left_ms);
      reply.Clear();
      return (stub.*method)(context, request, &reply);
    });
    if (!heard.ok()) return heard;
    return reply;
  }

 private:
  // `call` is given how long the coordinator has for its answer.
  using Call = std::function<grpc::Status(v1::Coordinator::Stub&, grpc::ClientContext*, uint32_t left_ms)>;
  absl::Status Repeat(absl::Duration timeout, const Call& call);

  absl::StatusOr<v1::StatusReply> StatusOf(const rpc::Coordinators::One& one, absl::Duration timeout);

  rpc::Coordinators coordinators_;
};

// Explains to the user why a coordinator gave no answer, or this one.
std::string WhyNot(const absl::Status& status, const std::string& coordinator);

// Adds --coordinator, with its default and its environment variable.
void AddCoordinatorOption(CLI::App& command, std::string& coordinator);

}  // namespace paceline::tool
