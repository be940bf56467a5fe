#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "libs/engine/engine.h"
#include "libs/engine/log_order.h"

namespace paceline::engine {

// An engine without a disk, for tests and simulation. The content that a disk would keep is a value of its
// own, which forgets, tears, fills up and fails as the test tells it to.
class MemoryEngine final : public Engine {
 public:
  struct Segment {
    std::optional<std::pair<Lsn, std::string>> base;
    std::map<PageKey, std::string> pages;
    std::deque<LogEntry> log;
    friend bool operator==(const Segment& a, const Segment& b);
  };
  struct Contents {
    std::map<SegmentId, Segment> segments;
    std::map<std::string, std::string, std::less<>> notes;
    uint64_t batches = 0;  // that made it
    friend bool operator==(const Contents&, const Contents&) = default;
  };

  class Disk {
   public:
    // The disk's present content as a reader would find it, as a separate disk that no engine uses.
    static std::shared_ptr<Disk> CopyOf(const Disk& disk);
    // Power fails: of the batches written since the last Sync only the first `kept` stay.
    void LosePower(size_t kept);
    size_t unsynced() const { return unsynced_.size(); }

    // The result of the next calls: OK, or this error, with nothing written.
    absl::Status write_error;
    absl::Status sync_error;
    // A bit of the stored data has flipped; Load finds it.
    bool damaged = false;

    uint64_t writes = 0;
    uint64_t syncs = 0;
    // As a reader would find it now.
    const Contents& contents() const { return now_; }

   private:
    friend class MemoryEngine;
    static void Apply(const Batch& batch, Contents& contents);

    Contents synced_;
    std::deque<Batch> unsynced_;
    Contents now_;
    bool in_use_ = false;
  };

  // kFailedPrecondition: another engine uses the disk.
  static absl::StatusOr<std::unique_ptr<MemoryEngine>> Open(std::shared_ptr<Disk> disk);
  ~MemoryEngine() override;

  absl::Status Load(Reader& reader) override;
  absl::Status Write(const Batch& batch) override;
  absl::Status Sync() override;
  absl::StatusOr<std::string> Note(absl::string_view name) const override;
  absl::StatusOr<Usage> usage() const override;
  uint64_t position() const override { return disk_->now_.batches; }

 private:
  explicit MemoryEngine(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) { disk_->in_use_ = true; }

  const std::shared_ptr<Disk> disk_;
  LogOrder order_;
  bool loaded_ = false;
};

}  // namespace paceline::engine
