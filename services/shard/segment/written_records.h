#pragma once

#include <memory>
#include <utility>

#include "libs/log/shard_side.h"
#include "services/shard/disk/segment_disk.h"

namespace paceline::shard {

// The records of one segment that is kept on a disk: gives each to the disk as it is applied, passes all on
// to `next`, and asks for parts to wait while the disk does not work and
// much waits for it.
class WrittenRecords final : public log::RecordSink {
 public:
  WrittenRecords(std::shared_ptr<log::RecordSink> next, std::shared_ptr<SegmentDisk> segment,
                 const Disk& disk)
      : next_(std::move(next)), segment_(std::move(segment)), disk_(disk) {}

  void Applied(const log::Segment& segment, const log::AppliedRecord& record) override {
    segment_->OnRecord(segment, record);
    next_->Applied(segment, record);
  }
  void Installed(const log::Segment& segment) override {
    segment_->Forget();
    next_->Installed(segment);
  }
  void Answered(const log::Segment& segment, Epoch epoch) override { next_->Answered(segment, epoch); }
  void RowsUpdated(uint64_t rows) override { next_->RowsUpdated(rows); }
  bool DiskBehind() const override { return disk_.pending_bytes() > kDiskBehind && disk_.health().bad(); }
  bool DiskSlow() const override { return disk_.pending_bytes() > kDiskSlow; }

 private:
  const std::shared_ptr<log::RecordSink> next_;
  const std::shared_ptr<SegmentDisk> segment_;
  const Disk& disk_;
};

}  // namespace paceline::shard
