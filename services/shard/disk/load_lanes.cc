#include "services/shard/disk/load_lanes.h"

#include <utility>

#include "libs/base/status.h"

namespace paceline::shard {

LoadLanes::LoadLanes(const std::vector<engine::Reader*>& readers) {
  for (engine::Reader* reader : readers) {
    lanes_.push_back(std::make_unique<Lane>());
    Lane& lane = *lanes_.back();
    lane.reader = reader;
    lane.thread = std::thread([&lane, reader] { Work(lane, *reader); });
  }
}

LoadLanes::~LoadLanes() {
  (void)Finish();
}

absl::Status LoadLanes::OnBase(SegmentId segment, Lsn lsn, absl::string_view bytes) {
  return LaneOf(segment).reader->OnBase(segment, lsn, bytes);
}

absl::Status LoadLanes::OnPage(SegmentId segment, const engine::PageKey& key, absl::string_view bytes) {
  return LaneOf(segment).reader->OnPage(segment, key, bytes);
}

absl::Status LoadLanes::OnRecord(engine::LogEntry entry) {
  Lane& lane = LaneOf(entry.segment);
  const size_t bytes = entry.record.size();
  MutexLock lock(&lane.mutex);
  lane.changed.Await(&lane.mutex, [&lane]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return lane.waiting_bytes < kWaitingMax || !lane.status.ok();
  });
  ABSL_RETURN_IF_ERROR(lane.status);
  lane.waiting_bytes += bytes;
  lane.entries.push_back(std::move(entry));
  if (lane.entries.size() == 1) lane.changed.SignalAll();
  return absl::OkStatus();
}

void LoadLanes::Work(Lane& lane, engine::Reader& reader) {
  while (true) {
    std::deque<engine::LogEntry> entries;
    {
      MutexLock lock(&lane.mutex);
      lane.changed.Await(&lane.mutex, [&lane]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return !lane.entries.empty() || lane.finished;
      });
      if (lane.entries.empty()) return;
      entries.swap(lane.entries);
      lane.waiting_bytes = 0;
      lane.changed.SignalAll();
    }
    for (engine::LogEntry& entry : entries) {
      const absl::Status status = reader.OnRecord(std::move(entry));
      if (status.ok()) continue;
      MutexLock lock(&lane.mutex);
      lane.status = status;
      lane.changed.SignalAll();
      return;
    }
  }
}

absl::Status LoadLanes::Finish() {
  absl::Status first;
  for (const auto& lane : lanes_) {
    if (!lane->thread.joinable()) continue;
    {
      MutexLock lock(&lane->mutex);
      lane->finished = true;
      lane->changed.SignalAll();
    }
    lane->thread.join();
    MutexLock lock(&lane->mutex);
    first.Update(lane->status);
  }
  return first;
}

}  // namespace paceline::shard
