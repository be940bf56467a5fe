#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "libs/base/feature_level.h"
#include "libs/base/mutex.h"
#include "libs/ring/segment_map.h"
#include "libs/world/clock.h"
#include "services/shard/control/catalogue.h"
#include "services/shard/control/known_sessions.h"
#include "services/shard/disk/disk.h"
#include "services/shard/executor.h"
#include "services/shard/probe.h"
#include "services/shard/segment/segment_host.h"
#include "services/shard/streams/key_list_room.h"
#include "services/shard/streams/reply_budget.h"
#include "services/shard/streams/stream_budget.h"

namespace paceline::shard {

// Of the process, in bytes.
struct ProcessMemory {
  uint64_t resident = 0;
  uint64_t allocator = 0;  // freed, and kept by malloc
};

struct ShardOptions {
  std::string name = "shard";
  uint64_t nonce = 0;  // of this start; 0: it says none
  int executors = 2;   // segments are dealt to them round robin; one a core is enough
  uint64_t memory_budget_bytes = uint64_t{4} << 30;  // of rows; a push beyond it is refused OVER_BUDGET
  // Of updates of aggregated tables that wait for their clock; a push beyond it is refused OVER_BUDGET.
  uint64_t staging_budget_bytes = uint64_t{256} << 20;
  // What all clients together may push ahead of the executors, and one of them on a stream (stream_budget.h).
  uint64_t stream_bytes_max = uint64_t{64} << 20;
  uint64_t window_bytes = uint64_t{16} << 20;
  uint64_t frame_bytes_max = uint64_t{8} << 20;
  uint64_t reply_bytes_max = uint64_t{64} << 20;         // replies waiting to be read, per pull stream
  uint64_t all_replies_bytes_max = uint64_t{512} << 20;  // of all streams
  uint64_t key_lists_bytes_max = uint64_t{256} << 20;    // lists of keys that all streams keep for filters
  // Rows of each table whose last change a segment keeps, for readers that ask what has changed, or
  // subscribe.
  size_t changes_max = log::ChangeLog::kRowsMax;
  absl::Duration pull_timeout_max = absl::Minutes(10);
  absl::Duration hello_timeout = absl::Seconds(10);   // a stream without a Hello for longer is ended
  absl::Duration unread_timeout = absl::Seconds(10);  // so is one whose replies are not read when many wait
  // An acknowledged part is on the disk of every member that the primary waits for. REQUIRES: a disk.
  bool durable = false;
  // The pace at which the shard writes bases to its disk, if it has one.
  SegmentDisk::Pace disk_pace = {};
  // So much of an image may be under way to a learner.
  log::Replicas::ImagePace image_pace = {};
  // Bytes of images a second that it sends to all learners together; 0: as many as they take.
  uint64_t move_bytes_per_s = 0;
  // Starts a thread that continues where others end their turn at an executor, and that shares large work.
  // False: the thread that brings work runs the executor dry.
  bool helper_thread = false;
  // Tells the memory of the process, for people; nullptr: it is not known. Any thread may call it.
  std::function<ProcessMemory()> process_memory = nullptr;
};

// A consistent view of the state that rarely changes. Plain value.
struct View {
  ring::Member self;
  uint64_t cluster = 0;                         // 0: not known
  uint32_t coordinators_level = kFeatureLevel;  // when this shard joined
  std::shared_ptr<const ring::SegmentMap> map;  // null before the first
  std::shared_ptr<const Catalogue> catalogue = std::make_shared<const Catalogue>();
  bool stopping = false;
  bool takes_copies = true;  // of segments that this shard does not follow yet
  bool emptied = false;      // the folder has no owner any more
  uint64_t term = 0;         // 0: not known

