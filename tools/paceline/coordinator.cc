#include "tools/paceline/coordinator.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/rpc/deadline.h"
#include "libs/rpc/status.h"
#include "libs/world/real_clock.h"
#include "tools/paceline/defaults.h"

namespace paceline::tool {

namespace {

// Between two tries, while the coordinators agree on who leads.
constexpr absl::Duration kPause = absl::Milliseconds(200);

}  // namespace

Coordinator::Coordinator(const std::string& addresses) : coordinators_(addresses) {}

absl::StatusOr<v1::StatusReply> Coordinator::StatusOf(const rpc::Coordinators::One& one,
                                                      absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(rpc::After(timeout));
  v1::StatusReply reply;
  const grpc::Status status = one.stub->Status(&context, v1::StatusRequest(), &reply);
  if (!status.ok()) return rpc::FromGrpc(status, one.address);
  return reply;
}

absl::StatusOr<v1::StatusReply> Coordinator::Status(absl::Duration timeout) {
  std::vector<absl::StatusOr<v1::StatusReply>> replies(coordinators_.size());
  std::vector<std::thread> askers;
  for (size_t i = 0; i < replies.size(); ++i) {
    askers.emplace_back([&, i] { replies[i] = StatusOf(*coordinators_.listed()[i], timeout); });
  }
  for (std::thread& asker : askers) asker.join();
  // The best there is: of who leads, of who stands by, why there is none.
  const auto worth = [](const auto& reply) { return !reply.ok() ? 0 : reply->standby() ? 1 : 2; };
  absl::StatusOr<v1::StatusReply> best = *std::ranges::max_element(replies, {}, worth);
  if (!best.ok()) return best;
  if (best->standby() && !best->leader().empty()) {
    const rpc::Coordinators named(best->leader());
    auto of_leader = StatusOf(*named.Current(), timeout);
    if (of_leader.ok() && !of_leader->standby()) best = std::move(of_leader);
  }
  if (replies.size() == 1) return best;
  for (size_t i = 0; i < replies.size(); ++i) {
    const std::string& address = coordinators_.listed()[i]->address;
    if (!replies[i].ok()) {
      best->add_problems(absl::StrCat("the coordinator at ", address, " does not answer (",
                                      replies[i].status().message(), "); start it again"));
    } else if (replies[i]->standby() && !best->standby()) {
      for (const std::string& problem : replies[i]->problems()) {
        best->add_problems(absl::StrCat("the coordinator at ", address, " stands by: ", problem));
      }
    }
  }
  return best;
}

absl::StatusOr<v1::Map> Coordinator::Map(absl::Duration timeout) {
  const absl::Time deadline = world::MonotonicNow() + timeout;
  while (true) {
    const auto one = coordinators_.Current();
    grpc::ClientContext context;
    context.set_deadline(rpc::After(deadline - world::MonotonicNow()));
    v1::Map map;
    const auto watch = one->stub->WatchMap(&context, v1::WatchMapRequest());
    const bool read = watch->Read(&map);
    context.TryCancel();
    const grpc::Status ended = watch->Finish();
    if (read) return map;
    const absl::Status heard = coordinators_.Heard(*one, ended, context);
    if (coordinators_.size() == 1 || !absl::IsUnavailable(heard) ||
        world::MonotonicNow() + kPause >= deadline)
      return heard;
    absl::SleepFor(kPause);
  }
}

absl::Status Coordinator::Repeat(
    absl::FunctionRef<grpc::Status(v1::Coordinator::Stub& stub, grpc::ClientContext& context,
                                   absl::Duration left)>
        ask,
    absl::Duration timeout) {
  const absl::Time deadline = world::MonotonicNow() + timeout;
  while (true) {
    const auto one = coordinators_.Current();
    const absl::Duration left = deadline - world::MonotonicNow();
    grpc::ClientContext context;
    context.set_deadline(rpc::After(left + absl::Seconds(2)));
    const absl::Status heard = coordinators_.Heard(*one, ask(*one->stub, context, left), context);
    if (heard.ok()) return heard;
    // The coordinator that leads has answered; another one may lead by now.
    const bool elsewhere = coordinators_.Current() != one;
    if (!elsewhere || !absl::IsUnavailable(heard) || world::MonotonicNow() + kPause >= deadline) return heard;
    absl::SleepFor(kPause);
  }
}

std::string WhyNot(const absl::Status& status, const std::string& coordinator) {
  if (absl::IsUnavailable(status)) {
    return absl::StrCat("no coordinator answers at ", coordinator, " (", status.message(),
                        "); name another with --coordinator or ", kCoordinatorVariable,
                        ", or start a cluster with `paceline up`");
  }
  return absl::StrCat(coordinator, " answers: ", status.message());
}

void AddCoordinatorOption(CLI::App& command, std::string& coordinator) {
  coordinator = absl::StrCat("127.0.0.1:", kCoordinatorPort);
  command
      .add_option("--coordinator", coordinator, "The cluster's coordinator; several are separated by commas")
      ->type_name("HOST:PORT")
      ->envname(kCoordinatorVariable)
      ->capture_default_str();
}

}  // namespace paceline::tool
