// Shards whose pods stop: those that come back hand over, those that do not drain.
#include "services/coordinator/metadata/placement/stops.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/coordinator/metadata/placement/map_plan.h"
#include "services/coordinator/metadata/placement/test_replicated.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(OrdinalTest, IsTheNumberBehindTheNameOfTheSet) {
  EXPECT_EQ(OrdinalOf("ps-shard-0", "ps-shard"), 0u);
  EXPECT_EQ(OrdinalOf("ps-shard-12", "ps-shard"), 12u);
  for (const char* other :
       {"ps-shard", "ps-shard-", "ps-shard-x", "ps-shard-1x", "ps-shard-01", "ps-shard--1", "ps-shard-+1",
        "ps-shard- 1", "ps-shard-1-2", "other-shard-1", "ps-shard1", "ps-shard-99999999999"}) {
    EXPECT_EQ(OrdinalOf(other, "ps-shard"), std::nullopt) << other;
  }
}

// Answers when the test says so.
class Scale final : public WantedShards {
 public:
  const std::string& name() const override { return name_; }
  void Read(std::function<void(absl::StatusOr<uint32_t>)> done) override { asked.push_back(std::move(done)); }
  void Answer(const absl::StatusOr<uint32_t>& wanted) {
    for (const auto& done : std::exchange(asked, {})) done(wanted);
  }
  std::vector<std::function<void(absl::StatusOr<uint32_t>)>> asked;

 private:
  const std::string name_ = "shard";
};

class StopsTest : public ReplicatedTest {
 protected:
  void StartWith(uint32_t count, WantedShards* scale, uint32_t replicas = 1, bool disks = false,
                 int ring_bits = 3) {
    cluster_ = std::make_unique<TestCluster>(
        count, Options{.replicas = replicas, .ring_bits = ring_bits, .wanted_shards = scale});
    for (uint32_t i = 0; disks && i < count; ++i) shards().disks[absl::StrCat("shard-", i)];
    cluster_->JoinShards();
    cluster_->Run(absl::Seconds(1));
    ASSERT_NE(cluster_->Opened("ctr"), 0u);
  }
  Pending<v1::StopShardReply> Stop(const std::string& shard) {
    v1::StopShardRequest request;
    request.set_shard(shard);
    request.set_timeout_ms(5000);
    Pending<v1::StopShardReply> pending;
    pending.ticket = cluster_->core().StopShard(request, absl::InfiniteFuture(), pending.done());
    return pending;
  }
  std::vector<std::string> Draining() {
    std::vector<std::string> names;
    const v1::StatusReply status = cluster_->core().Status();
    for (const v1::ShardStatus& shard : status.shards()) {
      if (shard.has_drain()) names.push_back(shard.info().name());
    }
    return names;
  }
  void Work(int seconds) {
    for (int i = 0; i < 4 * seconds; ++i) {
      Obey();
      cluster_->Run(absl::Milliseconds(250));
    }
  }
  // Each shard's segments, of which it is primary or replica.
  std::map<std::string, size_t> Held() {
    std::map<std::string, size_t> held;
    const v1::StatusReply status = cluster_->core().Status();
    for (const v1::ShardStatus& shard : status.shards())
      held[shard.info().name()] = shard.primaries() + shard.replicas();
    return held;
  }
  // Its pod ends, and is to come back: the hook asks, it hands over, is told to end, and is gone.
  void EndToComeBack(const std::string& name, uint32_t wanted) {
    (void)Stop(name);
    scale_.Answer(wanted);
    v1::HandOverShardRequest request;
    request.set_shard(name);
    for (const bool leave : {false, true}) {
      request.set_leave(leave);
      Pending<v1::HandOverShardReply> pending;
      pending.ticket = cluster_->core().HandOverShard(request, absl::InfiniteFuture(), pending.done());
      Work(2);
    }
    shards().at(name).up = false;
  }
  Scale scale_;
};

TEST_F(StopsTest, AShardThatComesBackIsNotDrained) {
  StartWith(3, &scale_);
  const auto stop = Stop("shard-1");
  EXPECT_FALSE(stop.answered()) << "the number is read anew each time";
  scale_.Answer(3);
  ASSERT_THAT(stop.status(), IsOk());
  EXPECT_FALSE(stop->drains());
  EXPECT_EQ(stop->why(), "3 shards are wanted, shard-1 among them: it comes back");
  EXPECT_THAT(Draining(), IsEmpty());
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
}

