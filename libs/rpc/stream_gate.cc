#include "libs/rpc/stream_gate.h"

#include "absl/strings/str_cat.h"

namespace paceline::rpc {
namespace {

constexpr std::chrono::seconds kSecond{1};

absl::Status TooMany(absl::string_view what, int64_t most) {
  return absl::ResourceExhaustedError(
      absl::StrCat("streams: ", what, " than ", most, "; end some, or use fewer"));
}

}  // namespace

StreamGate::Verdict StreamGate::Begin(const std::string& peer, Time now) {
  MutexLock lock(&mutex_);
  ForgetOld(now);
  Connection& connection = connections_[peer];
  if (now - connection.since >= kSecond) {
    connection.since = now;
    connection.begun = 0;
  }
  ++connection.begun;
  ++connection.open;
  ++open_;
  if (connection.begun > limits_.begun_in_a_second) {
    const bool first = !connection.cut;
    connection.cut = true;
    return {TooMany("one connection begins more in a second", limits_.begun_in_a_second), first};
  }
  if (connection.open > limits_.of_one_connection) {
    return {TooMany("one connection has more", limits_.of_one_connection), false};
  }
  if (open_ > limits_.all) return {TooMany("all clients have more", limits_.all), false};
  return {absl::OkStatus(), false};
}

void StreamGate::End(const std::string& peer) {
  MutexLock lock(&mutex_);
  --open_;
  const auto it = connections_.find(peer);
  if (it != connections_.end()) --it->second.open;
}

void StreamGate::ForgetOld(Time now) {
  if (now - forgot_ < kSecond) return;
  forgot_ = now;
  std::erase_if(connections_, [now](const auto& entry) {
    return entry.second.open == 0 && now - entry.second.since >= kSecond;
  });
}

}  // namespace paceline::rpc
