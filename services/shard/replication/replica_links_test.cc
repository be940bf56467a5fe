#include "services/shard/replication/replica_links.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/replicate_frame.h"
#include "services/shard/shard.h"

namespace paceline::shard {
namespace {

using ::paceline::testing::IsOk;
using Said = v1::ReplicateRequest::Segment;

constexpr uint64_t kCluster = 77;
constexpr ring::Member kSelf{.shard = ShardId(3), .incarnation = Incarnation(5)};
constexpr ring::Member kOther{.shard = ShardId(4), .incarnation = Incarnation(6)};

class TestClock : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch();
};

class Port : public world::StreamPort {
 public:
  void Kick() override {}
  void Close(absl::Status) override {}
};

class OnePeer : public Peers, public world::Dialer {
 public:
  world::Dialer& dialer() override { return *this; }
  void ChangeConfigs(v1::ChangeConfigsRequest request,
                     std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> done) override {
    wishes.push_back(std::move(request));
    answer = std::move(done);
  }
  std::unique_ptr<world::StreamPort> Dial(const std::string&, world::StreamKind,
                                          std::shared_ptr<world::StreamHandler> handler) override {
    stream = std::move(handler);
    return std::make_unique<Port>();
  }
  std::shared_ptr<world::StreamHandler> stream;
  std::vector<v1::ChangeConfigsRequest> wishes;
  std::function<void(absl::StatusOr<v1::ChangeConfigsReply>)> answer;  // to the last
};

v1::InstallRequest Map() {
  v1::InstallRequest request;
  request.mutable_map()->set_version(1);
  request.mutable_map()->set_cluster(kCluster);
  v1::SegmentConfig* segment = request.mutable_map()->add_segments();
  segment->set_epoch(1);
  *segment->mutable_primary() = wire::ToProto(kSelf);
  for (const ring::Member& member : {kSelf, kOther}) {
    v1::ShardInfo* info = request.mutable_map()->add_shards();
    info->set_shard(member.shard.v);
    info->set_name(absl::StrCat("shard-", member.shard.v));
    info->set_address("127.0.0.1:1");
    info->set_incarnation(member.incarnation.v);
  }
  *request.mutable_target() = wire::ToProto(kSelf);
  return request;
}

Said Records(uint32_t segment, uint64_t lsn, uint32_t records, uint64_t committed = 0) {
  Said said;
  said.set_segment(segment);
  said.set_epoch(1);
  said.set_lsn(lsn);
  said.set_lsn_epoch(1);
  said.set_records(records);
  said.set_committed(committed);
  return said;
}

// A link of shard 3 to shard 4, which has said hello.
class ReplicaLinksTest : public ::testing::Test {
 protected:
  ReplicaLinksTest() {
    shard.Identify(kSelf, kCluster);
    EXPECT_THAT(shard.Install(Map()), IsOk());
    EXPECT_EQ(links->Link(kOther), 0u) << "it is being dialed";
    absl::Cord hello;
    EXPECT_TRUE(peer.stream->NextFrame(&hello));
    v1::ReplicateReply answer;
    *answer.mutable_hello()->mutable_from() = wire::ToProto(kOther);
    peer.stream->OnFrame(absl::Cord(answer.SerializeAsString()));
    EXPECT_NE(links->Link(kOther), 0u);
  }
  ~ReplicaLinksTest() override { links->Stop(); }

  wire::ReplicateFrame Next() {
    absl::Cord bytes;
    EXPECT_TRUE(peer.stream->NextFrame(&bytes));
    auto frame = wire::DecodeReplicate(bytes);
    EXPECT_THAT(frame, IsOk());
    return frame.value_or(wire::ReplicateFrame());
  }