TEST_F(StopsTest, NothingIsCopiedInPlaceOfAShardThatComesBack) {
  StartWith(4, &scale_, /*replicas=*/1, /*disks=*/true);
  const auto before = Held();
  EndToComeBack("shard-3", 4);
  Work(20);
  auto without = before;
  without["shard-3"] = 0;
  EXPECT_EQ(Held(), without);
  EXPECT_EQ(cluster_->core().Status().segments_under_replicated(), before.at("shard-3"));
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-3"), IsOk());
  shards().at("shard-3").up = true;
  Work(10);
  EXPECT_EQ(Held(), before);
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
}

// Moves have a bound: those that wait must not take it from others.
TEST_F(StopsTest, WhileSomeAwaitAShardOthersAreCopied) {
  StartWith(5, &scale_, /*replicas=*/1, /*disks=*/true, /*ring_bits=*/6);
  std::vector<bool> awaits;
  const uint32_t shard_4 = shards().at("shard-4").id;
  for (const v1::SegmentConfig& config : Configs()) {
    awaits.push_back(config.primary().shard() == shard_4 || config.replicas(0).shard() == shard_4);
  }
  EndToComeBack("shard-4", 5);
  shards().at("shard-3").up = false;
  for (int i = 0; i < 20; ++i) {
    DropDead();
    Work(1);
  }
  const std::vector<v1::SegmentConfig> configs = Configs();
  for (size_t s = 0; s < configs.size(); ++s) {
    EXPECT_TRUE(awaits[s] || configs[s].replicas_size() == 1) << s;
  }
}

TEST_F(StopsTest, AShardThatComesBackWithNothingIsReplacedAtOnce) {
  StartWith(4, &scale_);
  EndToComeBack("shard-3", 4);
  Work(10);
  EXPECT_EQ(cluster_->core().Status().segments_under_replicated(), 0u);
}

TEST_F(StopsTest, AShardThatDoesNotComeBackInTimeIsReplaced) {
  StartWith(4, &scale_, /*replicas=*/1, /*disks=*/true);
  EndToComeBack("shard-3", 4);
  Work(absl::ToInt64Seconds(Moves::kBackWithin) + 10);
  EXPECT_EQ(Held()["shard-3"], 0u);
  EXPECT_EQ(cluster_->core().Status().segments_under_replicated(), 0u);
}

TEST_F(StopsTest, WhatLacksAnotherCopyAsWellIsCopiedAtOnce) {
  StartWith(5, &scale_, /*replicas=*/2, /*disks=*/true);
  EndToComeBack("shard-3", 5);
  shards().at("shard-4").up = false;
  for (int i = 0; i < 10; ++i) {
    DropDead();
    Work(1);
  }
  for (const v1::SegmentConfig& config : Configs()) {
    EXPECT_GE(config.replicas_size(), 1) << "of two segments may lack the one that comes back";
  }
}

TEST_F(StopsTest, AllBeyondTheWantedNumberDrainAsOneSet) {
  StartWith(5, &scale_);
  const auto stop = Stop("shard-4");
  scale_.Answer(3);
  ASSERT_THAT(stop.status(), IsOk());
  EXPECT_TRUE(stop->drains());
  EXPECT_THAT(stop->why(), HasSubstr("shard-3, shard-4"));
  EXPECT_THAT(Draining(), ElementsAre("shard-3", "shard-4")) << "before the other one asks";
  const auto other = Stop("shard-3");
  scale_.Answer(3);
  ASSERT_THAT(other.status(), IsOk());
  EXPECT_TRUE(other->drains());
  Work(60);
  for (const v1::SegmentConfig& config : Configs()) {
    EXPECT_THAT(NameOf(config.primary()), Not(::testing::AnyOf("shard-3", "shard-4")));
  }
}

