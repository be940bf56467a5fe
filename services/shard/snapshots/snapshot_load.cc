#include "services/shard/snapshots/snapshot_load.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/log/primary.h"
#include "libs/log/table_codec.h"
#include "services/shard/context.h"

namespace paceline::shard {

void SnapshotLoad::Start(Context& context, SnapshotRunner& runner, v1::Change change,
                         std::set<uint32_t> segments, Done done) {
  const std::shared_ptr<SnapshotLoad> load(
      new SnapshotLoad(context, runner, std::move(change), std::move(segments), std::move(done)));
  runner.Run([load](snapshot::Files& files) {
    if (absl::Status opened = load->Open(files); !opened.ok()) return load->done_(0, std::move(opened));
    load->Step(files);
  });
}

absl::Status SnapshotLoad::Open(snapshot::Files& files) {
  const auto map = context_.view()->map;
  ABSL_ASSIGN_OR_RETURN(manifest_, snapshot::ReadManifest(files, change_.load().snapshot()));
  for (const v1::Change::LoadJob::Table& load : change_.load().tables()) {
    ABSL_ASSIGN_OR_RETURN(std::shared_ptr<const log::TableInfo> info, log::TableFromProto(load.to()));
    const table::Schema& schema = info->schema;
    ABSL_ASSIGN_OR_RETURN(const ring::Placement placement,
                          schema.kind == table::Kind::kSparse
                              ? ring::Placement::Sparse(info->id, map->ring_bits())
                              : ring::Placement::Ranged(info->id, map->ring_bits(), schema.rows, schema.dim));
    const size_t floats = table::FloatsPerRow(schema);
    tables_.emplace(TableId(load.from()),
                    Table{.info = std::move(info), .placement = placement, .floats = floats});
  }
  return absl::OkStatus();
}

void SnapshotLoad::Step(snapshot::Files& files) {
  if (ending_ || segments_.empty()) return done_(rows_, absl::OkStatus());
  if (absl::Status read = Gather(files); !read.ok()) return done_(rows_, std::move(read));
  pieces_.clear();
  for (auto& [to, load] : gathered_) {
    const Table& table = tables_.at(to.second);
    load.table = table.info->id;
    rows_ += load.keys.size();
    pieces_.push_back({.segment = to.first, .table = &table, .load = std::move(load), .status = {}});
  }
  gathered_.clear();
  gathered_bytes_ = 0;
  if (pieces_.empty()) {
    ending_ = true;
    for (const uint32_t segment : segments_)
      pieces_.push_back({.segment = segment, .load = {}, .status = {}});
  }
  HandOut();
}

// Reads to the end of the last file, or until there are enough rows.
absl::Status SnapshotLoad::Gather(snapshot::Files& files) {
  while (gathered_bytes_ < kGatherBytes) {
    if (!decoder_.has_value()) {
      if (next_file_ == manifest_.files_size()) return absl::OkStatus();
      ABSL_ASSIGN_OR_RETURN(decoder_, snapshot::OpenFile(files, manifest_, manifest_.files(next_file_)));
    }
    ABSL_ASSIGN_OR_RETURN(const std::optional<snapshot::RowsBlock> rows, decoder_->Next());
    if (rows.has_value()) {
      ABSL_RETURN_IF_ERROR(Split(*rows));
      continue;
    }
    ABSL_RETURN_IF_ERROR(snapshot::CheckWhole(*decoder_, manifest_, manifest_.files(next_file_)));
    decoder_.reset();
    ++next_file_;
  }
  return absl::OkStatus();
}

absl::Status SnapshotLoad::Split(const snapshot::RowsBlock& rows) {
  const auto found = tables_.find(rows.table);
  if (found == tables_.end()) return absl::OkStatus();  // it was dropped before the snapshot was complete
  const Table& table = found->second;
  const auto wrong = [&](const std::string& what) {
    return absl::DataLossError(absl::StrCat(manifest_.name(), "/", manifest_.files(next_file_).name(),
                                            ": table '", table.info->name, "': ", what));
  };
  if (rows.floats != table.floats) {
    return wrong(absl::StrCat(rows.floats, " floats a row; its schema has ", table.floats));
  }
  for (size_t i = 0; i < rows.keys.size() / sizeof(uint64_t); ++i) {
    const uint64_t key = LoadU64(rows.keys.data() + i * sizeof(uint64_t));
    if (table.placement.ranged() && key >= table.placement.rows()) {
      return wrong(absl::StrCat("key ", key, " of ", table.placement.rows(), " rows"));
    }
    const uint32_t segment = table.placement.Of(key).v;
    if (!segments_.contains(segment)) continue;
    log::Load& load = gathered_[{segment, rows.table}];
    load.keys.push_back(key);
    const size_t at = load.rows.size();
    load.rows.resize(at + table.floats);
    rows.rows.substr(i * table.floats * sizeof(float))
        .copy(reinterpret_cast<char*>(load.rows.data() + at), table.floats * sizeof(float));
    gathered_bytes_ += sizeof(uint64_t) + table.floats * sizeof(float);
  }
  return absl::OkStatus();
}

void SnapshotLoad::HandOut() {
  left_ = pieces_.size();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const SegmentId segment(pieces_[i].segment);
    context_.executor(segment).Run([self = shared_from_this(), i] {
      self->Give(self->pieces_[i]);
      if (self->left_.fetch_sub(1) > 1) return;
      self->runner_.Run([self](snapshot::Files&) { self->OnGiven(); });
    });
  }
}

void SnapshotLoad::Give(Piece& piece) {
  SegmentHost& host = context_.host(SegmentId(piece.segment));
  log::Primary* primary = host.primary();
  // Rows given in an earlier tenure may be gone, and nobody would give them again.
  uint64_t& tenure = tenures_.at(piece.segment);
  if (tenure == 0) tenure = host.tenure();
  if (primary == nullptr || host.tenure() != tenure) {
    piece.status = absl::NotFoundError("not primary here, or not the whole time");
    return;
  }
  piece.status = piece.table == nullptr ? primary->Take(log::EndLoad{.id = change_.load().id(),
                                                                     .job = JobId(change_.job()),
                                                                     .clock = change_.load().clock()},
                                                        TableIds())
                                        : primary->Take(piece.table->info, piece.load, change_.load().id());
  host.Flush();
}

std::vector<TableId> SnapshotLoad::TableIds() const {
  std::vector<TableId> ids;
  for (const auto& [from, table] : tables_) ids.push_back(table.info->id);
  return ids;
}

void SnapshotLoad::OnGiven() {
  std::vector<Piece> again;
  for (Piece& piece : pieces_) {
    if (absl::IsNotFound(piece.status)) {
      segments_.erase(piece.segment);
    } else if (absl::IsUnavailable(piece.status)) {
      again.push_back(std::move(piece));
    } else if (!piece.status.ok()) {
      return done_(rows_, std::move(piece.status));
    }
  }
  pieces_ = std::move(again);
  if (pieces_.empty()) {
    runner_.Run([self = shared_from_this()](snapshot::Files& files) { self->Step(files); });
  } else {
    runner_.Run([self = shared_from_this()](snapshot::Files&) { self->HandOut(); }, kRetryAfter);
  }
}

}  // namespace paceline::shard
