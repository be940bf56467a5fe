#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "libs/base/mutex.h"
#include "libs/engine/engine.h"

namespace paceline::shard {

// Passes the contents of an engine to several readers, each on a thread of its own, while the caller's thread
// reads on: to make segments of pages and records costs several times what it costs to read them. One reader
// gets all of a segment, in order. At most kWaitingMax bytes wait for each, copied. For one thread.
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
  using Task = absl::AnyInvocable<absl::Status(engine::Reader&)>;
  struct Item {
    size_t bytes = 0;
    Task take;
  };
  struct Lane {
    Mutex mutex;
    CondVar changed;
    std::deque<Item> items ABSL_GUARDED_BY(mutex);
    size_t waiting_bytes ABSL_GUARDED_BY(mutex) = 0;
    bool finished ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
    std::thread thread;
  };

  static void Work(Lane& lane, engine::Reader& reader);
  absl::Status Give(SegmentId segment, size_t bytes, Task take);

  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace paceline::shard
