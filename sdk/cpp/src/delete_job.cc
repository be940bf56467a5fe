// Client::DeleteJob: one request to the coordinator, repeated until there is an answer.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/rpc/coordinators.h"
#include "libs/rpc/deadline.h"
#include "libs/world/real_clock.h"
#include "paceline/client.h"

namespace paceline {

absl::Status Client::DeleteJob(const std::string& coordinator, const std::string& job,
                               const DeleteJobOptions& options) {
  std::string address = coordinator;
  if (const char* named = std::getenv("PACELINE_COORDINATOR"); address.empty() && named != nullptr)
    address = named;
  if (address.empty()) {
    return absl::InvalidArgumentError("coordinator: empty, and PACELINE_COORDINATOR is not set; name one");
  }
  ABSL_RETURN_IF_ERROR(rpc::CheckCoordinators(address));
  rpc::Coordinators coordinators(address);
  const absl::Time deadline = world::MonotonicNow() + options.timeout;
  v1::DeleteJobRequest request;
  request.set_job(job);
  request.set_force(options.force);
  bool unanswered = false;
  while (true) {
    const absl::Duration left = deadline - world::MonotonicNow();
    request.set_timeout_ms(
        static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 1, 600'000)));
    grpc::ClientContext context;
    context.set_deadline(rpc::After(left));
    v1::DeleteJobReply reply;
    const auto one = coordinators.Current();
    const absl::Status status =
        coordinators.Heard(*one, one->stub->DeleteJob(&context, request, &reply), context);
    // The answer to an earlier request may have been lost.
    if (unanswered && absl::IsNotFound(status)) return absl::OkStatus();
    if (!absl::IsUnavailable(status)) return status;
    unanswered = true;
    constexpr absl::Duration kPause = absl::Milliseconds(200);
    if (world::MonotonicNow() + kPause >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("delete job '", job, "': ", status.message()));
    }
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(kPause));
  }
}

}  // namespace paceline
