#include "tools/paceline/restarts.h"

#include <algorithm>

namespace paceline::tool {
namespace {

constexpr BackoffPolicy kPauses{
    .initial = absl::Milliseconds(500), .max = absl::Seconds(30), .factor = 2, .jitter = 0};
constexpr absl::Duration kLived = absl::Minutes(1);

}  // namespace

absl::Duration Restarts::Ended(const std::string& name, absl::Time now) {
  Process& process =
      processes_.try_emplace(name, Process{.started = begun_, .pauses = Backoff(kPauses)}).first->second;
  if (now - process.started >= kLived) process.pauses.Reset();
  const absl::Duration pause = process.pauses.Next(/*random=*/0);
  process.due = now + pause;
  return pause;
}

absl::Time Restarts::Next() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [name, process] : processes_) next = std::min(next, process.due);
  return next;
}

std::optional<std::string> Restarts::Take(absl::Time now) {
  for (auto& [name, process] : processes_) {
    if (process.due > now) continue;
    process.due = absl::InfiniteFuture();
    process.started = now;
    return name;
  }
  return std::nullopt;
}

}  // namespace paceline::tool
