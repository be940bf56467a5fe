#include "services/shard/disk/disk_contents.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "libs/base/status.h"
#include "libs/log/record_check.h"
#include "libs/log/record_codec.h"
#include "services/shard/disk/folder.h"
#include "services/shard/disk/load_lanes.h"

namespace paceline::shard {
namespace {

// May be called by several threads, for segments that differ.
class Loader final : public engine::Reader {
 public:
  explicit Loader(int ring_bits) : ring_bits_(ring_bits) {}

  absl::Status OnBase(SegmentId id, Lsn, absl::string_view bytes) override {
    DiskContents::Segment& segment = Of(id).segment;
    v1::SegmentImage image;
    if (!image.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return absl::DataLossError(absl::StrCat("disk: the base of segment ", id.v, " is no SegmentImage"));
    }
    auto state = log::SegmentFromImage(image, id, ring_bits_);
    if (!state.ok()) return absl::DataLossError(state.status().message());
    segment.state.emplace(*std::move(state));
    return absl::OkStatus();
  }

  absl::Status OnPage(SegmentId id, const engine::PageKey& key, absl::string_view bytes) override {
    Loading& loading = Of(id);
    DiskContents::Segment& segment = loading.segment;
    if (!segment.state.has_value()) return absl::OkStatus();  // of a base that was never finished
    absl::StatusOr<log::PackedPage> page = log::ParsePage(bytes);
    if (!page.ok()) {
      return absl::DataLossError(
          absl::StrCat("disk: a page of segment ", id.v, " is no PageImage: ", page.status().message()));
    }
    // Had it changed before the base it would have been written anew with it.
    page->version = std::max(page->version, segment.state->version());
    segment.found.pages[key] = page->version;
    loading.newest_page = std::max(loading.newest_page, page->version);
    const absl::Status installed = log::InstallPage(*segment.state, *page);
    return installed.ok() ? installed : absl::DataLossError(installed.message());
  }

  absl::Status OnRecord(engine::LogEntry entry) override {
    DiskContents::Segment& segment = Of(entry.segment).segment;
    if (!segment.state.has_value()) {
      if (entry.lsn != Lsn(1)) return absl::OkStatus();  // of a base that was never finished
      if (entry.segment.v >> ring_bits_ != 0) {
        return absl::DataLossError(
            absl::StrCat("disk: a record of segment ", entry.segment.v, " of 2^", ring_bits_));
      }
      segment.state.emplace(entry.segment, ring_bits_);
    }
    if (entry.lsn.v != segment.state->version().v + 1) return absl::OkStatus();
    auto record = log::DecodeRecord(entry.record);
    absl::Status applies = record.status();
    if (applies.ok()) applies = log::CheckApplies(*segment.state, *record);
    if (!applies.ok()) {
      return absl::DataLossError(absl::StrCat("disk: record ", entry.lsn.v, " of segment ", entry.segment.v,
                                              ": ", applies.message()));
    }
    segment.state->Apply(*record);
    segment.found.log_bytes += entry.record.size();
    return absl::OkStatus();
  }

  // Moves its segments into `segments`.
  void End(std::map<SegmentId, DiskContents::Segment>& segments) {
    MutexLock lock(&mutex_);
    for (auto& [id, loading] : segments_) {
      DiskContents::Segment& segment = loading.segment;
      // A page ahead of its log: what it holds beyond it belongs to no state.
      if (segment.state.has_value() && segment.state->version() < loading.newest_page) segment.state.reset();
      segment.found.usable = segment.state.has_value();
      if (segment.found.usable) segment.found.held = segment.state->version();
      segments.emplace(id, std::move(segment));
    }
  }

 private:
  struct Loading {
    DiskContents::Segment segment;
    Lsn newest_page;
  };

  Loading& Of(SegmentId id) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    Loading& loading = segments_[id];  // stays where it is
    loading.segment.found.anything = true;
    return loading;
  }

  const int ring_bits_;
  Mutex mutex_;
  std::map<SegmentId, Loading> segments_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<DiskContents> LoadDisk(engine::Engine& engine, int threads) {
  DiskContents contents;
  ABSL_ASSIGN_OR_RETURN(contents.owner, ReadOwner(engine));
  ABSL_ASSIGN_OR_RETURN(contents.folder, ReadFolder(engine));
  ABSL_ASSIGN_OR_RETURN(contents.known, ReadKnown(engine));
  contents.folder.set_cluster(contents.owner.cluster);
  contents.folder.set_shard(contents.owner.shard.v);
  Loader loader(contents.owner.ring_bits);
  if (threads == 0) {
    ABSL_RETURN_IF_ERROR(engine.Load(loader));
  } else {
    LoadLanes lanes(std::vector<engine::Reader*>(static_cast<size_t>(threads), &loader));
    ABSL_RETURN_IF_ERROR(engine.LoadInParallel(lanes, threads));
    ABSL_RETURN_IF_ERROR(lanes.Finish());
  }
  ABSL_RETURN_IF_ERROR(engine.Sync());  // the writes of a killed process may be in memory only
  loader.End(contents.segments);
  contents.folder.set_position(engine.position());  // known by now
  contents.known.mutable_epochs()->Resize(1 << contents.owner.ring_bits, 0);
  for (const auto& [id, segment] : contents.segments) {
    if (segment.state.has_value()) LearnFrom(*segment.state, contents.known);
  }
  return contents;
}

void LearnFrom(const log::Segment& state, v1::Known& known) {
  const log::Segment::HighestIds highest = state.Highest();
  known.set_session(std::max(known.session(), highest.session.v));
  known.set_job(std::max(known.job(), highest.job.v));
  known.set_table(std::max(known.table(), highest.table.v));
  known.set_change(std::max(known.change(), highest.change));
  const auto learn_cut = [&](JobId job) {
    const log::Segment::SnapshotIds of_job = state.SnapshotsOf(job);
    known.set_cut(std::max({known.cut(), of_job.cut, of_job.loaded}));
  };
  for (const auto& [job, clock] : state.jobs()) learn_cut(job);
  for (const auto& [id, table] : state.tables()) learn_cut(table->info->job);
  if (state.id().v >= static_cast<uint32_t>(known.epochs_size())) return;
  uint64_t& epoch = (*known.mutable_epochs())[static_cast<int>(state.id().v)];
  epoch = std::max(epoch, state.epoch().v);
}

}  // namespace paceline::shard
