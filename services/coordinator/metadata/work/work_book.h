#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/wire/work_items.h"
#include "metadata/records.pb.h"
#include "paceline/v1/coordinator.pb.h"

// The book of one work queue: which items nobody has, which a session has, and what became of those that came
// back. Pure values and functions: WorkQueues (work_queues.h) works on copies, and keeps them once the store
// has them.
namespace paceline::coordinator {

// All that one session holds of one queue.
struct WorkHeld {
  static constexpr size_t kItemsMax = 256;

  uint64_t report = 0;  // the newest that counts
  std::map<uint64_t, wire::HeldItem> items;

  size_t NotBegun() const {
    return static_cast<size_t>(
        std::count_if(items.begin(), items.end(), [](const auto& item) { return !item.second.begun; }));
  }
};

// The report of a session. Its lists are checked: items exist, marks lie within them.
struct WorkReport {
  std::map<uint64_t, uint64_t> begun = {};  // marks by item
  std::vector<uint64_t> done = {};
  std::vector<uint64_t> given_back = {};
};
absl::StatusOr<WorkReport> ReportOf(const v1::WorkSpec& spec, const v1::ReportWorkRequest& request);

class WorkBook {
 public:
  // Items that are handed out and not done, or come back, of one queue.
  static constexpr size_t kOutstandingMax = 65536;

  explicit WorkBook(const WorkQueueRecord& record);

  // The record's changing fields.
  void WriteTo(WorkQueueRecord& record) const;

  // What of a report changes who has which item, and what it merely tells.
  struct Taken {
    bool moved = false;
    bool told = false;
  };
  // Takes the report of the session that holds `held`. What it names and does not hold is none of its
  // business any more, and is passed over.
  Taken Take(const WorkReport& report, WorkHeld& held);

  // Hands out until the session has `ahead` items that are not begun, if there are as many. Towards the end
  // each of `sessions` gets its share of half of what is left, so that all end at about the same time (guided
  // self-scheduling, Polychronopoulos and Kuck 1987). Items that came back go first. `outstanding`: items of
  // the queue that all sessions hold; `oldest`: the first of these, UINT64_MAX if they hold none. Where
  // passes are in order nothing is handed out beyond the pass that begins with the first item that is not
  // done. Returns the number of items handed out.
  size_t HandOut(uint64_t ahead, size_t sessions, size_t outstanding, WorkHeld& held,
                 uint64_t oldest = UINT64_MAX);

  // The session is closed in every segment: none of its updates arrives any more. All that it held comes
  // back. It may have begun what it did not report.
  void Reclaim(const WorkHeld& held);

  const v1::WorkSpec& spec() const { return spec_; }
  // Items that nobody has.
  uint64_t ToHandOut() const { return free_.size() + (wire::ItemsOf(spec_) - next_); }
  uint64_t examples_done() const { return examples_done_; }
  uint64_t again_begun() const { return again_begun_; }
  uint64_t again_perhaps() const { return again_perhaps_; }
  uint64_t items_again() const { return items_again_; }

 private:
  // The first item that may not be handed out yet.
  uint64_t Limit(uint64_t oldest_held) const;
  void Finish(uint64_t item);
  void ComeBack(uint64_t item, const wire::HeldItem& held, uint64_t& counter);

  v1::WorkSpec spec_;
  uint64_t next_ = 0;                  // the first item that was never handed out
  std::map<uint64_t, uint64_t> free_;  // marks of earlier items that nobody has
  uint64_t examples_done_ = 0;
  uint64_t again_begun_ = 0;
  uint64_t again_perhaps_ = 0;
  uint64_t items_again_ = 0;
};

}  // namespace paceline::coordinator
