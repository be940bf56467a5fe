#include "tests/sim/sim_shard.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kBeatEvery = absl::Milliseconds(200);
constexpr absl::Duration kRetryAfter = absl::Milliseconds(50);
constexpr absl::Duration kAskAgainAfter = absl::Milliseconds(20);
constexpr absl::Duration kCallTimeout = absl::Seconds(1);
constexpr absl::Duration kOnTimeEvery = absl::Milliseconds(30);
constexpr absl::Duration kStartAgain = absl::Milliseconds(200);
// A call may come so late that its subject is long past.
constexpr absl::Duration kWishMayCome = absl::Seconds(6);
constexpr absl::Duration kLeaveTimeout = absl::Milliseconds(1500);
constexpr absl::Duration kAsksForLeave = absl::Milliseconds(200);
constexpr absl::Duration kDiskReplaced = absl::Milliseconds(400);

}  // namespace

shard::ShardOptions OptionsOf(uint32_t index, bool durable) {
  shard::ShardOptions options;
  options.name = absl::StrCat("shard-", index);
  options.executors = 2;
  options.window_bytes = 9 * 1024;
  options.stream_bytes_max = 24 * 1024;  // of half of it each of eight workers has a few frames
  options.frame_bytes_max = 16 * 1024;   // a client that sends so much beyond its grant is not read
  // Twice what eight workers push in a clock, should every segment come to this shard: with less a clock may
  // find no room for ever, and the shard says so.
  options.staging_budget_bytes = 60 * 1024;
  options.pull_timeout_max = absl::Seconds(2);
  options.durable = durable;
  // So does an image: records come between its pages.
  options.image_pace = {.pages = 1, .frame_bytes = 1};
  if (index == 2) options.image_pace.record_bytes = 64;  // and other frames between the pieces of a record
  // A base takes several steps, and another one is due soon.
  options.disk_pace = {
      .log_bytes = 1024, .log_age = absl::Milliseconds(300), .step_bytes = 64, .first_step_bytes = 512};
  return options;
}

SimShard::SimShard(World& world, SimCoordinator& coordinator, uint32_t index, bool disk, bool durable,
                   SnapshotShare* share)
    : world_(world),
      coordinator_(coordinator),
      index_(index),
      durable_(durable),
      address_(absl::StrCat("shard-", index, ":1")),
      peer_address_(absl::StrCat("shard-", index, ":2")),
      host_{.name = absl::StrCat("shard-", index), .up = false},
      clock_(world.scheduler, 1),
      dialer_(world.network, host_),
      disk_(disk ? std::make_unique<SimDisk>(world) : nullptr),
      share_(share),
      shard_(Make()) {
  world_.network.Listen(address_, host_,
                        [this](world::StreamKind kind) -> std::shared_ptr<world::AcceptedStream> {
                          switch (kind) {
                            case world::StreamKind::kPush:
                              return shard_->NewPushPullStream();
                            case world::StreamKind::kPull:
                              return shard_->NewPullStream();
                            case world::StreamKind::kSubscribe:
                              return shard_->NewSubscribeStream();
                            case world::StreamKind::kReplicate:
                              break;
                          }
                          world_.verdict.Violated("Wire", "a peer dials an address for clients");
                          return shard_->NewReplicaStream();
                        });
  world_.network.Listen(peer_address_, host_,
                        [this](world::StreamKind kind) -> std::shared_ptr<world::AcceptedStream> {
                          if (kind != world::StreamKind::kReplicate) {
                            world_.verdict.Violated("Wire", "a client dials an address for peers");
                          }
                          return shard_->NewReplicaStream();
                        });
}

SimShard::~SimShard() = default;

std::unique_ptr<shard::Shard> SimShard::Make(shard::Disk* disk, shard::DiskContents contents) {
  shard::Probe& probe = *this;
  shard::Peers* peers = this;
  shard::ShardOptions options = OptionsOf(index_, durable_ && disk != nullptr);
  options.nonce = nonce_;
  options.changes_max = world_.changes_max;
  auto made =
      std::make_unique<shard::Shard>(std::move(options), clock_, probe, peers, disk, std::move(contents));
  if (share_ == nullptr) return made;
  if (!runners_.empty()) runners_.back()->Die();
  runners_.push_back(std::make_unique<SimSnapshotRunner>(*share_, world_.scheduler, host_));
  made->KeepSnapshots(*runners_.back());
  return made;
}