TEST_F(StopsTest, WithoutTheRightToReadItHandsOverAndSaysSo) {
  StartWith(3, &scale_);
  const auto stop = Stop("shard-2");
  scale_.Answer(absl::PermissionDeniedError("the API server refuses it: give the service account the role"));
  ASSERT_THAT(stop.status(), IsOk());
  EXPECT_FALSE(stop->drains());
  EXPECT_THAT(stop->why(), HasSubstr("give the service account the role"));
  EXPECT_THAT(cluster_->Problems(), Contains(HasSubstr("give the service account the role")));
  EXPECT_EQ(cluster_->core().gauges().problems, cluster_->Problems().size());
  EXPECT_THAT(Draining(), IsEmpty());
  cluster_->Run(Stops::kProblemLasts);
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
}

TEST_F(StopsTest, AnAnswerThatDoesNotComeIsNotWaitedFor) {
  StartWith(3, &scale_);
  const auto stop = Stop("shard-2");
  cluster_->Run(absl::Seconds(6));
  ASSERT_THAT(stop.status(), IsOk());
  EXPECT_FALSE(stop->drains());
  EXPECT_THAT(stop->why(), HasSubstr("not read in time"));
  scale_.Answer(0);
  EXPECT_THAT(Draining(), IsEmpty()) << "the answer is given already";
}

TEST_F(StopsTest, WithoutRoomItHandsOverAndSaysSo) {
  StartWith(3, &scale_);
  const auto stop = Stop("shard-2");
  scale_.Answer(1);
  ASSERT_THAT(stop.status(), IsOk());
  EXPECT_FALSE(stop->drains());
  EXPECT_THAT(stop->why(), AllOf(HasSubstr("1 shard is wanted"), HasSubstr("each segment needs 2")));
  EXPECT_THAT(Draining(), IsEmpty());
}

TEST_F(StopsTest, WithoutAStatefulSetItHandsOver) {
  StartWith(3, nullptr);
  const auto stop = Stop("shard-2");
  cluster_->Run(absl::Milliseconds(10));
  ASSERT_THAT(stop.status(), IsOk());
  EXPECT_FALSE(stop->drains());
  EXPECT_THAT(stop->why(), HasSubstr("--statefulset"));
  EXPECT_THAT(Stop("nobody").status(), StatusIs(StatusCode::kNotFound, HasSubstr("nobody")));
}

TEST_F(StopsTest, AShardThatIsWantedAgainStopsDraining) {
  StartWith(4, &scale_);
  const auto stop = Stop("shard-3");
  scale_.Answer(3);
  ASSERT_THAT(Draining(), ElementsAre("shard-3"));
  cluster_->Run(Stops::kLookAgain);
  ASSERT_FALSE(scale_.asked.empty());
  scale_.Answer(3);
  EXPECT_THAT(Draining(), ElementsAre("shard-3"));
  cluster_->Run(Stops::kLookAgain);
  scale_.Answer(absl::UnavailableError("away"));
  EXPECT_THAT(Draining(), ElementsAre("shard-3")) << "nothing is concluded from silence";
  EXPECT_THAT(cluster_->Problems(), Contains(AllOf(HasSubstr("away"), HasSubstr("drain --cancel shard-3"))));
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-3"), IsOk());
  cluster_->Run(Stops::kLookAgain);
  scale_.Answer(4);
  EXPECT_THAT(Draining(), IsEmpty());
  EXPECT_THAT(cluster_->Problems(), Not(Contains(HasSubstr("--cancel"))));
}

TEST_F(StopsTest, AShardWhosePodEndsDrainsUntilItsNextStart) {
  StartWith(5, &scale_);
  const auto stop = Stop("shard-4");
  scale_.Answer(3);
  ASSERT_THAT(Draining(), ElementsAre("shard-3", "shard-4"));
  cluster_->Run(Stops::kLookAgain);
  scale_.Answer(5);
  EXPECT_THAT(Draining(), ElementsAre("shard-4")) << "its pod was told to end; that of shard-3 was not";
  const auto again = Stop("shard-4");
  scale_.Answer(5);
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_TRUE(again->drains());
  EXPECT_THAT(again->why(), HasSubstr("until its next start"));
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-4"), IsOk());
  EXPECT_THAT(Draining(), IsEmpty())
      << "with it: a start that has nothing would be emptied before the next look";
}

