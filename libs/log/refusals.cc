#include "libs/log/refusals.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace paceline::log {

v1::Refusal RefusalOf(v1::Refusal::Reason reason, SegmentId segment, absl::string_view message) {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_segment(segment.v);
  refusal.set_message(std::string(message));
  return refusal;
}

std::string DescribeSlowest(const Segment& segment, JobId job) {
  const auto it = segment.jobs().find(job);
  const auto slowest = it == segment.jobs().end() ? std::nullopt : it->second.Slowest();
  if (!slowest.has_value()) return "a worker: none has joined the job";
  const clock::JobClock::Worker& worker = it->second.workers().at(*slowest);
  return absl::StrCat("worker ", worker.rank, " (session ", slowest->v, ") at clock ", worker.counted);
}

std::optional<uint32_t> RankOfSlowest(const Segment& segment, JobId job) {
  const auto it = segment.jobs().find(job);
  const auto slowest = it == segment.jobs().end() ? std::nullopt : it->second.Slowest();
  if (!slowest.has_value()) return std::nullopt;
  return it->second.workers().at(*slowest).rank;
}

}  // namespace paceline::log
