#include "tests/sim/sim_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/wire/map_codec.h"
#include "services/coordinator/metadata/keys.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kShardTimeout = absl::Seconds(2);

}  // namespace

absl::Status FailingStore::Commit(absl::Span<const coordinator::Condition> conditions,
                                  absl::Span<const coordinator::Write> writes) {
  const Failure failure = std::exchange(next, Failure::kNone);
  if (failure != Failure::kNone) ++failed;
  if (failure != Failure::kBefore) {
    const absl::Status status = store_->Commit(conditions, writes);
    if (status.ok()) committed_(writes);
    if (failure == Failure::kNone) return status;
  }
  return absl::UnavailableError("the disk does not answer");
}

SimCoordinator::SimCoordinator(World& world, coordinator::Options options)
    : world_(world),
      options_(std::move(options)),
      disk_(std::make_shared<coordinator::MemoryStore::Disk>()) {}

SimCoordinator::~SimCoordinator() = default;

void SimCoordinator::Start() {
  ++starts_;
  store_ = std::make_unique<FailingStore>(*coordinator::MemoryStore::Open(disk_),
                                          [this](auto writes) { OnCommitted(writes); });
  auto core = coordinator::CoordinatorCore::Create(options_, *store_, world_.clock, *this, *this);
  if (!core.ok()) {
    world_.verdict.Violated("Progress",
                            absl::StrCat("the coordinator does not start: ", core.status().ToString()));
    return;
  }
  core_ = *std::move(core);
  host_.up = true;
  armed_ = absl::InfiniteFuture();
  Arm();
}

void SimCoordinator::Kill() {
  host_.up = false;
  core_.reset();
  store_.reset();
  world_.calls.Cut(host_);
}

void SimCoordinator::Visit(const std::function<void(coordinator::CoordinatorCore&)>& visit) {
  if (core_ == nullptr) return;
  visit(*core_);
  Arm();
}

void SimCoordinator::Arm() {
  if (core_ == nullptr) return;
  const absl::Time next = std::max(core_->NextDeadline(), world_.Now());
  if (next >= armed_) return;
  armed_ = next;
  world_.scheduler.At(next, [this, start = starts_] { OnTime(start); });
}

void SimCoordinator::OnTime(uint64_t start) {
  if (start != starts_ || core_ == nullptr) return;
  if (host_.Paused(world_.Now())) {
    world_.scheduler.At(host_.paused_until, [this, start] { OnTime(start); });
    return;
  }
  if (world_.Now() < armed_) return;
  armed_ = absl::InfiniteFuture();
  if (core_->NextDeadline() <= world_.Now()) core_->OnTime();
  Arm();
}

void SimCoordinator::Install(ShardId, const std::string& address, v1::InstallRequest request,
                             InstallDone done) {
  const Target target = shards_.at(address);
  world_.calls.Call<v1::InstallReply>(
      host_, *target.host, kShardTimeout,
      [target, request = std::move(request)](auto answer) { answer(target.shard->Install(request)); },
      [this, done = std::move(done)](auto reply) {
        done(std::move(reply));
        Arm();
      });
}

void SimCoordinator::ChangeSession(ShardId, const std::string& address, v1::SessionChange change,
                                   ChangeDone done) {
  const Target target = shards_.at(address);
  world_.calls.Call<v1::SessionChangeReply>(
      host_, *target.host, kShardTimeout,
      [target, change = std::move(change)](auto answer) { target.shard->ChangeSession(change, answer); },
      [this, done = std::move(done)](auto reply) {
        done(std::move(reply));
        Arm();
      });
}

// What is decided is what is in the store.
void SimCoordinator::OnCommitted(absl::Span<const coordinator::Write> writes) {
  using coordinator::SessionRecord;
  for (const coordinator::Write& write : writes) {
    if (!write.value.has_value()) continue;
    if (v1::Map map; write.key == coordinator::keys::kMap && map.ParseFromString(*write.value)) OnMap(map);
    SessionRecord record;
    if (!absl::StartsWith(write.key, coordinator::keys::kSessions)) continue;
    if (!record.ParseFromString(*write.value)) continue;
    const SessionId id(record.id());
    world_.Trace(absl::StrCat("session ", id.v, " (", record.client(), ") is ",
                              SessionRecord::State_Name(record.state()), " ", record.reason()));
    TrueSession* truth = world_.truth.Find(id);
    if (truth == nullptr) truth = &world_.truth.Add(id, record.client());
    if (record.state() == SessionRecord::JOINING) truth->start = record.start_clock();
    truth->worker |= record.state() == SessionRecord::JOINING;
    truth->finished |= record.state() == SessionRecord::FINISHED;
    truth->closing |= record.state() == SessionRecord::CLOSING;
  }
}

// Owned: every key has one segment, every segment one configuration on distinct shards. (Which a SegmentMap
// guarantees; beyond it, nothing goes back.)
void SimCoordinator::OnMap(const v1::Map& map) {
  const auto valid = wire::MapFromProto(map);
  if (!valid.ok()) world_.verdict.Violated("Owned", valid.status().ToString());
  if (map.version() < map_.version()) {
    world_.verdict.Violated("Owned", absl::StrCat("map ", map.version(), " follows map ", map_.version()));
  }
  for (int s = 0; s < std::min(map_.segments_size(), map.segments_size()); ++s) {
    const v1::SegmentConfig& before = map_.segments(s);
    const v1::SegmentConfig& now = map.segments(s);
    const bool same = before.SerializeAsString() == now.SerializeAsString();
    if (same ? now.epoch() == before.epoch() : now.epoch() > before.epoch()) continue;
    world_.verdict.Violated("Owned", absl::StrCat("segment ", s, ": another configuration in epoch ",
                                                  now.epoch(), ", before it was ", before.epoch()));
  }
  map_ = map;
}

void SimCoordinator::SessionMoved(const coordinator::SessionRecord& session,
                                  coordinator::SessionRecord::State was) {
  using coordinator::SessionRecord;
  if (session.state() == SessionRecord::CLOSING && was != SessionRecord::CLOSING) {
    if (session.evicted())
      world_.marks.Hit(session.join_refused() ? "a join is refused" : "a session is evicted");
    if (was == SessionRecord::FINISHING) world_.marks.Hit("a session is closed while it finishes");
    if (was == SessionRecord::JOINING) world_.marks.Hit("a session is closed while it joins");
  }
}

void SimCoordinator::Paused(absl::Duration) {
  world_.marks.Hit("the coordinator finds that it was paused");
}

}  // namespace paceline::sim
