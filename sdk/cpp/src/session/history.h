#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "libs/base/ids.h"
#include "libs/history/event.h"
#include "libs/ring/segment_map.h"
#include "libs/wire/packed.h"
#include "sdk/cpp/src/cache/cache.h"
#include "sdk/cpp/src/push/batch.h"

namespace paceline::sdk {

struct TableInfo;

// The events of a client for its history file: user calls, actions and answers (docs/record.md). Without a
// sink every call does nothing but one comparison. Single owner, no locks.
class History : public CacheWatcher {
 public:
  void RecordTo(history::Sink* sink) { sink_ = sink; }
  bool enabled() const { return sink_ != nullptr; }

  template <class Event>
  void Record(const Event& event) const {
    if (enabled()) sink_->Record(event);
  }
  void TableOpened(const TableInfo& table) const;
  void Pushed(SegmentId segment, Line line, PartNumber number, Clock clock, TableId table, const Batch& batch,
              const Batch::Piece& piece) const;
  void Failed(const absl::Status& why) const;

  // A read that shards serve begins; `min_clock` if the caller named one. Returns the read's number.
  uint64_t ReadBegun(const TableInfo& table, Clock reader, std::optional<Clock> min_clock);
  // The client handed rows of the read to the user.
  void Certified(uint64_t read, const wire::Certificate& certificate, uint32_t rows);
  // All rows that the cache has handed out since the last call belong to one read.
  void HandedOut(const TableInfo& table, Clock reader, std::optional<Clock> min_clock);

  // The client's knowledge of epochs.
  void Learn(const wire::Certificate& certificate);
  void Learn(const ring::SegmentMap& map);

  // CacheWatcher:
  void Hit(const CachedRow& row) override;

 private:
  struct Newest {
    Epoch epoch;
    bool began_known = false;
  };
  Newest& NewestOf(SegmentId segment);

  history::Sink* sink_ = nullptr;
  uint64_t reads_ = 0;
  std::vector<Newest> newest_;  // by segment
  // Rows of one certificate make one event.
  std::vector<history::CacheHit> hits_;
  absl::flat_hash_map<std::pair<SegmentId, Lsn>, size_t> hit_of_;  // in hits_, the newest of that version
};

}  // namespace paceline::sdk
