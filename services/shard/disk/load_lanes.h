#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "libs/base/mutex.h"
#include "libs/engine/engine.h"

namespace paceline::shard {

// Passes the contents of an engine to several readers. One reader gets all of a segment, in order. Bases and
// pages it gets on the thread that brings them, which may be several, each with a segment of its own
// (Engine::LoadInParallel): a reader that gets more than one segment must allow that. Records come from one
// thread, which reads on while each reader takes them on a thread of its own: to apply records costs several
// times what it costs to read them. At most kWaitingMax bytes wait for each, beside as many that it has
// taken. After the first record nothing else may come.
class LoadLanes final : public engine::Reader {
 public:
  static constexpr size_t kWaitingMax = size_t{8} << 20;

  // The readers must outlive this.
  explicit LoadLanes(const std::vector<engine::Reader*>& readers);
  ~LoadLanes() override;

  // Return the error of a reader that had one, maybe in an earlier call; that reader gets nothing more.
  absl::Status OnBase(SegmentId segment, Lsn lsn, absl::string_view bytes) override;
  absl::Status OnPage(SegmentId segment, const engine::PageKey& key, absl::string_view bytes) override;
  absl::Status OnRecord(engine::LogEntry entry) override;

  // Returns when the readers have taken all, with the first error if there is one.
  absl::Status Finish();

 private:
  struct Lane {
    engine::Reader* reader = nullptr;
    Mutex mutex;
    CondVar changed;
    std::deque<engine::LogEntry> entries ABSL_GUARDED_BY(mutex);
    size_t waiting_bytes ABSL_GUARDED_BY(mutex) = 0;
    bool finished ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
    std::thread thread;
  };

  static void Work(Lane& lane, engine::Reader& reader);
  Lane& LaneOf(SegmentId segment) { return *lanes_[segment.v % lanes_.size()]; }

  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace paceline::shard