bool SimShard::Load(uint64_t start) {
  std::unique_ptr<engine::Engine> engine = disk_->Open();
  disk_->Arm();
  absl::StatusOr<shard::DiskContents> contents = shard::LoadDisk(*engine);
  if (absl::IsDataLoss(contents.status()) && disk_->damaged()) {
    world_.marks.Hit("a shard refuses a damaged disk");
    world_.scheduler.After(kDiskReplaced, [this, start] {
      promised_.clear();
      if (start != starts_) return;
      disk_ = std::make_unique<SimDisk>(world_);
      Start();
    });
    return false;
  }
  if (absl::IsDataLoss(contents.status())) {
    world_.verdict.Violated("Durable", absl::StrCat(host_.name, ": ", contents.status().ToString()));
  }
  if (!contents.ok()) {
    disk_->Noted(contents.status(), shard::DiskQueue::Step::kSync);
    world_.marks.Hit("a shard does not start for its disk");
    world_.scheduler.After(kStartAgain, [this, start] {
      if (start == starts_) Start();
    });
    return false;
  }
  restored_.clear();
  found_.Clear();
  *found_.mutable_folder() = contents->folder;
  found_.mutable_folder()->set_place(disk_->place());
  *found_.mutable_known() = contents->known;
  for (const auto& [id, segment] : contents->segments) {
    if (!segment.found.usable) world_.marks.Hit("a start finds nothing whole of a segment");
    if (!segment.state.has_value()) continue;
    restored_[id] = {.epoch = segment.state->epoch(), .lsn = segment.state->version()};
    world_.invariants.Durable(host_.name, *segment.state);
  }
  for (const auto& [id, lsn] : promised_) {
    if (disk_->aged()) break;
    const auto found = restored_.find(id);
    world_.invariants.Kept(host_.name, id, found == restored_.end() ? Lsn() : found->second.lsn, lsn);
  }
  writer_ =
      std::make_unique<SimDiskWriter>(world_, host_, *disk_, std::move(engine), [this] { NoteCommitted(); });
  shard_ = Make(writer_.get(), *std::move(contents));
  return true;
}

void SimShard::TakeAway(bool keep_disk) {
  const bool emptied = up() && shard_->view()->emptied;
  if (up()) Kill();
  ++starts_;
  taken_away_ = true;
  promised_.clear();
  if (disk_ == nullptr || (keep_disk && emptied)) return;
  gone_.push_back(std::exchange(disk_, std::make_unique<SimDisk>(world_)));
}

void SimShard::StartNew() {
  taken_away_ = false;
  Start();
}

void SimShard::Start() {
  if (taken_away_ || host_.up) return;  // it was to be started again, before
  const uint64_t start = ++starts_;
  self_ = {};
  found_.Clear();
  nonce_ = world_.random.Next();
  if (disk_ != nullptr && !Load(start)) return;
  host_.up = true;
  if (disk_ == nullptr) shard_ = Make();
  coordinator_.AddShard(peer_address_, *shard_, host_);
  shard_->OnWantCatalogue([this, start](CatalogueVersion) {
    FetchCatalogue(start);
    return true;
  });
  found_.set_feature_level(kFeatureLevel);
  found_.set_name(host_.name);
  found_.set_address(address_);
  found_.set_peer_address(peer_address_);
  found_.set_nonce(nonce_);
  found_.set_keeps_data(disk_ != nullptr);
  joining_.emplace(found_);
  Join(start);
  OnTime(start);
}

bool SimShard::AgeDisk() {
  return disk_ != nullptr && disk_->Age();
}

