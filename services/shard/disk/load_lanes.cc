#include "services/shard/disk/load_lanes.h"

#include <string>
#include <utility>

#include "libs/base/status.h"

namespace paceline::shard {

LoadLanes::LoadLanes(const std::vector<engine::Reader*>& readers) {
  for (engine::Reader* reader : readers) {
    lanes_.push_back(std::make_unique<Lane>());
    Lane& lane = *lanes_.back();
    lane.thread = std::thread([&lane, reader] { Work(lane, *reader); });
  }
}

LoadLanes::~LoadLanes() {
  (void)Finish();
}

absl::Status LoadLanes::OnBase(SegmentId segment, Lsn lsn, absl::string_view bytes) {
  return Give(segment, bytes.size(), [segment, lsn, copy = std::string(bytes)](engine::Reader& reader) {
    return reader.OnBase(segment, lsn, copy);
  });
}

absl::Status LoadLanes::OnPage(SegmentId segment, const engine::PageKey& key, absl::string_view bytes) {
  return Give(segment, bytes.size(), [segment, key, copy = std::string(bytes)](engine::Reader& reader) {
    return reader.OnPage(segment, key, copy);
  });
}

absl::Status LoadLanes::OnRecord(engine::LogEntry entry) {
  const SegmentId segment = entry.segment;
  const size_t bytes = entry.record.size();
  return Give(segment, bytes, [entry = std::move(entry)](engine::Reader& reader) mutable {
    return reader.OnRecord(std::move(entry));
  });
}

absl::Status LoadLanes::Give(SegmentId segment, size_t bytes, Task take) {
  Lane& lane = *lanes_[segment.v % lanes_.size()];
  MutexLock lock(&lane.mutex);
  lane.changed.Await(&lane.mutex, [&lane]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return lane.waiting_bytes < kWaitingMax || !lane.status.ok();
  });
  ABSL_RETURN_IF_ERROR(lane.status);
  lane.waiting_bytes += bytes;
  lane.items.push_back({.bytes = bytes, .take = std::move(take)});
  lane.changed.SignalAll();
  return absl::OkStatus();
}

void LoadLanes::Work(Lane& lane, engine::Reader& reader) {
  while (true) {
    Item item;
    {
      MutexLock lock(&lane.mutex);
      lane.changed.Await(&lane.mutex, [&lane]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return !lane.items.empty() || lane.finished;
      });
      if (lane.items.empty()) return;
      item = std::move(lane.items.front());
      lane.items.pop_front();
    }
    const absl::Status status = item.take(reader);
    MutexLock lock(&lane.mutex);
    lane.waiting_bytes -= item.bytes;
    lane.changed.SignalAll();
    if (status.ok()) continue;
    lane.status = status;
    return;
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