  TestClock clock;
  Probe probe;
  OnePeer peer;
  Shard shard{{.name = "shard-3"}, clock, probe};
  std::shared_ptr<ReplicaLinks> links = std::make_shared<ReplicaLinks>(shard.context(), peer);
};

TEST_F(ReplicaLinksTest, SegmentsShareAFrame) {
  v1::Beacon beacon;
  beacon.set_segment(9);
  links->Send(kOther, Records(1, 10, 1), absl::Cord("one"));
  links->Send(kOther, Records(2, 20, 1), absl::Cord("two"));
  links->Send(kOther, beacon);
  const wire::ReplicateFrame frame = Next();
  EXPECT_EQ(frame.head.beacons_size(), 1);
  ASSERT_EQ(frame.head.segments_size(), 2);
  EXPECT_EQ(frame.head.segments(0).lsn(), 10u);
  EXPECT_THAT(frame.Bodies(), ::testing::ElementsAre("one", "two"));
  absl::Cord none;
  EXPECT_FALSE(peer.stream->NextFrame(&none));
}

// As one that stands still, whose link over shared memory stays.
TEST_F(ReplicaLinksTest, BeaconsForAPeerThatReadsNothingAreBounded) {
  for (int i = 0; i < 100'000; ++i) links->Send(kOther, v1::Beacon());
  EXPECT_EQ(Next().head.beacons_size(), 1 << 16);
  links->Send(kOther, v1::Beacon());
  EXPECT_EQ(Next().head.beacons_size(), 1);
}

TEST_F(ReplicaLinksTest, RecordsThatFollowEachOtherAreSaidInOne) {
  links->Send(kOther, Records(1, 10, 2, /*committed=*/9), absl::Cord("ab"));
  links->Send(kOther, Records(2, 20, 1), absl::Cord("x"));
  links->Send(kOther, Records(1, 12, 1, /*committed=*/11), absl::Cord("c"));
  const wire::ReplicateFrame frame = Next();
  ASSERT_EQ(frame.head.segments_size(), 2);
  EXPECT_EQ(frame.head.segments(0).records(), 3u);
  EXPECT_EQ(frame.head.segments(0).committed(), 11u);
  EXPECT_THAT(frame.Bodies(), ::testing::ElementsAre("abc", "x"));
  links->Send(kOther, Records(1, 13, 1), absl::Cord("d"));
  EXPECT_EQ(Next().head.segments(0).lsn(), 13u) << "what was before is on its way";
}

TEST_F(ReplicaLinksTest, RecordsThatDoNotFollowAreNotMerged) {
  links->Send(kOther, Records(1, 10, 2), absl::Cord("ab"));
  links->Send(kOther, Records(1, 10, 2), absl::Cord("ab"));  // again
  Said anew = Records(1, 12, 1);
  anew.set_transfer(4);
  links->Send(kOther, anew, absl::Cord("c"));
  links->Send(kOther, Records(1, 13, 0), {});  // a question where it stands
  Said newer = Records(1, 13, 1);
  newer.set_epoch(2);
  links->Send(kOther, newer, absl::Cord("d"));
  EXPECT_THAT(Next().Bodies(), ::testing::ElementsAre("ab", "ab", "c", "", "d"));
}

TEST_F(ReplicaLinksTest, AFrameIsNoLongerThanItsSegments) {
  const absl::Cord half(std::string(600'000, 'r'));
  for (uint64_t lsn = 0; lsn < 5; ++lsn) links->Send(kOther, Records(1, lsn, 1), half);
  for (const int segments : {2, 2, 1}) EXPECT_EQ(Next().head.segments_size(), segments);
}

TEST_F(ReplicaLinksTest, FramesOfABrokenLinkAreLost) {
  links->Send(kOther, Records(1, 10, 1), absl::Cord("lost"));
  const auto old = std::exchange(peer.stream, nullptr);
  old->OnBroken(absl::UnavailableError("gone"));
  EXPECT_EQ(links->Link(kOther), 0u);
  EXPECT_EQ(peer.stream, nullptr) << "not at once";
  clock.now += absl::Seconds(1);
  EXPECT_EQ(links->Link(kOther), 0u);
  ASSERT_NE(peer.stream, nullptr);
  absl::Cord hello;
  ASSERT_TRUE(peer.stream->NextFrame(&hello));
  v1::ReplicateReply answer;
  *answer.mutable_hello()->mutable_from() = wire::ToProto(kOther);
  peer.stream->OnFrame(absl::Cord(answer.SerializeAsString()));
  links->Send(kOther, Records(1, 11, 1), absl::Cord("kept"));
  EXPECT_THAT(Next().Bodies(), ::testing::ElementsAre("kept"));
}

v1::ConfigWish WishOf(uint32_t segment, v1::ConfigWish::Kind kind) {
  v1::ConfigWish wish;
  wish.set_segment(segment);
  wish.set_epoch(1);
  wish.set_kind(kind);
  return wish;
}

// Nobody serves a segment between the wish to hand it over and its answer.
TEST_F(ReplicaLinksTest, AWishToHandOverDoesNotWaitForAVisit) {
  links->Wish(WishOf(1, v1::ConfigWish::DROP));
  EXPECT_TRUE(peer.wishes.empty()) << "others gather";
  links->Wish(WishOf(2, v1::ConfigWish::SWAP));
  ASSERT_EQ(peer.wishes.size(), 1u);
  EXPECT_EQ(peer.wishes[0].wishes_size(), 2);
  links->Wish(WishOf(3, v1::ConfigWish::SWAP));
  links->Wish(WishOf(4, v1::ConfigWish::SWAP));
  ASSERT_EQ(peer.wishes.size(), 1u) << "one request at a time";
  peer.answer(v1::ChangeConfigsReply());
  ASSERT_EQ(peer.wishes.size(), 2u);
  EXPECT_EQ(peer.wishes[1].wishes_size(), 2);
  peer.answer(absl::UnavailableError("gone"));
  EXPECT_EQ(peer.wishes.size(), 2u) << "segments repeat their wishes";
}

}  // namespace
}  // namespace paceline::shard
