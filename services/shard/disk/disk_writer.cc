#include "services/shard/disk/disk_writer.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "libs/world/real_clock.h"

namespace paceline::shard {

DiskWriter::DiskWriter(std::unique_ptr<engine::Engine> engine)
    : engine_(std::move(engine)), synced_position_(engine_->position()), thread_([this] { Run(); }) {}

DiskWriter::~DiskWriter() {
  Finish();
}

void DiskWriter::Finish() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
  }
  changed_.Signal();
  if (thread_.joinable()) thread_.join();
}

void DiskWriter::Write(engine::Batch batch, Synced synced) {
  {
    MutexLock lock(&mutex_);
    queue_.Add(std::move(batch), std::move(synced));
    pending_bytes_.store(queue_.pending_bytes(), std::memory_order_relaxed);
  }
  changed_.Signal();
}

Disk::Done DiskWriter::done() const {
  MutexLock lock(&mutex_);
  return queue_.done();
}

Disk::Health DiskWriter::health() const {
  MutexLock lock(&mutex_);
  return queue_.HealthAt(world::RealClock().Now());
}

absl::Status DiskWriter::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

DiskWriter::Step DiskWriter::Next() {
  MutexLock lock(&mutex_);
  while (true) {
    const Step step = queue_.Next(world::RealClock().Now());
    if (step != Step::kNothing || stop_) return step;
    const absl::Time due = queue_.Due();
    const auto any = [this, due]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stop_ || queue_.Due() < due; };
    if (due == absl::InfiniteFuture()) {
      changed_.Await(&mutex_, any);
    } else {
      changed_.AwaitFor(&mutex_, due - world::RealClock().Now(), any);
    }
  }
}

void DiskWriter::Do(Step step) {
  // No other thread touches the batch in hand.
  const engine::Batch& batch = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> const engine::Batch& {
    return queue_.batch();
  }();
  const absl::Status status = step == Step::kWrite ? engine_->Write(batch) : engine_->Sync();
  if (step == Step::kSync && status.ok()) synced_position_ = engine_->position();
  constexpr uint64_t kStepsBetween = 16;  // looks at the engine's memory
  if (steps_++ % kStepsBetween == 0) engine_bytes_.store(engine_->memory_bytes(), std::memory_order_relaxed);
  DiskQueue::Group ended;
  {
    MutexLock lock(&mutex_);
    ended = queue_.Done(step, status, world::RealClock().Now());
    pending_bytes_.store(queue_.pending_bytes(), std::memory_order_relaxed);
    Note(status);
  }
  for (Synced& synced : ended.waiting) synced();
}

void DiskWriter::Run() {
  for (Step step = Next(); step != Step::kNothing; step = Next()) Do(step);
  MutexLock lock(&mutex_);
  if (queue_.unsynced()) Note(engine_->Sync());
}

void DiskWriter::Note(const absl::Status& status) {
  if (status.ok() != status_.ok()) {
    if (status.ok()) {
      spdlog::info("disk works again");
    } else {
      spdlog::error("disk fails error=\"{}\"; the shard tries again, and takes no parts once {} bytes wait",
                    std::string(status.message()), kDiskBehind);
    }
  }
  status_ = status;
}

}  // namespace paceline::shard
