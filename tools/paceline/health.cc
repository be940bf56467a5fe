#include "tools/paceline/health.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/status.h"
#include "nlohmann/json.hpp"
#include "tools/paceline/say.h"

namespace paceline::tool {
namespace {

constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
constexpr size_t kNameMax = 127;  // whose length is one byte on the wire

// Debian's gRPC installs no messages of grpc.health.v1. HealthCheckRequest is {string service = 1},
// HealthCheckResponse {enum status = 1}, of which 1 is SERVING.
grpc::ByteBuffer RequestOf(const std::string& service) {
  std::string bytes;
  if (!service.empty())
    bytes = absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

bool Serves(const grpc::ByteBuffer& reply) {
  grpc::Slice slice;
  if (!reply.DumpToSingleSlice(&slice).ok()) return false;
  return slice.size() == 2 && slice.begin()[0] == 0x08 && slice.begin()[1] == 1;
}

// A server that has no descriptors left hangs up.
std::string Hint(absl::string_view message) {
  const bool hung_up =
      absl::StrContains(message, "Socket closed") || absl::StrContains(message, "Connection reset");
  return hung_up ? "; the server closed the connection: it may have no descriptors left, see its log" : "";
}

absl::Status Check(const HealthOptions& options) {
  if (options.service.size() > kNameMax) {
    return absl::InvalidArgumentError(absl::StrCat("--service: expected at most ", kNameMax, " characters"));
  }
  const auto channel = grpc::CreateChannel(options.address, grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(rpc::After(absl::Seconds(options.timeout_s)));
  const auto call = stub.PrepareUnaryCall(&context, kMethod, RequestOf(options.service), &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  if (!status.ok()) return rpc::FromGrpc(status, options.address);
  if (!Serves(reply)) return absl::UnavailableError("it does not serve now");
  return absl::OkStatus();
}

}  // namespace

CLI::App* AddHealth(CLI::App& app, HealthOptions& options) {
  CLI::App* health = app.add_subcommand("health", "Ask a coordinator or a shard whether it serves");
  health->add_option("ADDRESS", options.address, "HOST:PORT of its --listen")->required();
  health
      ->add_option("--service", options.service,
                   "`readiness`, of a shard: whether every segment has had all its copies since the shard "
                   "started; `connections`: whether it accepts them all, or has no descriptors left for some "
                   "(default: whether it answers at all)")
      ->type_name("NAME");
  health->add_option("--timeout", options.timeout_s, "How long to wait for the answer")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  health->add_flag("--json", options.json, "As JSON: address, service, serves, and message, why it does not");
  health->footer("Exits with 0 if it serves, with 1 otherwise.");
  return health;
}

int Health(const HealthOptions& options) {
  const absl::Status status = Check(options);
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"address", options.address},
        {"service", options.service},
        {"serves", status.ok()},
        {"message", status.ok() ? "" : absl::StrCat(status.message(), Hint(status.message()))}};
    const int printed =
        Print(json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    return status.ok() ? printed : 1;
  }
  if (status.ok()) return 0;
  const std::string what =
      options.service.empty() ? options.address : absl::StrCat(options.address, " (", options.service, ")");
  return Complain(absl::StrCat(what, ": ", status.message(), Hint(status.message())));
}

}  // namespace paceline::tool
