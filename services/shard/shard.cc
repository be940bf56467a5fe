#include "services/shard/shard.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/base/version.h"
#include "libs/table/page_memory.h"
#include "libs/wire/map_codec.h"
#include "services/shard/replication/replica_stream.h"
#include "services/shard/snapshots/snapshot_tasks.h"
#include "services/shard/streams/pull_stream.h"
#include "services/shard/streams/push_stream.h"
#include "services/shard/streams/subscribe_stream.h"

namespace paceline::shard {

// Memory and row counts of all segments together.
class Shard::SharedBudget : public log::RowMemory, public log::StagingRoom, public log::RecordSink {
 public:
  SharedBudget(const ShardOptions& options, Probe& probe, KnownSessions& known)
      : bytes_max_(options.memory_budget_bytes),
        staging_max_(options.staging_budget_bytes),
        probe_(probe),
        known_(known) {}

  // What is spare of the memory that was taken for pages counts as well, and is used first.
  bool Admits(uint64_t more_bytes) override {
    return rows_bytes() + std::max(more_bytes, table::SparePageBytes()) <= bytes_max_;
  }
  void Grown(int64_t bytes) override { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  void RowsUpdated(uint64_t rows) override {
    rows_updated_.fetch_add(rows, std::memory_order_relaxed);
    probe_.RowsPushed(rows);
  }
  void Applied(const log::Segment& segment, const log::AppliedRecord& applied) override {
    known_.Note(applied.record());
    if (applied.received()) return probe_.Followed(segment, applied.record());
    probe_.Logged(segment, segment.epoch(), applied.record());
  }
  void Installed(const log::Segment& segment) override {
    known_.Note(segment);
    probe_.Installed(segment);
  }
  void Answered(const log::Segment& segment, Epoch epoch) override { probe_.Answered(segment, epoch); }
  bool Stage(uint64_t bytes, bool ahead) override {
    const uint64_t max = ahead ? staging_max_ / 2 : staging_max_;
    uint64_t staged = staged_.load(std::memory_order_relaxed);
    while (staged + bytes <= max) {
      if (staged_.compare_exchange_weak(staged, staged + bytes, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  void Unstage(uint64_t bytes) override { staged_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t staging_max() const override { return staging_max_; }
  uint64_t staged() const { return staged_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return rows_bytes() + table::SparePageBytes(); }
  uint64_t rows_updated() const { return rows_updated_.load(std::memory_order_relaxed); }

 private:
  uint64_t rows_bytes() const { return static_cast<uint64_t>(bytes_.load(std::memory_order_relaxed)); }

  const uint64_t bytes_max_;
  const uint64_t staging_max_;
  Probe& probe_;
  KnownSessions& known_;
  std::atomic<int64_t> bytes_{0};
  std::atomic<uint64_t> staged_{0};
  std::atomic<uint64_t> rows_updated_{0};
};

Shard::Shard(ShardOptions options, const world::Clock& clock, Probe& probe, Peers* peers, Disk* disk,
             DiskContents contents)
    : context_(std::move(options), clock, probe, disk),
      budget_(std::make_shared<SharedBudget>(context_.options(), probe, context_.known_sessions())),
      links_(peers == nullptr ? nullptr : std::make_shared<ReplicaLinks>(context_, *peers)),
      contents_(std::move(contents)),
      around_{.shard_name = context_.options().name,
              .shard = budget_,
              .clock = &clock,
              .port = links_,
              .disk = disk,
              .durable = context_.options().durable,
              .disk_pace = context_.options().disk_pace,
              .image_pace = context_.options().image_pace} {
  around_.shard.changes_max = context_.options().changes_max;
  around_.image_pace.limit = log::MovePace::Of(context_.options().move_bytes_per_s);
}

Shard::~Shard() {
  if (links_ != nullptr) links_->Stop();
  context_.End();
}

bool Shard::PeersAmongClients() const {
  const auto now = view();
  return (now->map == nullptr ? now->coordinators_level : now->map->feature_level()) < 2;
}

void Shard::Identify(ring::Member self, uint64_t cluster, uint32_t level) {
  const auto now = PublishOwned([&](View& view) {
    view.self = self;
    view.cluster = cluster;
    view.coordinators_level = level;
  });
  context_.probe().Identified(self, cluster);
  Configure(now);
}

void Shard::KeepSnapshots(SnapshotRunner& runner) {
  snapshots_ = std::make_unique<SnapshotTasks>(context_, runner);
}

absl::Status Shard::CheckMeant(uint64_t cluster, bool has_target, const v1::Member& target) const {
  const auto now = view();
  const bool known = now->self.incarnation != Incarnation();
  if (known && now->cluster != 0 && cluster != 0 && cluster != now->cluster) {
    return absl::FailedPreconditionError(absl::StrCat("cluster: ", cluster, " is meant; ", options().name,
                                                      " at this address is of cluster ", now->cluster,
                                                      ": see whether an address is used twice"));
  }
  if (!has_target) return absl::OkStatus();
  if (!known) return absl::UnavailableError(absl::StrCat(options().name, " has not joined its cluster yet"));
  if (ShardId(target.shard()) == now->self.shard &&
      Incarnation(target.incarnation()) == now->self.incarnation)
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "target: shard ", target.shard(), ", incarnation ", target.incarnation(), " is meant; ", options().name,
      " at this address is shard ", now->self.shard.v, ", incarnation ", now->self.incarnation.v));
}

std::string Shard::WhyTooOld(uint64_t map_version) const {
  const MapVersion have = view()->map_version();
  if (map_version == 0 || MapVersion(map_version) >= have || Planted(Bug::kOldMapObeyed)) return "";
  return absl::StrCat("the call is of map version ", map_version, ", ", options().name, " has ", have.v);
}

absl::StatusOr<v1::InstallReply> Shard::Install(const v1::InstallRequest& request) {
  v1::Map encoded;
  if (!encoded.ParseFromString(request.whole_map())) {
    return absl::InvalidArgumentError(
        absl::StrCat("whole_map: ", request.whole_map().size(), " bytes that are no encoded map"));
  }
  const bool is_encoded = !request.whole_map().empty();
  const v1::Map& sent = is_encoded ? encoded : request.map();
  ABSL_RETURN_IF_ERROR(CheckMeant(sent.cluster(), request.has_target(), request.target()));
  std::shared_ptr<const ring::SegmentMap> map;
  // If it does not follow, the answer says from where it would.
  const auto before = view();
  if ((is_encoded || request.has_map()) && wire::Follows(sent, before->map_version())) {
    ABSL_ASSIGN_OR_RETURN(ring::SegmentMap next, wire::NextMap(sent, before->map.get()));
    map = std::make_shared<const ring::SegmentMap>(std::move(next));
  }
  std::shared_ptr<const Catalogue> catalogue;
  if (request.has_catalogue()) {
    ABSL_ASSIGN_OR_RETURN(Catalogue parsed, Catalogue::FromProto(request.catalogue()));
    catalogue = std::make_shared<const Catalogue>(std::move(parsed));
  }
  absl::Status wrong;
  const auto now = PublishOwned([&](View& view) {
    if (map != nullptr && view.map != nullptr && view.map->ring_bits() != map->ring_bits()) {
      wrong = absl::InvalidArgumentError(absl::StrCat("map: ring_bits ", map->ring_bits(),
                                                      "; this shard's ring has ", view.map->ring_bits(),
                                                      " and it never changes"));
      return;
    }
    if (map != nullptr && map->version() > view.map_version()) view.map = map;
    if (catalogue != nullptr && catalogue->version() > view.catalogue->version()) view.catalogue = catalogue;
  });
  ABSL_RETURN_IF_ERROR(wrong);
  if (map != nullptr) Configure(now);
  if (map == nullptr && catalogue != nullptr) NoteKnown();
  v1::InstallReply reply;
  reply.set_map_version(now->map_version().v);
  reply.set_catalogue_version(now->catalogue->version().v);
  return reply;
}

void Shard::MakeHosts(const ring::SegmentMap& map) {
  context_.MakeRing(map.SegmentCount(), around_);
  if (contents_.owner.ring_bits == map.ring_bits()) {
    for (auto& [segment, found] : contents_.segments) {
      context_.AddHost(segment).Restore(std::move(found.state), std::move(found.found));
    }
  }
  contents_.segments.clear();
}

void Shard::Configure(const std::shared_ptr<const View>& view) {
  if (view->map == nullptr || view->self.incarnation == Incarnation()) return;
  NoteKnown();
  context_.Follow(view, [this] { context_.VisitSoon(); });
}

std::shared_ptr<world::AcceptedStream> Shard::NewPushStream() {
  return watch_.Add(std::make_shared<PushStream>(context_, /*rows=*/false));
}
std::shared_ptr<world::AcceptedStream> Shard::NewPushPullStream() {
  return watch_.Add(std::make_shared<PushStream>(context_, /*rows=*/true));
}
std::shared_ptr<world::AcceptedStream> Shard::NewPullStream() {
  return watch_.Add(std::make_shared<PullStream>(context_));
}

std::shared_ptr<world::AcceptedStream> Shard::NewSubscribeStream() {
  return watch_.Add(std::make_shared<SubscribeStream>(context_));
}

std::shared_ptr<world::AcceptedStream> Shard::NewReplicaStream() {
  return watch_.Add(std::make_shared<ReplicaStream>(context_, links_));
}

void Shard::OnTime() {
  const absl::Time now = context_.clock().Now();
  StreamBudget& streams = context_.streams();
  if (streams.waiting() && !streams.Full() && !context_.disk_slow() && streams.TakeWaiting()) watch_.OnRoom();
  watch_.OnTime(now, context_.replies().crowded());
  // A segment that wants nothing of the disk does not hear that it fails.
  if (context_.disk() != nullptr && context_.disk()->health().bad()) {
    context_.ForEachSegment([](SegmentHost&) {}, [] {});
  }
  context_.OnTime(now, [this] {
    if (links_ != nullptr) links_->SendWishes();
  });
}

std::shared_ptr<log::RowMemory> Shard::memory() const {
  return budget_;
}

uint64_t Shard::bytes_held() const {
  return budget_->bytes();
}

uint64_t Shard::rows_updated() const {
  return budget_->rows_updated();
}

uint64_t Shard::staged_bytes() const {
  return budget_->staged();
}

void Shard::Stop() {
  context_.Publish([](View& view) { view.stopping = true; });
  if (links_ != nullptr) links_->Stop();
  v1::Refusal stopping;
  stopping.set_reason(v1::Refusal::UNAVAILABLE);
  stopping.set_retry_after_ms(1000);
  stopping.set_message(absl::StrCat(options().name, " is stopping"));
  context_.ForEachSegment(
      [stopping](SegmentHost& host) {
        if (host.primary() != nullptr) host.primary()->Abandon(stopping);
      },
      [] {});
}

}  // namespace paceline::shard
