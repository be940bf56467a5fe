#include "libs/engine/store/mark_writer.h"

#include <utility>

namespace paceline::engine {

using rocksdb::IOOptions;
using rocksdb::IOStatus;

MarkWriter::MarkWriter(std::unique_ptr<rocksdb::FSRandomRWFile> file, FoundMark found)
    : file_(std::move(file)), slot_(found.slot), keeper_(std::move(found.mark)) {
  thread_ = std::thread([this] {
    while (AwaitDue()) WriteNow().PermitUncheckedError();
  });
}

MarkWriter::~MarkWriter() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.join();
  WriteNow().PermitUncheckedError();
}

bool MarkWriter::AwaitDue() {
  const MutexLock lock(&mutex_);
  while (!stop_) {
    const absl::Time due = keeper_.Due();
    const absl::Time now = clock_.Now();
    if (due <= now) return true;
    changed_.AwaitFor(&mutex_, due - now,
                      [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stop_ || keeper_.Due() != due; });
  }
  return false;
}

IOStatus MarkWriter::Write(const SyncedMark& mark, int slot) {
  const absl::StatusOr<std::string> bytes = EncodeMark(mark);
  if (!bytes.ok()) return IOStatus::NoSpace(bytes.status().ToString());
  IOStatus written = file_->Write(static_cast<uint64_t>(slot) * kMarkSlotBytes, *bytes, IOOptions(), nullptr);
  if (written.ok()) written = file_->Sync(IOOptions(), nullptr);
  return written;
}

// Writes the same bytes into the same slot, so a torn write leaves them as they were. A process that ended
// after a failed sync may have left a mark that can be read but is not on the disk. If the other slot were
// written first, a loss of power could take both marks.
IOStatus MarkWriter::WriteAgain() {
  const MutexLock writing(&writing_);
  SyncedMark mark;
  {
    const MutexLock lock(&mutex_);
    mark = keeper_.last();
  }
  return Write(mark, slot_);
}

// Writes into the slot that does not hold the last mark on the disk, also when an earlier write there failed.
IOStatus MarkWriter::WriteNow() {
  const MutexLock writing(&writing_);
  SyncedMark mark;
  {
    const MutexLock lock(&mutex_);
    if (keeper_.Due() == absl::InfiniteFuture()) return IOStatus::OK();
    mark = keeper_.Take();
  }
  IOStatus written = Write(mark, 1 - slot_);
  if (written.ok()) slot_ = 1 - slot_;
  const MutexLock lock(&mutex_);
  written.ok() ? keeper_.Written(std::move(mark)) : keeper_.Failed(clock_.Now());
  status_ = written;
  return written;
}

template <class Change>
void MarkWriter::Note(Change change) {
  const MutexLock lock(&mutex_);
  const absl::Time before = keeper_.Due();
  change(clock_.Now());
  if (keeper_.Due() != before) changed_.SignalAll();
}

void MarkWriter::Synced(const SyncedMark::File& file) {
  Note([&](absl::Time now) ABSL_NO_THREAD_SAFETY_ANALYSIS { keeper_.Synced(file, now); });
}

void MarkWriter::Reached(uint64_t position) {
  Note([&](absl::Time now) ABSL_NO_THREAD_SAFETY_ANALYSIS { keeper_.Reached(position, now); });
}

void MarkWriter::HasCurrent() {
  Note([&](absl::Time now) ABSL_NO_THREAD_SAFETY_ANALYSIS { keeper_.HasCurrent(now); });
}

IOStatus MarkWriter::Forget(absl::string_view name) {
  {
    const MutexLock lock(&mutex_);
    if (!keeper_.Forget(name, clock_.Now())) return IOStatus::OK();
    changed_.SignalAll();
  }
  return WriteNow();
}

IOStatus MarkWriter::status() const {
  const MutexLock lock(&mutex_);
  return status_;
}

SyncedMark MarkWriter::known() const {
  const MutexLock lock(&mutex_);
  return keeper_.next();
}

}  // namespace paceline::engine
