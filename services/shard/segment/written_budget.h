#pragma once

#include <memory>
#include <utility>

#include "libs/log/primary.h"
#include "services/shard/disk/segment_disk.h"

namespace paceline::shard {

// The shard's budget as one segment that is written to disk sees it: tells the disk's side of every record
// that is applied, and asks for parts to wait while the disk is behind.
class WrittenBudget final : public log::Budget {
 public:
  WrittenBudget(std::shared_ptr<log::Budget> budget, std::shared_ptr<SegmentDisk> segment, const Disk& disk)
      : budget_(std::move(budget)), segment_(std::move(segment)), disk_(disk) {}

  bool Admits(uint64_t more_bytes) override { return budget_->Admits(more_bytes); }
  void Grown(int64_t bytes) override { budget_->Grown(bytes); }
  void RowsUpdated(uint64_t rows) override { budget_->RowsUpdated(rows); }
  bool Stage(uint64_t bytes, bool ahead) override { return budget_->Stage(bytes, ahead); }
  void Unstage(uint64_t bytes) override { budget_->Unstage(bytes); }
  uint64_t staging_max() const override { return budget_->staging_max(); }
  bool DiskBehind() const override { return disk_.pending_bytes() > kDiskBehind; }
  void Logged(const log::Segment& segment, Epoch epoch, const log::Record& record) override {
    segment_->OnRecord(segment, epoch, record);
    budget_->Logged(segment, epoch, record);
  }
  void Followed(const log::Segment& segment, const log::Record& record) override {
    segment_->OnRecord(segment, segment.epoch(), record);
    budget_->Followed(segment, record);
  }
  void Answered(const log::Segment& segment, Epoch epoch) override { budget_->Answered(segment, epoch); }
  void Installed(const log::Segment& segment) override {
    segment_->Forget();
    budget_->Installed(segment);
  }

 private:
  const std::shared_ptr<log::Budget> budget_;
  const std::shared_ptr<SegmentDisk> segment_;
  const Disk& disk_;
};

}  // namespace paceline::shard
