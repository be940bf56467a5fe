#include "tests/sim/work_truth.h"

#include "absl/strings/str_cat.h"

namespace paceline::sim {

v1::WorkSpec WorkTruth::Spec() {
  v1::WorkSpec spec;
  spec.set_examples(104);
  spec.set_per_item(5);
  spec.set_passes(2);
  return spec;
}

v1::WorkSpec WorkTruth::SpecInOrder() const {
  v1::WorkSpec spec = Spec();
  spec.set_passes_in_order(in_order_);
  return spec;
}

bool WorkTruth::Logged(const Trained& trained) {
  const TrueSession* session = truth_.Find(trained.session);
  if (session == nullptr) return false;
  for (const auto& [where, parts] : session->parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].push != trained.push) continue;
      return invariants_.ledger(SegmentId(where.first)).Applied(trained.session, where.second) > i;
    }
  }
  return false;
}

uint64_t WorkTruth::TimesLogged(uint64_t pass, uint64_t example) {
  uint64_t times = 0;
  for (const Trained& trained : trained_[{pass, example}]) times += Logged(trained) ? 1 : 0;
  return times;
}

bool WorkTruth::ClosedEverywhere(SessionId session) const {
  for (uint32_t s = 0; s < invariants_.segments(); ++s) {
    const auto& sessions = invariants_.ledger(SegmentId(s)).sessions;
    const auto it = sessions.find(session);
    if (it == sessions.end() || !it->second.closed) return false;
  }
  return true;
}

void WorkTruth::OnBegun(SessionId session, const WorkItem& item) {
  if (ClosedEverywhere(session)) {
    // A worker that was evicted during its pause wakes and begins what it still holds. No segment takes its
    // pushes any more, so that another session may have the item by now.
    marks_.Hit("an evicted session begins an item that it still held");
    return;
  }
  std::set<SessionId>& by = begun_[item.number];
  for (const SessionId before : by) {
    if (before == session || ClosedEverywhere(before)) continue;
    verdict_.Violated("Work",
                      absl::StrCat("session ", session.v, " begins item ", item.number, ", which session ",
                                   before.v, " has begun, and that is not closed everywhere"));
  }
  if (!by.empty()) marks_.Hit("work of an ended session is begun again");
  by = {session};
  CheckPassBefore(item);
  const uint64_t first = item.begin - item.begin % Spec().per_item();
  if (item.begin > first) marks_.Hit("an item is begun from its mark on");
  for (uint64_t example = first; example < item.begin; ++example) {
    if (TimesLogged(item.pass, example) > 0) continue;
    verdict_.Violated(
        "Work", absl::StrCat("item ", item.number, " is handed out from example ", item.begin, " of pass ",
                             item.pass, " on, but the update of example ", example, " is in no log"));
  }
}

void WorkTruth::CheckPassBefore(const WorkItem& item) {
  if (!in_order_ || item.pass == 0) return;
  for (uint64_t example = item.begin; example < item.end; ++example) {
    if (TimesLogged(item.pass - 1, example) > 0) continue;
    verdict_.Violated("Work", absl::StrCat("passes are in order, and item ", item.number, " of pass ",
                                           item.pass, " is begun, but the update of example ", example,
                                           " of the pass before is in no log"));
    return;
  }
  marks_.Hit("an item is begun after that of the pass before");
}

void WorkTruth::OnTrained(SessionId session, const WorkItem& item, uint64_t example, uint64_t push) {
  trained_[{item.pass, example}].push_back({.session = session, .push = push});
}

void WorkTruth::OnGivenBack(SessionId session) {
  for (auto& [item, by] : begun_) by.erase(session);
}

void WorkTruth::OnComplete() {
  for (uint64_t pass = 0; pass < Spec().passes(); ++pass) {
    for (uint64_t example = 0; example < Spec().examples(); ++example) {
      if (TimesLogged(pass, example) > 0) continue;
      verdict_.Violated("Work", absl::StrCat("the queue is complete, but the update of example ", example,
                                             " of pass ", pass, " is in no log"));
    }
  }
}

void WorkTruth::Check(const v1::WorkStatus& status) {
  OnComplete();
  uint64_t beyond_once = 0;
  for (const auto& [where, all] : trained_) {
    const uint64_t times = TimesLogged(where.first, where.second);
    beyond_once += times > 0 ? times - 1 : 0;
  }
  if (beyond_once > 0) marks_.Hit("an example is trained twice");
  const uint64_t all = Spec().examples() * Spec().passes();
  if (status.examples_done() == all && beyond_once <= status.again_begun() + status.again_perhaps()) return;
  verdict_.Violated("Work", absl::StrCat(status.examples_done(), " of ", all, " examples are done; ",
                                         beyond_once, " were trained once more, counted are ",
                                         status.again_begun(), " + ", status.again_perhaps()));
}

}  // namespace paceline::sim
