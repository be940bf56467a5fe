#include "tests/sim/sim_shard.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kBeatEvery = absl::Milliseconds(200);
constexpr absl::Duration kRetryAfter = absl::Milliseconds(50);
constexpr absl::Duration kCallTimeout = absl::Seconds(1);
constexpr absl::Duration kOnTimeEvery = absl::Milliseconds(30);

}  // namespace

shard::ShardOptions OptionsOf(uint32_t index) {
  shard::ShardOptions options;
  options.name = absl::StrCat("shard-", index);
  options.executors = 2;
  options.window_bytes = 9 * 1024;
  options.pull_timeout_max = absl::Seconds(2);
  return options;
}

SimShard::SimShard(World& world, SimCoordinator& coordinator, uint32_t index)
    : world_(world),
      coordinator_(coordinator),
      address_(absl::StrCat("shard-", index, ":1")),
      host_{.name = absl::StrCat("shard-", index)},
      nonce_(world.random.Next()),
      shard_(OptionsOf(index), world.clock, *this) {}

void SimShard::Start() {
  coordinator_.AddShard(address_, shard_, host_);
  shard_.OnWantCatalogue([this](CatalogueVersion) { FetchCatalogue(); });
  world_.network.Listen(address_, host_, [this](world::StreamKind kind) {
    return kind == world::StreamKind::kPush ? shard_.NewPushStream() : shard_.NewPullStream();
  });
  Join();
  OnTime();
}

void SimShard::Join() {
  v1::JoinClusterRequest request;
  request.set_feature_level(1);
  request.set_name(host_.name);
  request.set_address(address_);
  request.set_nonce(nonce_);
  world_.calls.Call<v1::JoinClusterReply>(
      host_, coordinator_.host(), kCallTimeout,
      [this, request](auto answer) {
        coordinator_.Visit([&](auto& core) { answer(core.JoinCluster(request)); });
      },
      [this](absl::StatusOr<v1::JoinClusterReply> reply) {
        if (!reply.ok()) return world_.scheduler.After(kRetryAfter, [this] { Join(); });
        self_ = {.shard = ShardId(reply->shard()), .incarnation = Incarnation(reply->incarnation())};
        shard_.Identify(self_);
        Beat();
      });
}

void SimShard::Beat() {
  if (host_.Paused(world_.Now())) return world_.scheduler.At(host_.paused_until, [this] { Beat(); });
  shard_.Describe([this](v1::BeatRequest beat) {
    world_.calls.Call<v1::BeatReply>(
        host_, coordinator_.host(), kCallTimeout,
        [this, beat](auto answer) { coordinator_.Visit([&](auto& core) { answer(core.Beat(beat)); }); },
        [this, beat](absl::StatusOr<v1::BeatReply> reply) {
          if (reply.ok() && reply->catalogue_version() > beat.catalogue_version()) FetchCatalogue();
          world_.scheduler.After(reply.ok() ? kBeatEvery : kRetryAfter, [this] { Beat(); });
        });
  });
}

void SimShard::FetchCatalogue() {
  world_.calls.Call<v1::Catalogue>(
      host_, coordinator_.host(), kCallTimeout,
      [this](auto answer) { coordinator_.Visit([&](auto& core) { answer(core.GetCatalogue()); }); },
      [this](absl::StatusOr<v1::Catalogue> reply) {
        if (!reply.ok()) return;
        v1::InstallRequest install;
        *install.mutable_catalogue() = *std::move(reply);
        (void)shard_.Install(install);
      });
}

void SimShard::OnTime() {
  if (!host_.Paused(world_.Now())) shard_.OnTime();
  world_.scheduler.After(kOnTimeEvery, [this] { OnTime(); });
}

void SimShard::ForEachPrimary(const std::function<void(log::Primary&)>& visit) {
  shard_.ForEachSegment(
      [&](shard::SegmentHost& host) {
        if (host.primary() != nullptr) visit(*host.primary());
      },
      [] {});
}

void SimShard::OnPushHandled() {
  ForEachPrimary([this](log::Primary& primary) { world_.invariants.OnCounted(primary.segment()); });
}

void SimShard::Logged(const log::Segment& segment, Epoch epoch, const log::Record& record) {
  world_.invariants.OnLogged(self_, segment, epoch, record);
}

}  // namespace paceline::sim