size_t SimShard::Kill(bool power) {
  if (share_ != nullptr) NoteCommitted();  // a file of it may count
  host_.up = false;
  may_end_ = nullptr;
  size_t lost = 0;
  if (disk_ != nullptr) {
    NotePromises(/*all_written=*/false);
    if (self_.incarnation != Incarnation()) disk_->KeepCopy();
    writer_->Die();
    dead_writers_.push_back(std::move(writer_));
    if (power) lost = disk_->LosePower();
  }
  world_.calls.Cut(host_);
  const absl::Status why = absl::UnavailableError("connection reset");
  for (const auto& connection : world_.network.connections()) {
    if (connection->info().server == host_.name) connection->CloseByServer(why), connection->ServerIsGone();
    if (connection->info().client == host_.name) connection->Break(why);
  }
  shard_->Stop();  // its callbacks have no receiver any more
  dead_.push_back(std::move(shard_));
  // Messages that were under way may not touch a dead process.
  shard_ = Make();
  return lost;
}

void SimShard::NotePromises(bool all_written) {
  promised_.clear();
  if (shard_->view()->emptied) return;
  ForEachHost([&](shard::SegmentHost& host) {
    if (host.disk() == nullptr) return;
    Lsn held;
    if (host.primary() != nullptr) held = host.primary()->segment().version();
    if (host.follower() != nullptr && host.follower()->whole()) held = host.follower()->position().lsn;
    const bool all = all_written && host.disk()->usable();
    promised_[host.id()] = all ? held : host.disk()->durable();
  });
}

void SimShard::Terminate(std::function<bool()> may_end) {
  if (may_end_ != nullptr || self_.incarnation == Incarnation()) return;
  may_end_ = std::move(may_end);
  Leave(starts_);
}

void SimShard::Leave(uint64_t start) {
  if (!Is(start)) return;
  v1::HandOverShardRequest request;
  request.set_shard(host_.name);
  request.set_incarnation(self_.incarnation.v);
  request.set_leave(true);
  request.set_timeout_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(kLeaveTimeout)));
  world_.calls.Call<v1::HandOverShardReply>(
      host_, coordinator_.host(), kLeaveTimeout + kCallTimeout,
      [this, request](auto answer) {
        coordinator_.Visit([&](auto& core) { core.HandOverShard(request, absl::InfiniteFuture(), answer); });
      },
      [this, start](absl::StatusOr<v1::HandOverShardReply> reply) {
        if (!Is(start)) return;
        if (!may_end_()) return world_.scheduler.After(kAsksForLeave, [this, start] { Leave(start); });
        world_.Trace(absl::StrCat(
            host_.name, " ends: ", reply.ok() ? reply->ShortDebugString() : reply.status().ToString()));
        world_.marks.Hit(reply.ok() ? "a shard leaves and ends" : "a shard ends without leave");
        EndInOrder();
      });
}

void SimShard::EndInOrder() {
  shard_->Stop();
  const bool all_written = disk_ != nullptr && writer_->WriteAll();
  if (all_written) world_.marks.Hit("a shard ends with all on its disk");
  NotePromises(all_written);
  const std::map<SegmentId, Lsn> promised = promised_;
  Kill();
  promised_ = promised;
  world_.scheduler.After(kStartAgain, [this] { Start(); });
}

world::Dialer& SimShard::dialer() {
  return dialer_;
}

void SimShard::ChangeConfigs(v1::ChangeConfigsRequest request,
                             std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done) {
  if (request.has_carried_by()) world_.marks.Hit("wishes are carried");
  for (const v1::ConfigWish& wish : request.wishes()) {
    world_.marks.Hit(absl::StrCat("wished: ", v1::ConfigWish::Kind_Name(wish.kind())));
    world_.Trace(absl::StrCat(host_.name, " wishes ", wish.ShortDebugString()));
    on_wish(request, wish);
    if (wish.kind() == v1::ConfigWish::SWAP && writer_ != nullptr && writer_->health().bad())
      world_.marks.Hit("a shard whose disk fails hands over");
    if (wish.kind() == v1::ConfigWish::DROP) dropping_until_ = world_.Now() + kWishMayCome;
    if (wish.kind() == v1::ConfigWish::PROMOTE) taking_over_until_ = world_.Now() + kWishMayCome;
  }
  world_.calls.Call<v1::ChangeConfigsReply>(
      host_, coordinator_.host(), kCallTimeout,
      [this, request](auto answer) {
        coordinator_.Visit([&](auto& core) { answer(core.ChangeConfigs(request)); });
      },
      std::move(done));
}