  // 0 and 0 before the first map.
  MapVersion map_version() const { return map == nullptr ? MapVersion() : map->version(); }
  size_t segments() const { return map == nullptr ? 0 : map->SegmentCount(); }
};

// The part of a shard that its streams, links and snapshots use: the segments and their executors, the view
// of the cluster, and the limits that all streams share. The shard owns it. Thread-safe.
//
// More than 15 members: it is what all parts of a shard share, one member each.
class Context {
 public:
  using Visit = std::function<void(SegmentHost&)>;
  using Done = absl::AnyInvocable<void()>;
  // A stream asks when a frame names a newer list of tables than this shard has. False: the coordinator has
  // no such version either, as far as it is known here. Any thread may call it, even once just after it was
  // replaced.
  using WantCatalogue = std::function<bool(CatalogueVersion)>;

  // `clock`, `probe` and `disk` must outlive it. Without a disk nothing is written to one.
  Context(ShardOptions options, const world::Clock& clock, Probe& probe, Disk* disk = nullptr);
  // Waits until the helper has run its tasks, and ends the segments. REQUIRES: no task follows.
  void End();

  const ShardOptions& options() const { return options_; }
  const world::Clock& clock() const { return clock_; }
  Probe& probe() { return probe_; }
  Disk* disk() const { return disk_; }  // nullptr: there is none

  std::shared_ptr<const View> view() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Changes a copy of the view, makes it the current one, and returns it.
  std::shared_ptr<const View> Publish(const std::function<void(View&)>& change) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWantCatalogue(WantCatalogue want) ABSL_LOCKS_EXCLUDED(mutex_);
  bool CatalogueWanted(CatalogueVersion version) ABSL_LOCKS_EXCLUDED(mutex_);

  // -- segments --
  // Segments get hosts when something happens to them here; a large ring has few that do. REQUIRES: a
  // view with the first map is published next.
  void MakeRing(size_t segments, const Surroundings& around);
  // Makes the host of a segment that the disk has. REQUIRES: as MakeRing, which was called before.
  SegmentHost& AddHost(SegmentId segment);
  // Makes the hosts of segments of which this shard is a member by the view, and has every host follow its
  // map. Then runs `done`. REQUIRES: there is a map, and the shard knows who it is.
  void Follow(const std::shared_ptr<const View>& view, Done done);
  // The segment is watched from now on. Makes its host, if there is none, by the map of the present view.
  // REQUIRES: on the executor of the segment, and a map is installed that contains it.
  SegmentHost& host(SegmentId segment) {
    if (hosts_[segment.v] == nullptr) MakeHost(segment);
    if (is_watched_[segment.v] == 0) {
      is_watched_[segment.v] = 1;
      watched_[ExecutorOf(segment)].push_back(segment);
      VisitSoon();
    }
    return *hosts_[segment.v];
  }
  size_t ExecutorOf(SegmentId segment) const { return segment.v % executors_.size(); }
  Executor& executor(SegmentId segment) { return *executors_[ExecutorOf(segment)]; }
  const std::vector<std::unique_ptr<Executor>>& executors() const { return executors_; }
  // Runs `visit` for every segment that has a host, on its executor, and `done` after the last.
  void ForEachSegment(Visit visit, Done done);
  // The same for every segment of the ring; nullptr: it has no host.
  void ForEachOnRing(std::function<void(SegmentId, SegmentHost*)> visit, Done done);
  // Lets time pass for the segments that are watched, and no longer watches those that want no more visits.
  // Then runs `done`.
  void OnTime(absl::Time now, Done done);
  // True if OnTime is due: a beat has come, or a visit is wanted soon. Ask several times a beat, from one
  // thread.
  bool TakeDue();
  // At the next question whether OnTime is due it is. Any thread.
  void VisitSoon() { visit_soon_ = true; }
  // Runs `work` on every executor, with its number, and `done` after the last.
  void OnEachExecutor(std::function<void(size_t executor)> work, Done done);
  // Deals `items` to the executors of their segments; each that gets any runs `work` with them. Drops items
  // of segments that are not on the ring. `bytes`: what the work reads and writes in all. From kShareFrom to
  // kShareTo of them the helper does a share at the same time. REQUIRES: a map is installed.
  template <class Items, class SegmentOf, class Work>
  void Deal(Items&& items, const SegmentOf& segment_of, const Work& work, uint64_t bytes = 0) {
    using Item = std::remove_cvref_t<decltype(*items.begin())>;
    std::vector<std::vector<Item>> dealt(executors_.size());
    for (auto&& item : items) {
      const SegmentId segment = segment_of(item);
      if (segment.v < hosts_.size()) dealt[ExecutorOf(segment)].push_back(std::move(item));
    }
    size_t last = dealt.size();
    while (last > 0 && dealt[last - 1].empty()) --last;
    Executor* beside = nullptr;
    for (size_t e = 0; e < last; ++e) {
      if (dealt[e].empty()) continue;
      const bool share = beside == nullptr && bytes >= kShareFrom && bytes <= kShareTo && e + 1 < last;
      if (share) beside = executors_[e].get();
      const auto run = share ? &Executor::RunBeside : &Executor::Run;
      ((*executors_[e]).*run)([work = Work(work), mine = std::move(dealt[e])] { work(mine); });
    }
    if (beside != nullptr) beside->TakeBack();
  }

