// The client's reports of its waits.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/cpp/src/session/client_core.h"

namespace paceline::sdk {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);
// Shorter than users' patience; longer than most waits.
constexpr absl::Duration kParkMax = absl::Seconds(3);

}  // namespace

void ClientCore::Notice(std::function<void(const std::string& text)> say) {
  context_.notice = [this, say = std::move(say)](const std::string& text) {
    std::string whose = absl::StrCat("job '", context_.job_name, "'");
    if (context_.worker) absl::StrAppend(&whose, ", worker ", context_.rank);
    context_.deferred.Run([say, line = absl::StrCat(whose, ": ", text)] { say(line); });
  };
  context_.park_max = kParkMax;
  LookAtWaits();
}

void ClientCore::LookAtWaits() {
  context_.timers.At(context_.Now() + kLookEvery, [this] {
    std::vector<Waiting> waits;
    if (auto pull = puller_.Waits()) waits.push_back(*std::move(pull));
    if (auto push = pusher_.Waits()) waits.push_back(*std::move(push));
    if (auto push = bounds_.Waits()) waits.push_back(*std::move(push));
    for (const auto& [queue, work] : work_) {
      if (auto item = work->Waits()) waits.push_back(*std::move(item));
    }
    for (const auto& [who, asked] : context_.asked) {
      const std::string why = asked.last_answer.empty() ? "" : absl::StrCat(": ", asked.last_answer);
      waits.push_back({.what = asked.what, .since = asked.since, .whom = absl::StrCat("its answer", why)});
    }
    for (const std::string& text : wait_reports_.Due(context_.Now(), waits)) context_.notice(text);
    LookAtWaits();
  });
}

}  // namespace paceline::sdk
