#include "services/coordinator/metadata/work/work_book.h"

#include "libs/base/planted.h"
#include "libs/base/status.h"

namespace paceline::coordinator {
absl::StatusOr<WorkReport> ReportOf(const v1::WorkSpec& spec, const v1::ReportWorkRequest& request) {
  constexpr size_t kMost = WorkHeld::kItemsMax;
  ABSL_RETURN_IF_ERROR(wire::CheckItems(spec, "begun", request.begun(), kMost));
  ABSL_RETURN_IF_ERROR(wire::CheckItems(spec, "done", request.done(), kMost));
  ABSL_RETURN_IF_ERROR(wire::CheckItems(spec, "given_back", request.given_back(), kMost));
  WorkReport report;
  for (const auto& [item, held] : wire::FromItems(spec, request.begun())) report.begun[item] = held.mark;
  for (const auto& [item, held] : wire::FromItems(spec, request.done())) report.done.push_back(item);
  for (const auto& [item, held] : wire::FromItems(spec, request.given_back()))
    report.given_back.push_back(item);
  return report;
}

WorkBook::WorkBook(const WorkQueueRecord& record)
    : spec_(record.spec()),
      next_(record.next()),
      examples_done_(record.examples_done()),
      again_begun_(record.again_begun()),
      again_perhaps_(record.again_perhaps()),
      items_again_(record.items_again()) {
  for (const auto& [item, held] : wire::FromItems(spec_, record.free())) free_[item] = held.mark;
}

void WorkBook::WriteTo(WorkQueueRecord& record) const {
  std::map<uint64_t, wire::HeldItem> free;
  for (const auto& [item, mark] : free_) free[item] = {.mark = mark};
  record.set_next(next_);
  *record.mutable_free() = wire::ToItems(spec_, free);
  record.set_examples_done(examples_done_);
  record.set_again_begun(again_begun_);
  record.set_again_perhaps(again_perhaps_);
  record.set_items_again(items_again_);
}

// -- changes --

WorkBook::Taken WorkBook::Take(const WorkReport& report, WorkHeld& held) {
  Taken taken;
  for (const auto& [item, mark] : report.begun) {
    const auto it = held.items.find(item);
    if (it == held.items.end()) continue;
    const wire::HeldItem before = it->second;
    it->second = {.mark = std::max(before.mark, mark), .begun = true};
    taken.told |= !(it->second == before);
  }
  for (const uint64_t item : report.done) {
    if (held.items.erase(item) == 0) continue;
    Finish(item);
    taken.moved = true;
  }
  for (const uint64_t item : report.given_back) {
    const auto it = held.items.find(item);
    if (it == held.items.end()) continue;
    uint64_t none = 0;  // one that it has not begun is trained once
    ComeBack(item, it->second, it->second.begun ? again_begun_ : none);
    held.items.erase(it);
    taken.moved = true;
  }
  return taken;
}

uint64_t WorkBook::Limit(uint64_t oldest_held) const {
  const uint64_t all = wire::ItemsOf(spec_);
  if (!spec_.passes_in_order() || Planted(Bug::kWorkOutOfOrder)) return all;
  const uint64_t oldest_free = free_.empty() ? next_ : free_.begin()->first;
  const uint64_t not_done = std::min({oldest_held, oldest_free, next_});
  return std::max(next_, std::min(all, not_done + wire::ItemsOfPass(spec_)));
}

size_t WorkBook::HandOut(uint64_t ahead, size_t sessions, size_t outstanding, WorkHeld& held,
                         uint64_t oldest) {
  const uint64_t not_begun = held.NotBegun();
  if (ahead <= not_begun) return 0;
  const uint64_t limit = Limit(oldest);
  const uint64_t left = free_.size() + (limit - next_);
  const uint64_t share = std::max<uint64_t>(1, left / (2 * std::max<size_t>(1, sessions)));
  const uint64_t wanted = std::min({ahead - not_begun, share, WorkHeld::kItemsMax - held.items.size()});
  size_t given = 0;
  for (; given < wanted; ++given) {
    if (const auto first = free_.begin(); first != free_.end()) {
      held.items[first->first] = {.mark = first->second};
      free_.erase(first);
      continue;
    }
    if (next_ >= limit || outstanding + given >= kOutstandingMax) break;
    held.items[next_] = {.mark = wire::RangeOf(spec_, next_).begin};
    ++next_;
  }
  return given;
}

void WorkBook::Reclaim(const WorkHeld& held) {
  for (const auto& [item, of] : held.items) ComeBack(item, of, of.begun ? again_begun_ : again_perhaps_);
}

void WorkBook::Finish(uint64_t item) {
  const wire::WorkRange range = wire::RangeOf(spec_, item);
  examples_done_ += range.end - range.begin;
}

void WorkBook::ComeBack(uint64_t item, const wire::HeldItem& held, uint64_t& counter) {
  const uint64_t end = wire::RangeOf(spec_, item).end;
  if (held.mark == end) return Finish(item);  // only its end was not reported
  free_[item] = held.mark;
  const uint64_t before = again_begun_ + again_perhaps_;
  counter += end - held.mark;
  if (again_begun_ + again_perhaps_ != before) ++items_again_;
}

}  // namespace paceline::coordinator