  // -- limits and counts of all streams together --
  KnownSessions& known_sessions() { return known_sessions_; }
  const KnownSessions& known_sessions() const { return known_sessions_; }
  ReplyBudget& replies() { return *replies_; }
  const ReplyBudget& replies() const { return *replies_; }
  KeyListRoom& key_lists() { return *key_lists_; }
  const KeyListRoom& key_lists() const { return *key_lists_; }
  StreamBudget& streams() { return streams_; }
  const StreamBudget& streams() const { return streams_; }
  // So much waits for a working disk that clients must slow down to its pace: they are granted nothing anew;
  // or, if they push on all the same, are not read.
  bool disk_slow() const { return Waits(kDiskSlow); }
  bool disk_far_behind() const { return Waits(kDiskFarBehind); }
  // Of a stream that tells clients of segments: larger than all before.
  uint64_t NewStreamId() { return stream_ids_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void CountPulled(uint64_t rows) { rows_pulled_.fetch_add(rows, std::memory_order_relaxed); }
  uint64_t rows_pulled() const { return rows_pulled_.load(std::memory_order_relaxed); }

 private:
  // Refusals report a disk that does not work, and the cause; nobody should wait for it.
  bool Waits(uint64_t bytes) const {
    return disk_ != nullptr && disk_->pending_bytes() > bytes && !disk_->health().bad();
  }
  // From kShareFrom on half the work takes longer than to wake another thread. A frame above kShareTo is
  // full, and others follow it, so that the cores have enough to do.
  static constexpr uint64_t kShareFrom = uint64_t{64} << 10;
  static constexpr uint64_t kShareTo = uint64_t{768} << 10;
  void MakeHost(SegmentId segment);
  // Hands the batch that a group of tasks has filled to the disk.
  void WriteGroup(size_t executor);

  const ShardOptions options_;
  const world::Clock& clock_;
  Probe& probe_;
  Disk* const disk_;
  KnownSessions known_sessions_;
  std::atomic<uint64_t> rows_pulled_{0};
  std::atomic<uint64_t> stream_ids_{0};
  StreamBudget streams_;
  const std::shared_ptr<ReplyBudget> replies_;
  const std::shared_ptr<KeyListRoom> key_lists_;
  mutable Mutex mutex_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_) = std::make_shared<const View>();
  WantCatalogue want_catalogue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<engine::Batch>> batches_;  // of each executor, for the disk
  std::vector<std::unique_ptr<Executor>> executors_;
  // One a segment, or null; sized once, by the first map, before any stream gets past its Hello.
  std::vector<std::unique_ptr<SegmentHost>> hosts_;
  Surroundings around_;                          // of hosts
  std::vector<uint8_t> has_followed_;            // by executor: its segments know a map
  std::vector<uint8_t> is_watched_;              // by segment
  std::vector<std::vector<SegmentId>> watched_;  // by executor
  std::atomic<bool> visit_soon_{false};          // a segment wants it
  absl::Time next_beat_ = absl::InfinitePast();
  std::unique_ptr<Helper> helper_;  // ends before what its tasks touch: last
};

}  // namespace paceline::shard