TEST_F(StopsTest, AShardThatComesBackAtOnceHasItsShareAgain) {
  StartWith(4, &scale_);
  (void)Stop("shard-3");
  scale_.Answer(3);
  Work(10);
  const auto shard_3 = [this] {
    const v1::StatusReply status = cluster_->core().Status();
    return *std::ranges::find(status.shards(), "shard-3", [](const auto& s) { return s.info().name(); });
  };
  ASSERT_TRUE(shard_3().drain().may_go()) << "it has marked its folder";
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-3"), IsOk());
  Work(10);
  EXPECT_GT(shard_3().primaries() + shard_3().replicas(), 0u);
  EXPECT_THAT(cluster_->Problems(), IsEmpty());
}

TEST_F(StopsTest, AShardThatDrainsGoesOnToWhenTheNumberIsNotKnown) {
  StartWith(4, &scale_);
  (void)Stop("shard-3");
  scale_.Answer(3);
  const auto stop = Stop("shard-3");
  scale_.Answer(absl::UnavailableError("away"));
  ASSERT_THAT(stop.status(), IsOk());
  EXPECT_TRUE(stop->drains());
  EXPECT_THAT(stop->why(), AllOf(HasSubstr("drains already"), HasSubstr("away")));
}

TEST_F(StopsTest, ADrainThatNobodyEndsIsNamed) {
  StartWith(4, &scale_);
  (void)Stop("shard-3");
  scale_.Answer(3);
  ASSERT_THAT(Draining(), ElementsAre("shard-3"));
  cluster_->options.wanted_shards = nullptr;
  ASSERT_THAT(cluster_->Restart(), IsOk());
  cluster_->Run(absl::Seconds(5));
  EXPECT_THAT(Draining(), ElementsAre("shard-3"));
  EXPECT_THAT(cluster_->Problems(),
              Contains(AllOf(HasSubstr("--statefulset"), HasSubstr("drain --cancel shard-3"))));
  const auto stop = Stop("shard-3");
  cluster_->Run(absl::Milliseconds(10));
  ASSERT_THAT(stop.status(), IsOk());
  EXPECT_TRUE(stop->drains());
}

TEST_F(StopsTest, WithoutCopiesNobodyIsSaidToCopy) {
  StartWith(4, &scale_, /*replicas=*/0);
  (void)Stop("shard-3");
  scale_.Answer(3);
  ASSERT_THAT(Draining(), ElementsAre("shard-3"));
  shards().at("shard-3").up = false;
  cluster_->Run(absl::Seconds(5));
  EXPECT_THAT(cluster_->Problems(), Contains(HasSubstr("only it has segments")));
  EXPECT_THAT(cluster_->Problems(), Not(Contains(HasSubstr("are copied from others"))));
}

TEST_F(StopsTest, ADrainThatPeopleAskedForGoesOn) {
  StartWith(4, &scale_);
  v1::DrainShardsRequest request;
  request.add_shards("shard-1");
  ASSERT_THAT(cluster_->core().DrainShards(request), IsOk());
  (void)Stop("shard-3");
  scale_.Answer(3);
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-3"), IsOk());
  cluster_->Run(Stops::kLookAgain);
  scale_.Answer(4);
  EXPECT_THAT(Draining(), ElementsAre("shard-1"));
}

TEST_F(StopsTest, ADrainThatAPersonRepeatsIsThePersons) {
  StartWith(4, &scale_);
  (void)Stop("shard-3");
  scale_.Answer(3);
  v1::DrainShardsRequest request;
  request.add_shards("shard-3");
  ASSERT_THAT(cluster_->core().DrainShards(request), IsOk());
  ASSERT_THAT(shards().Join(cluster_->core(), "shard-3"), IsOk());
  cluster_->Run(Stops::kLookAgain);
  scale_.Answer(4);
  EXPECT_THAT(Draining(), ElementsAre("shard-3"));
}

TEST_F(StopsTest, AStopBeforeTheDrainEndsIsNamed) {
  StartWith(4, &scale_);
  (void)Stop("shard-3");
  scale_.Answer(3);
  ASSERT_THAT(Draining(), ElementsAre("shard-3"));
  shards().at("shard-3").up = false;
  cluster_->Run(absl::Seconds(5));
  EXPECT_THAT(cluster_->Problems(), Contains(HasSubstr("shard-3 was stopped before it was empty")));
}

}  // namespace
}  // namespace paceline::coordinator
