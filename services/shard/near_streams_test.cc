#include "services/shard/near_streams.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "libs/base/feature_level.h"
#include "libs/base/mutex.h"
#include "libs/shm/dial.h"
#include "libs/shm/handover.h"
#include "libs/world/real_clock.h"
#include "services/shard/probe.h"

namespace paceline::shard {
namespace {

using world::StreamKind;

constexpr absl::Duration kSoon = absl::Seconds(60);
constexpr char kAddress[] = "127.0.0.1:1";
constexpr char kPeerAddress[] = "127.0.0.1:2";

class SilentCaller final : public world::StreamHandler {
 public:
  void OnFrame(absl::Cord) override {}
  bool NextFrame(absl::Cord*) override { return false; }
  void OnBroken(absl::Status) override { broken.Notify(); }
  Notification broken;
};

class NearStreamsTest : public ::testing::Test {
 protected:
  NearStreamsTest() {
    char name[] = "/tmp/paceline-shm-XXXXXX";
    folder_ = mkdtemp(name);
    KnowLevel(kFeatureLevel);
  }
  ~NearStreamsTest() override {
    near_.reset();
    std::filesystem::remove_all(folder_);
  }

  void KnowLevel(uint32_t level) {
    shard_.Identify({.shard = ShardId(1), .incarnation = Incarnation(2)}, /*cluster=*/3, level);
  }
  void Serve(const std::string& peer_address = kPeerAddress) {
    auto near =
        NearStreams::Serve(shard_, {.folder = folder_, .address = kAddress, .peer_address = peer_address});
    ASSERT_TRUE(near.ok()) << near.status();
    near_ = *std::move(near);
  }
  // Whether the shard takes such a stream at this address.
  bool Takes(StreamKind kind, const std::string& address) {
    const auto counts = near_->counts();
    const auto taken = [&] {
      return counts.clients->taken + (counts.shards == nullptr ? 0 : counts.shards->taken.load());
    };
    const uint64_t before = taken();
    const auto caller = std::make_shared<SilentCaller>();
    Notification refused;
    auto port = shm::Dial(loop_, *shm::SocketPath(folder_, address), kind, caller,
                          {.refused = [&](const absl::Status&) { refused.Notify(); }});
    EXPECT_TRUE(port.ok()) << port.status();
    const absl::Time end = world::MonotonicNow() + kSoon;
    while (!refused.HasBeenNotified() && taken() == before && world::MonotonicNow() < end) {
      loop_.CarryUntil([&] { return refused.HasBeenNotified() || taken() > before; });
    }
    const bool takes = taken() > before;
    EXPECT_NE(takes, refused.HasBeenNotified());
    *port = nullptr;
    EXPECT_TRUE(caller->broken.WaitForNotificationWithTimeout(kSoon));  // before what it refers to is gone
    return takes;
  }

  std::string folder_;
  const world::RealClock clock_;
  Probe probe_;
  Shard shard_{{.name = "shard-1", .executors = 1}, clock_, probe_};
  std::unique_ptr<NearStreams> near_;
  carrier::Loop loop_{{}};
};

TEST_F(NearStreamsTest, EachSocketServesWhatItsAddressServes) {
  Serve();
  for (const StreamKind kind : {StreamKind::kPush, StreamKind::kPull, StreamKind::kSubscribe}) {
    EXPECT_TRUE(Takes(kind, kAddress));
    EXPECT_FALSE(Takes(kind, kPeerAddress));
  }
  EXPECT_FALSE(Takes(StreamKind::kReplicate, kAddress));
  EXPECT_TRUE(Takes(StreamKind::kReplicate, kPeerAddress));
  EXPECT_EQ(near_->counts().clients->taken, 3u);
  EXPECT_EQ(near_->counts().shards->taken, 1u);
}

TEST_F(NearStreamsTest, AmongShardsOfLevelOneClientsSocketServesShardsToo) {
  KnowLevel(1);
  Serve();
  EXPECT_TRUE(Takes(StreamKind::kReplicate, kAddress));
  EXPECT_TRUE(Takes(StreamKind::kReplicate, kPeerAddress));
}

TEST_F(NearStreamsTest, OneAddressForBothIsOneSocket) {
  Serve(kAddress);
  EXPECT_TRUE(Takes(StreamKind::kPush, kAddress));
  EXPECT_TRUE(Takes(StreamKind::kReplicate, kAddress));
  EXPECT_EQ(near_->counts().shards, nullptr);
}

}  // namespace
}  // namespace paceline::shard
