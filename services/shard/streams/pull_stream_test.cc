// How a pull stream keeps from making replies faster than they are sent.
#include "services/shard/streams/pull_stream.h"

#include <deque>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/feature_level.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/log/testing.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "services/shard/shard.h"

namespace paceline::shard {
namespace {

using paceline::testing::IsOk;

constexpr uint64_t kKey = 7;
constexpr size_t kManyKeys = 600'000;  // whose rows are more than may wait to be sent

class StandingClock : public world::Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
};

class CountingProbe : public Probe {
 public:
  void PullServed(uint64_t, uint64_t, absl::Duration, absl::Duration, absl::Duration) override { ++served; }
  int served = 0;
};

// A connection that takes nothing until it is asked to.
class SlowPort : public world::StreamPort {
 public:
  void Kick() override {}
  void Close(absl::Status) override { closed = true; }
  void ReadOn() override { read_on(); }
  bool closed = false;
  std::function<void()> read_on;
};

class PullStreamTest : public ::testing::Test {
 protected:
  PullStreamTest() : shard({}, clock, probe) {
    shard.Identify({.shard = ShardId(0), .incarnation = Incarnation(1)});
    v1::InstallRequest request;
    request.mutable_map()->set_version(1);
    request.mutable_map()->add_segments()->set_epoch(1);
    request.mutable_map()->mutable_segments(0)->mutable_primary()->set_incarnation(1);
    v1::ShardInfo* info = request.mutable_map()->add_shards();
    info->set_name("shard-0");
    info->set_address("127.0.0.1:1");
    info->set_incarnation(1);
    request.mutable_catalogue()->set_version(1);
    v1::Table* table = request.mutable_catalogue()->add_tables();
    table->set_id(1);
    table->set_job(1);
    table->set_name("t");
    table->mutable_schema()->set_kind(v1::TABLE_KIND_SPARSE);
    table->mutable_schema()->set_dim(2);
    table->mutable_schema()->mutable_rule()->mutable_add();
    EXPECT_THAT(shard.Install(request), IsOk());
    const v1::Change open = log::ChangeOf(v1::Change::kOpen, SessionId(5), JobId(1));
    shard.MakeChange(open, [](const auto& reply) { EXPECT_THAT(reply, IsOk()); });
    stream = shard.NewPullStream();
    port->read_on = [this] { Deliver(); };
    stream->Attach(port);
    wire::Frame<v1::PullRequest> hello;
    hello.head.mutable_hello()->set_feature_level(kFeatureLevel);
    hello.head.mutable_hello()->set_job(1);
    hello.head.mutable_hello()->set_session(5);
    stream->OnFrame(wire::Encode(hello));
    EXPECT_EQ(NextRequest(), 0u) << "the welcome";
  }
  ~PullStreamTest() override { stream->OnBroken(absl::CancelledError("the test is over")); }

  void Pull(uint64_t request, size_t keys, uint64_t min_clock = 0, uint32_t priority = 0) {
    wire::Frame<v1::PullRequest> frame;
    frame.head.set_request(request);
    frame.head.set_table(1);
    frame.head.set_min_clock(min_clock);
    frame.head.set_priority(priority);
    wire::Append(wire::PartEntry{SegmentId(0), static_cast<uint32_t>(keys), Epoch(1), 0},
                 *frame.head.mutable_parts());
    const std::vector<uint64_t> all(keys, kKey);
    frame.keys = absl::Cord(
        absl::string_view(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(uint64_t)));
    unread.push_back(wire::Encode(frame));
    Deliver();
  }
  void Deliver() {
    while (!unread.empty() && stream->TakesFrame()) {
      const absl::Cord frame = std::move(unread.front());
      unread.pop_front();
      stream->OnFrame(frame);
    }
  }
  // The request that the next reply answers; nullopt: there is none.
  std::optional<uint64_t> NextRequest() {
    absl::Cord frame;
    if (!stream->NextFrame(&frame)) return std::nullopt;
    return wire::Decode<v1::PullReply>(frame).value().head.request();
  }

  StandingClock clock;
  CountingProbe probe;
  Shard shard;
  std::shared_ptr<SlowPort> port = std::make_shared<SlowPort>();
  std::shared_ptr<world::AcceptedStream> stream;
  std::deque<absl::Cord> unread;  // frames that have come and that the stream does not take yet
};

TEST_F(PullStreamTest, NoPullIsReadWhileRepliesWaitToBeSent) {
  Pull(1, kManyKeys);
  Pull(2, 1);
  Pull(3, 1);
  EXPECT_EQ(probe.served, 1);
  EXPECT_EQ(NextRequest(), 1u);
  EXPECT_EQ(NextRequest(), 2u);
  EXPECT_EQ(NextRequest(), 3u);
  EXPECT_EQ(NextRequest(), std::nullopt);
  EXPECT_EQ(probe.served, 3);
}

TEST_F(PullStreamTest, AWaitingPullHoldsUpNoOther) {
  Pull(1, kManyKeys);
  Pull(2, 1, /*min_clock=*/9);  // nobody has joined: it waits
  Pull(3, 1);
  EXPECT_EQ(NextRequest(), 1u);
  EXPECT_EQ(NextRequest(), 3u);
  EXPECT_EQ(NextRequest(), std::nullopt);
}

TEST_F(PullStreamTest, AnUrgentReplyOvertakesThoseThatWait) {
  Pull(1, 1, 0, /*priority=*/4);
  Pull(2, 1, 0, /*priority=*/4);
  Pull(3, 1, 0, /*priority=*/1);
  EXPECT_EQ(NextRequest(), 3u);
  EXPECT_EQ(NextRequest(), 1u);
  EXPECT_EQ(NextRequest(), 2u);
}

TEST_F(PullStreamTest, AnUrgentRequestOvertakesThoseThatWaitForRoom) {
  Pull(1, kManyKeys, 0, /*priority=*/4);
  Pull(2, 1, 0, /*priority=*/4);
  Pull(3, 1, 0, /*priority=*/0);
  EXPECT_EQ(probe.served, 1) << "no rows are read while replies wait to be sent";
  EXPECT_EQ(unread.size(), 0u);
  EXPECT_EQ(NextRequest(), 1u);
  EXPECT_EQ(NextRequest(), 3u);
  EXPECT_EQ(NextRequest(), 2u);
  EXPECT_EQ(NextRequest(), std::nullopt);
}

TEST_F(PullStreamTest, RequestsThatWaitForRoomAreBounded) {
  Pull(1, kManyKeys, 0, /*priority=*/4);
  for (uint64_t request = 2; request <= 5'000; ++request) Pull(request, 1, 0, /*priority=*/4);
  EXPECT_EQ(unread.size(), 4'999u - 4'096u);
  for (uint64_t request = 1; request <= 5'000; ++request) EXPECT_EQ(NextRequest(), request);
  EXPECT_EQ(NextRequest(), std::nullopt);
}

TEST_F(PullStreamTest, AHalfClosedStreamAnswersItsPullsBeforeItEnds) {
  Pull(1, kManyKeys);
  Pull(2, 1);
  EXPECT_EQ(unread.size(), 1u);
  EXPECT_EQ(NextRequest(), 1u);
  stream->OnFinished();
  EXPECT_FALSE(port->closed);
  EXPECT_EQ(NextRequest(), 2u);
  EXPECT_EQ(NextRequest(), std::nullopt);
  EXPECT_TRUE(port->closed);
}

}  // namespace
}  // namespace paceline::shard
