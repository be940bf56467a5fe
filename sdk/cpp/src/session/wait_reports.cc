#include "sdk/cpp/src/session/wait_reports.h"

#include "absl/strings/str_cat.h"

namespace paceline::sdk {
namespace {

constexpr absl::Duration kFirst = absl::Seconds(3);
constexpr absl::Duration kSecond = absl::Seconds(10);
constexpr absl::Duration kThenEvery = absl::Seconds(30);

absl::Time NextAfter(absl::Duration waited, absl::Time since, absl::Time now) {
  if (waited < kSecond) return since + kSecond;
  if (waited < kThenEvery) return since + kThenEvery;
  return now + kThenEvery;
}

}  // namespace

std::vector<std::string> WaitReports::Due(absl::Time now, const std::vector<Waiting>& waits) {
  std::vector<std::string> texts;
  std::map<std::pair<std::string, absl::Time>, absl::Time> next;
  for (const Waiting& waiting : waits) {
    const absl::Duration waited = now - waiting.since;
    if (waited < kFirst) continue;
    const std::pair key(waiting.what, waiting.since);
    const auto told = next_.find(key);
    if (told != next_.end() && now < told->second) {
      next.insert(*told);
      continue;
    }
    next[key] = NextAfter(waited, waiting.since, now);
    texts.push_back(absl::StrCat(waiting.what, " has waited ",
                                 absl::FormatDuration(absl::Floor(waited, absl::Seconds(1))), " for ",
                                 waiting.whom));
  }
  next_ = std::move(next);
  return texts;
}

}  // namespace paceline::sdk
