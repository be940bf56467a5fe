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
#include "libs/world/system_random.h"
#include "paceline/client.h"

namespace paceline {
namespace {

// Names the job by its id, if there is one of this name. False: this coordinator does not know.
bool LookUp(v1::Coordinator::Stub& coordinator, absl::Duration timeout, v1::DeleteJobRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(rpc::After(timeout));
  v1::StatusReply status;
  if (!coordinator.Status(&context, v1::StatusRequest(), &status).ok() || status.standby()) return false;
  for (const v1::JobStatus& one : status.jobs()) {
    // The last: a load, if there is one, not the job that it replaces.
    if (one.name() == request.job()) request.set_job_id(one.job());
  }
  return true;
}

}  // namespace

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
  request.set_nonce(world::SystemRandom().Next());
  request.set_force(options.force);
  bool looked_up = false;  // once only: a later job of the name is another one
  while (true) {
    const absl::Duration left = deadline - world::MonotonicNow();
    request.set_timeout_ms(
        static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 1, 600'000)));
    grpc::ClientContext context;
    context.set_deadline(rpc::After(left));
    v1::DeleteJobReply reply;
    const auto one = coordinators.Current();
    if (!looked_up) looked_up = LookUp(*one->stub, left, request);
    const absl::Status status =
        coordinators.Heard(*one, one->stub->DeleteJob(&context, request, &reply), context);
    if (!absl::IsUnavailable(status)) return status;
    constexpr absl::Duration kPause = absl::Milliseconds(200);
    if (world::MonotonicNow() + kPause >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("delete job '", job, "': ", status.message()));
    }
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(kPause));
  }
}

}  // namespace paceline
