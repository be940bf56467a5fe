#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libs/log/record.h"
#include "libs/ring/placement.h"
#include "libs/snapshot/manifest.h"
#include "paceline/v1/control.pb.h"
#include "services/shard/snapshots/snapshot_runner.h"

namespace paceline::shard {

class Context;

// Loads the rows of a snapshot into the given segments of a shard. Reads every file once: with other tables
// or another ring each may have rows of any segment. Gives each segment its rows in records of bounded size,
// one after the other. Leaves out a segment that is not primary here any more: its next primary loads it from
// the beginning, which does no harm, since rows are put and not added. Leaves out, too, a segment that was
// not primary in between: its first rows may be lost.
//
// More than 15 members: how far it is in the files, and in each segment's rows; one reading fills many
// segments.
class SnapshotLoad : public std::enable_shared_from_this<SnapshotLoad> {
 public:
  // Rows loaded; UNAVAILABLE never: it is tried again.
  using Done = std::function<void(uint64_t rows, absl::Status status)>;
  // `done` runs once, unless the process ends before.
  static void Start(Context& context, SnapshotRunner& runner, v1::Change change, std::set<uint32_t> segments,
                    Done done);

 private:
  // Hands out so many bytes of rows at a time.
  static constexpr size_t kGatherBytes = size_t{1} << 20;
  static constexpr absl::Duration kRetryAfter = absl::Milliseconds(20);

  struct Table {
    std::shared_ptr<const log::TableInfo> info;
    ring::Placement placement;
    size_t floats = 0;
  };
  // Rows for one segment, or, without a table, the end of them.
  struct Piece {
    uint32_t segment = 0;
    const Table* table = nullptr;
    log::Load load;
    absl::Status status;
  };

  SnapshotLoad(Context& context, SnapshotRunner& runner, v1::Change change, std::set<uint32_t> segments,
               Done done)
      : context_(context),
        runner_(runner),
        change_(std::move(change)),
        segments_(std::move(segments)),
        done_(std::move(done)) {
    for (const uint32_t segment : segments_) tenures_[segment] = 0;
  }

  absl::Status Open(snapshot::Files& files);
  // Reads some more, and hands it out.
  void Step(snapshot::Files& files);
  absl::Status Gather(snapshot::Files& files);
  absl::Status Split(const snapshot::RowsBlock& rows);
  void HandOut();
  // On the segment's executor.
  void Give(Piece& piece);
  std::vector<TableId> TableIds() const;  // of the job
  // Gives again the pieces that were not taken, or goes on to the next step.
  void OnGiven();

  Context& context_;
  SnapshotRunner& runner_;
  const v1::Change change_;
  std::set<uint32_t> segments_;
  std::map<uint32_t, uint64_t> tenures_;  // in which each was given its first rows; 0: none yet
  const Done done_;
  std::map<TableId, Table> tables_;  // by their ids in the snapshot
  v1::SnapshotManifest manifest_;
  int next_file_ = 0;
  std::optional<snapshot::FileDecoder> decoder_;
  std::map<std::pair<uint32_t, TableId>, log::Load> gathered_;
  size_t gathered_bytes_ = 0;
  std::vector<Piece> pieces_;
  std::atomic<size_t> left_{0};
  uint64_t rows_ = 0;
  bool ending_ = false;
};

}  // namespace paceline::shard
