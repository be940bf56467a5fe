#include "libs/rpc/coordinators.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/text.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/leadership.h"
#include "libs/rpc/status.h"
#include "libs/world/real_clock.h"

namespace paceline::rpc {
namespace {

// A failure of another coordinator is mentioned for this long.
constexpr absl::Duration kCauseAge = absl::Seconds(30);

// False if the address states no port: gRPC would try a port that nobody serves until the deadline.
bool IsAddress(absl::string_view address) {
  if (address.find("://") != absl::string_view::npos || address.substr(0, 5) == "unix:") return true;
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 && port <= 65535;
}

std::shared_ptr<const Coordinators::One> Open(const std::string& address) {
  return std::make_shared<const Coordinators::One>(
      Coordinators::One{.address = address,
                        .stub = v1::Coordinator::NewStub(grpc::CreateCustomChannel(
                            address, grpc::InsecureChannelCredentials(), ControlPlaneArguments()))});
}

std::string Text(const grpc::string_ref& ref) {
  return {ref.data(), ref.size()};
}

}  // namespace

std::optional<Leadership> LeadershipIn(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto leadership = metadata.find(kLeadershipKey);
  if (leadership == metadata.end()) return std::nullopt;
  const auto leader = metadata.find(kLeaderKey);
  Leadership said{.leads = leadership->second == "leads",
                  .leader = leader == metadata.end() ? "" : Text(leader->second)};
  // Anything but an address is dropped: gRPC might take it for a path or another scheme.
  if (!CheckAddress(kLeaderKey, said.leader).ok()) said.leader.clear();
  return said;
}

absl::Status CheckCoordinators(absl::string_view addresses) {
  for (const absl::string_view address : absl::StrSplit(addresses, ',')) {
    if (IsAddress(address)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator: '", address,
                     "'; expected host:port, as localhost:7070, or several separated by commas"));
  }
  return absl::OkStatus();
}

Coordinators::Coordinators(absl::string_view addresses) : addresses_(addresses) {
  for (const absl::string_view address : absl::StrSplit(addresses, ',')) {
    listed_.push_back(Open(std::string(address)));
  }
  current_ = listed_[0];
}

std::shared_ptr<const Coordinators::One> Coordinators::Current() const {
  const MutexLock lock(&mutex_);
  return current_;
}

absl::Status Coordinators::Heard(const One& asked, const grpc::Status& status,
                                 const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  const absl::Status plain = FromGrpc(status, asked.address);
  // A coordinator's own errors stand for themselves; only errors of the connection need the address.
  if (!absl::IsUnavailable(plain) && !absl::IsDeadlineExceeded(plain)) return plain;
  std::string words = absl::StrCat("coordinator ", asked.address, ": ", plain.message());
  const std::optional<Leadership> leadership = LeadershipIn(context);
  const bool leads = leadership.has_value() && leadership->leads;
  const bool stands_by = leadership.has_value() && !leadership->leads;
  if (!leads) MoveOn(asked, stands_by ? leadership->leader : "");
  const MutexLock lock(&mutex_);
  if (stands_by && world::MonotonicNow() - last_cause_at_ < kCauseAge) {
    absl::StrAppend(&words, " (before it, ", last_cause_, ")");
  } else if (!stands_by) {
    last_cause_ = words;
    last_cause_at_ = world::MonotonicNow();
  }
  return {plain.code(), words};
}

void Coordinators::MoveOn(const One& from, const std::string& leader) {
  const MutexLock lock(&mutex_);
  if (current_.get() != &from) return;  // another call has already moved on
  if (!leader.empty() && leader != from.address) {
    const auto found = std::ranges::find_if(listed_, [&](const auto& one) { return one->address == leader; });
    current_ = found != listed_.end() ? *found : Open(leader);
    return;
  }
  next_ = (next_ + 1) % listed_.size();
  if (listed_[next_].get() == &from) next_ = (next_ + 1) % listed_.size();
  current_ = listed_[next_];
}

}  // namespace paceline::rpc