void SimShard::Join(uint64_t start) {
  if (!Is(start)) return;
  if (joining_->step() == shard::Joining::Step::kWrite) {
    return writer_->Write(joining_->Stamps(), [this, start] {
      if (!Is(start)) return;
      joining_->OnWritten();
      Join(start);
    });
  }
  world_.calls.Call<v1::JoinClusterReply>(
      host_, coordinator_.host(), kCallTimeout,
      [this, request = joining_->request()](auto answer) {
        coordinator_.Visit([&](auto& core) { answer(core.JoinCluster(request)); });
      },
      [this, start](absl::StatusOr<v1::JoinClusterReply> reply) {
        if (Is(start)) OnJoinReply(start, reply);
      });
}

void SimShard::OnJoinReply(uint64_t start, const absl::StatusOr<v1::JoinClusterReply>& reply) {
  const absl::Status status = joining_->OnReply(reply);
  if (disk_ != nullptr && absl::IsFailedPrecondition(status)) {
    world_.Trace(absl::StrCat(host_.name, " may not join: ", status.ToString()));
    if (disk_->aged()) world_.marks.Hit("an older folder is refused");
    disk_->BringBack();
    return StartAgain();
  }
  if (!status.ok()) {
    if (absl::IsAborted(status)) world_.marks.Hit("a start is to ask again");
    return world_.scheduler.After(absl::IsAborted(status) ? kAskAgainAfter : kRetryAfter,
                                  [this, start] { Join(start); });
  }
  if (joining_->step() != shard::Joining::Step::kJoined) return Join(start);
  OnJoined(start, *reply);
}

void SimShard::OnJoined(uint64_t start, const v1::JoinClusterReply& reply) {
  if (disk_ != nullptr && disk_->aged()) {
    return world_.verdict.Violated("Stale", absl::StrCat(host_.name, " joins with an older folder"));
  }
  self_ = {.shard = ShardId(reply.shard()), .incarnation = Incarnation(reply.incarnation())};
  if (const absl::Status own = shard_->CheckDisk(self_.shard, reply.cluster()); !own.ok()) {
    return world_.verdict.Violated("Durable", absl::StrCat(host_.name, ": ", own.ToString()));
  }
  for (const auto& [id, position] : restored_) world_.invariants.OnRestored(self_, id, position);
  shard_->NoteTerm(reply.term());
  shard_->Identify(self_, reply.cluster());
  Beat(start);
}

void SimShard::StartAgain() {
  Kill();
  world_.scheduler.After(kStartAgain, [this] { Start(); });
}

void SimShard::Beat(uint64_t start) {
  if (!Is(start)) return;
  if (host_.Paused(world_.Now()))
    return world_.scheduler.At(host_.paused_until, [this, start] { Beat(start); });
  shard_->Describe([this, start, asked = clock_.Now()](v1::BeatRequest beat) {
    world_.calls.Call<v1::BeatReply>(
        host_, coordinator_.host(), kCallTimeout,
        [this, beat](auto answer) {
          coordinator_.OnBeat(beat);
          coordinator_.Visit([&](auto& core) { answer(core.Beat(beat)); });
        },
        [this, beat, start, asked](absl::StatusOr<v1::BeatReply> reply) {
          if (!Is(start)) return;
          if (reply.ok()) shard_->HeardCoordinator(asked);
          // It was removed, or its drain was cancelled too late; or the call of a start that died while it
          // joined has come late. The process ends, and is started again.
          if (absl::IsFailedPrecondition(reply.status())) {
            if (disk_ != nullptr && !beat.emptied())
              world_.marks.Hit("a shard is superseded by an earlier start");
            return StartAgain();
          }
          if (reply.ok()) shard_->NoteTerm(reply->term());
          if (reply.ok() && reply->catalogue_version() > beat.catalogue_version()) FetchCatalogue(start);
          world_.scheduler.After(reply.ok() ? kBeatEvery : kRetryAfter, [this, start] { Beat(start); });
        });
  });
}

