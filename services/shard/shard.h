#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "libs/ring/segment_map.h"
#include "libs/world/clock.h"
#include "libs/world/port.h"
#include "paceline/v1/control.pb.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/shard/catalogue.h"
#include "services/shard/executor.h"
#include "services/shard/probe.h"
#include "services/shard/segment_host.h"

namespace paceline::shard {

struct ShardOptions {
  std::string name = "shard";
  int executors = 2;  // segments are dealt to them round robin; one a core is enough
  uint64_t memory_budget_bytes = uint64_t{4} << 30;  // of rows; a push beyond it is refused OVER_BUDGET
  uint64_t window_bytes = uint64_t{16} << 20;  // unreceived bytes a client may have under way on a stream
  uint64_t frame_bytes_max = uint64_t{8} << 20;
  uint64_t reply_bytes_max = uint64_t{64} << 20;  // replies waiting to be read, per pull stream
  absl::Duration pull_timeout_max = absl::Minutes(10);
};

// A shard: the segments it serves and the streams it serves them on. Everything but sockets, so that the
// simulator runs it whole. Thread-safe.
//
// A frame is taken apart on the thread that brings it, and its parts are handed to the executors of their
// segments, in one task an executor; with nobody else at an executor the same thread goes on and applies
// them.
class Shard {
 public:
  using Visit = std::function<void(SegmentHost&)>;
  using Done = absl::AnyInvocable<void()>;
  // Asked when a frame names a newer list of tables than this shard has; may be called from any thread.
  using WantCatalogue = std::function<void(CatalogueVersion)>;

  // `clock` and `probe` must outlive the shard and its streams.
  Shard(ShardOptions options, const world::Clock& clock, Probe& probe);

  // Which member of the cluster this is. Until then maps are kept but nothing is served.
  void Identify(ring::Member self);
  void OnWantCatalogue(WantCatalogue want);

  // -- ShardControl --
  // Takes what is newer. INVALID_ARGUMENT if the map or the tables break their rules; nothing changes then.
  absl::StatusOr<v1::InstallReply> Install(const v1::InstallRequest& request);
  // `done` runs once, maybe before this returns, with the segments whose record is committed now.
  void ChangeSession(const v1::SessionChange& change,
                     std::function<void(absl::StatusOr<v1::SessionChangeReply>)> done);

  // -- planned moves --
  // As SegmentHost's, on the segment's executor. REQUIRES: a map is installed. `done` runs once, maybe before
  // these return.
  void ReleaseSegment(SegmentId segment, std::shared_ptr<const ring::SegmentMap> map,
                      std::function<void(std::optional<log::Segment>)> done);
  void AdoptSegment(log::Segment state, std::shared_ptr<const ring::SegmentMap> map, Done done);

  // -- streams --
  std::shared_ptr<world::AcceptedStream> NewPushStream();
  std::shared_ptr<world::AcceptedStream> NewPullStream();

  // Ends reads whose deadline has come. Call every few tens of milliseconds.
  void OnTime();

  // How the shard is, for the coordinator and for people. `done` runs once, maybe before this returns.
  void Describe(std::function<void(v1::BeatRequest)> done);

  // Answers all parked reads UNAVAILABLE; new frames are refused UNAVAILABLE from now on.
  void Stop();

  // -- for the streams --
  // A consistent view of what rarely changes.
  struct View {
    ring::Member self;
    std::shared_ptr<const ring::SegmentMap> map;  // null before the first
    std::shared_ptr<const Catalogue> catalogue;
    bool stopping = false;
  };
  std::shared_ptr<const View> view() const ABSL_LOCKS_EXCLUDED(mutex_);
  const ShardOptions& options() const { return options_; }
  const world::Clock& clock() const { return clock_; }
  Probe& probe() { return probe_; }
  size_t ExecutorOf(SegmentId segment) const { return segment.v % executors_.size(); }
  Executor& executor(size_t index) { return *executors_[index]; }
  size_t executor_count() const { return executors_.size(); }
  // REQUIRES: on the executor of the segment, and a map is installed that contains it.
  SegmentHost& host(SegmentId segment) { return *hosts_[segment.v]; }
  // Runs visit for every segment on its executor, and done after the last.
  void ForEachSegment(Visit visit, Done done);
  void CatalogueWanted(CatalogueVersion version);
  void CountPulled(uint64_t rows) { rows_pulled_.fetch_add(rows, std::memory_order_relaxed); }

 private:
  class SharedBudget;

  // Changes a copy of the view and makes it the current one.
  std::shared_ptr<const View> Publish(const std::function<void(View&)>& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells every segment of the map, if the shard knows who it is.
  void Configure(const std::shared_ptr<const View>& view);

  const ShardOptions options_;
  const world::Clock& clock_;
  Probe& probe_;
  std::shared_ptr<SharedBudget> budget_;
  std::atomic<uint64_t> rows_pulled_{0};
  std::vector<std::unique_ptr<Executor>> executors_;
  // One a segment; sized once, by the first map, before any stream gets past its Hello.
  std::vector<std::unique_ptr<SegmentHost>> hosts_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  WantCatalogue want_catalogue_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline::shard
