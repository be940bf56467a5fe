// Takeovers under faults.
#include <utility>

#include "services/coordinator/metadata/placement/test_replicated.h"

namespace paceline::coordinator {
namespace {

using ::paceline::testing::IsOk;
using Fault = FaultyStore::Fault;

class TakeoverTest : public ReplicatedTest {
 protected:
  // Each replica of a segment that `dead` was primary of wishes again until it knows of a newer epoch.
  void WishAgain(const v1::Member& dead) {
    for (auto& [name, shard] : shards().all()) {
      std::vector<v1::ConfigWish> wishes;
      for (uint32_t s = 0; s < static_cast<uint32_t>(shard.map.segments_size()); ++s) {
        const v1::SegmentConfig& config = shard.map.segments(static_cast<int>(s));
        if (!Same(config.primary(), dead) || !HasReplica(config, shard.member())) continue;
        wishes.push_back(WishOf(v1::ConfigWish::PROMOTE, s, config.epoch()));
      }
      if (shard.up && !wishes.empty()) (void)shards().Wish(cluster_->core(), name, wishes);
    }
  }
  // An epoch of a segment is one configuration, for everybody who hears of it.
  void CheckTold() {
    for (const auto& [name, shard] : shards().all()) {
      for (int s = 0; s < shard.map.segments_size(); ++s) {
        const v1::SegmentConfig& config = shard.map.segments(s);
        const auto [it, first] = told_.try_emplace({s, config.epoch()}, config.SerializeAsString());
        ASSERT_EQ(it->second, config.SerializeAsString()) << name << " segment " << s;
      }
    }
  }

  std::map<std::pair<int, uint64_t>, std::string> told_;
};

TEST_F(TakeoverTest, EndsDespiteFaultsAndAnEpochIsOneConfiguration) {
  for (const Fault fault : {Fault::kNone, Fault::kCrashAfter, Fault::kFailBefore, Fault::kFailAfter}) {
    for (int at = 1; at <= 3; ++at) {
      for (int lost = 0; lost < 12; ++lost) {
        SCOPED_TRACE(::testing::Message()
                     << "fault " << static_cast<int>(fault) << " at " << at << " lost " << lost);
        told_.clear();
        Start(2, 4);
        CheckTold();
        const v1::Member dead = Config(0).primary();
        ShardOf(dead).up = false;
        cluster_->store().Plan(fault, at);
        int calls = 0;
        shards().hold = [&calls, lost](const std::string& call, auto&) {
          return call == "Fence" && ++calls == lost;
        };
        for (int step = 0; step < 100; ++step) {
          if (step == 50) shards().LetGo();  // it was not lost, but late
          WishAgain(dead);
          cluster_->Run(absl::Milliseconds(step % 3 == 0 ? 10 : 100));
          CheckTold();
          if (cluster_->store().crashed()) {
            ASSERT_THAT(cluster_->Restart(), IsOk());
          }
        }
        for (const auto& config : Configs()) {
          EXPECT_FALSE(Same(config.primary(), dead));
          EXPECT_TRUE(ShardOf(config.primary()).up);
        }
        for (auto& [name, shard] : shards().all()) {
          if (!shard.up) continue;
          EXPECT_EQ(shard.map.version(), Map().version()) << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::coordinator