void SimShard::FetchCatalogue(uint64_t start) {
  world_.calls.Call<v1::Catalogue>(
      host_, coordinator_.host(), kCallTimeout,
      [this](auto answer) { coordinator_.Visit([&](auto& core) { answer(core.GetCatalogue()); }); },
      [this, start](absl::StatusOr<v1::Catalogue> reply) {
        if (!reply.ok() || !Is(start)) return;
        v1::InstallRequest install;
        *install.mutable_catalogue() = *std::move(reply);
        (void)shard_->Install(install);
      });
}

void SimShard::OnTime(uint64_t start) {
  if (!Is(start)) return;
  if (!host_.Paused(world_.Now())) {
    shard_->OnTime();
    NoteCommitted();
  }
  world_.scheduler.After(kOnTimeEvery, [this, start] { OnTime(start); });
}

void SimShard::NoteCommitted() {
  ForEachPrimary([this](log::Primary& primary) {
    world_.invariants.OnCommitted(primary.segment().id(), primary.epoch(), primary.replicas().committed());
  });
}

uint64_t SimShard::map_version() const {
  const auto view = shard_->view();
  return view->map == nullptr ? 0 : view->map->version().v;
}

void SimShard::ForEachHost(const std::function<void(shard::SegmentHost&)>& visit) {
  // One thread: no other uses them, and their executors would only cost time.
  const auto view = shard_->view();
  if (view->map == nullptr) return;
  for (uint32_t s = 0; s < uint32_t{1} << view->map->ring_bits(); ++s)
    visit(shard_->context().host(SegmentId(s)));
}

void SimShard::ForEachPrimary(const std::function<void(log::Primary&)>& visit) {
  ForEachHost([&](shard::SegmentHost& host) {
    if (host.primary() != nullptr) visit(*host.primary());
  });
}

void SimShard::OnPushHandled() {
  ForEachPrimary([this](log::Primary& primary) {
    world_.invariants.OnCounted(primary);
    world_.invariants.OnCommitted(primary.segment().id(), primary.epoch(), primary.replicas().committed());
  });
  if (shard_->staged_bytes() <= shard_->options().staging_budget_bytes) return;
  world_.verdict.Violated("Bounded", absl::StrCat(host_.name, " stages ", shard_->staged_bytes(), " bytes"));
}

// A primary that hands over writes nothing, and one whose disk fails takes no parts.
void SimShard::Logged(const log::Segment& segment, Epoch epoch, const log::Record& record) {
  const log::Primary* primary = shard_->context().host(segment.id()).primary();
  const bool update = std::holds_alternative<log::Update>(record);
  const bool refuses =
      primary != nullptr && (primary->handing_over() || (update && primary->replicas().OwnDiskFails()));
  if (refuses) {
    world_.verdict.Violated(
        "Refused", absl::StrCat(host_.name, ", segment ", segment.id().v, ": record ", segment.version().v,
                                primary->handing_over() ? " is written during a hand-over"
                                                        : " is taken, though the disk fails"));
  }
  world_.invariants.OnLogged(self_, segment, epoch, record);
}

void SimShard::Followed(const log::Segment& segment, const log::Record& record) {
  world_.invariants.OnFollowed(self_, segment, record);
}

void SimShard::Installed(const log::Segment& segment) {
  world_.invariants.OnInstalled(self_, segment);
}

void SimShard::Answered(const log::Segment& segment, Epoch epoch) {
  const log::Primary& primary = *shard_->context().host(segment.id()).primary();
  world_.invariants.OnCommitted(segment.id(), epoch, primary.replicas().committed());
  world_.invariants.NoOverlap(self_, segment.id(), epoch);
}

}  // namespace paceline::sim
