#include "services/shard/control/membership_client.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <limits>
#include <optional>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/world/real_clock.h"

namespace paceline::shard {
namespace {

using paceline::testing::IsOk;

constexpr CatalogueVersion kAbsurd(std::numeric_limits<uint64_t>::max());
constexpr absl::Duration kLongEnough = absl::Seconds(30);

// A coordinator whose list of tables is empty and has a version.
class FakeCoordinator : public v1::Coordinator::Service {
 public:
  FakeCoordinator() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status JoinCluster(grpc::ServerContext*, const v1::JoinClusterRequest*,
                           v1::JoinClusterReply* reply) override {
    reply->set_incarnation(1);
    return grpc::Status::OK;
  }
  grpc::Status Beat(grpc::ServerContext*, const v1::BeatRequest*, v1::BeatReply*) override {
    absl::MutexLock lock(&mutex_);
    ++beats_;
    return grpc::Status::OK;
  }
  grpc::Status GetCatalogue(grpc::ServerContext*, const v1::GetCatalogueRequest*,
                            v1::Catalogue* reply) override {
    absl::MutexLock lock(&mutex_);
    ++fetches_;
    reply->set_version(version_);
    return grpc::Status::OK;
  }

  grpc::Status Status(grpc::ServerContext*, const v1::StatusRequest*, v1::StatusReply* reply) override {
    absl::MutexLock lock(&mutex_);
    ++looks_;
    reply->set_map_version(map_version_);
    reply->set_segments_under_replicated(under_replicated_);
    return grpc::Status::OK;
  }

  void SetStatus(uint64_t map_version, uint32_t under_replicated) {
    absl::MutexLock lock(&mutex_);
    map_version_ = map_version;
    under_replicated_ = under_replicated;
    looks_ = 0;
  }
  bool AwaitLooks(int looks) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return looks_ >= looks; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), kLongEnough);
  }
  int looks() {
    absl::MutexLock lock(&mutex_);
    return looks_;
  }
  bool AwaitBeats(int beats) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return beats_ >= beats; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), kLongEnough);
  }
  int beats() {
    absl::MutexLock lock(&mutex_);
    return beats_;
  }
  int fetches() {
    absl::MutexLock lock(&mutex_);
    return fetches_;
  }
  void SetVersion(uint64_t version) {
    absl::MutexLock lock(&mutex_);
    version_ = version;
  }

 private:
  int port_ = 0;
  absl::Mutex mutex_;
  int beats_ ABSL_GUARDED_BY(mutex_) = 0;
  int looks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t map_version_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t under_replicated_ ABSL_GUARDED_BY(mutex_) = 0;
  int fetches_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 1;
  std::unique_ptr<grpc::Server> server_;
};

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() {
    v1::InstallRequest request;
    request.mutable_map()->set_version(1);
    v1::SegmentConfig* segment = request.mutable_map()->add_segments();
    segment->set_epoch(1);
    segment->mutable_primary()->set_incarnation(1);
    v1::ShardInfo* info = request.mutable_map()->add_shards();
    info->set_name("shard-0");
    info->set_address("127.0.0.1:1");
    info->set_incarnation(1);
    EXPECT_THAT(shard.Install(request), IsOk());
  }
  void Start() {
    membership.emplace(shard, coordinator.address(), v1::JoinClusterRequest(), [](const absl::Status&) {});
  }
  uint64_t Held() { return shard.view()->catalogue->version().v; }

  const world::RealClock clock;
  Probe probe;
  Shard shard{{}, clock, probe};
  FakeCoordinator coordinator;
  std::optional<MembershipClient> membership;
};

TEST_F(MembershipTest, AnAbsurdVersionNeitherStopsTheBeatsNorHammersTheCoordinator) {
  constexpr int kBeats = 3;
  Start();
  std::atomic<bool> enough = false;
  std::atomic<bool> refused = false;
  std::thread client([&] {
    while (!enough) refused = !shard.context().CatalogueWanted(kAbsurd) || refused;
  });
  EXPECT_TRUE(coordinator.AwaitBeats(kBeats));
  enough = true;
  client.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(Held(), 1u) << "what there is was fetched";
  // After each beat it is believed once more; what was named while the fetch was under way is one other.
  EXPECT_LE(coordinator.fetches(), 2 * (kBeats + 2));
}

TEST_F(MembershipTest, AVersionThatExistsIsFetchedThoughAnAbsurdOneWasNamed) {
  Start();
  ASSERT_TRUE(coordinator.AwaitBeats(1));
  const absl::Time limit = world::MonotonicNow() + kLongEnough;
  while (shard.context().CatalogueWanted(kAbsurd)) {
    ASSERT_TRUE(world::MonotonicNow() < limit) << "the absurd version is still wanted";
    std::this_thread::yield();
  }
  coordinator.SetVersion(2);
  while (Held() < 2 && world::MonotonicNow() < limit) {
    shard.context().CatalogueWanted(CatalogueVersion(2));
    std::this_thread::yield();
  }
  EXPECT_EQ(Held(), 2u);
}

TEST_F(MembershipTest, TellsOnceThatTheClusterIsWhole) {
  std::atomic<int> told = 0;
  membership.emplace(
      shard, coordinator.address(), v1::JoinClusterRequest(), [](const absl::Status&) {}, [&] { ++told; });
  ASSERT_TRUE(coordinator.AwaitLooks(1));
  EXPECT_EQ(told, 0) << "there is no map";
  coordinator.SetStatus(/*map_version=*/1, /*under_replicated=*/2);
  ASSERT_TRUE(coordinator.AwaitLooks(2));
  EXPECT_EQ(told, 0) << "copies are missing";
  coordinator.SetStatus(/*map_version=*/2, /*under_replicated=*/0);
  const absl::Time limit = world::MonotonicNow() + kLongEnough;
  while (told == 0 && world::MonotonicNow() < limit) std::this_thread::yield();
  EXPECT_EQ(told, 1);
  coordinator.SetStatus(/*map_version=*/3, /*under_replicated=*/5);
  const int beats = coordinator.beats();
  ASSERT_TRUE(coordinator.AwaitBeats(beats + 2));
  EXPECT_EQ(coordinator.looks(), 0) << "nobody wants to know any more";
  EXPECT_EQ(told, 1);
}

TEST_F(MembershipTest, StreamsMayAskWhileItEnds) {
  std::atomic<bool> enough = false;
  std::thread client([&] {
    while (!enough) shard.context().CatalogueWanted(kAbsurd);
  });
  for (int i = 0; i < 50; ++i) {
    Start();
    membership.reset();
  }
  enough = true;
  client.join();
}

}  // namespace
}  // namespace paceline::shard
