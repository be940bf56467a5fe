// Streams whose client asks and does not read, or goes away.
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/feature_level.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/log/testing.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "services/shard/shard.h"
#include "services/shard/test_util/test_disk.h"

namespace paceline::shard {
namespace {

using paceline::testing::IsOk;

constexpr uint32_t kRanged = 1;
constexpr uint64_t kRows = 1000;
constexpr uint32_t kDim = 256;
constexpr uint64_t kRowBytes = kDim * sizeof(float);

class ManualClock : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch();
};

// A client's end that reads only when told to. The stream's end takes a frame when it wants to.
class SilentPort : public world::StreamPort {
 public:
  explicit SilentPort(std::shared_ptr<world::AcceptedStream> stream) : stream_(std::move(stream)) {
    stream_->Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), this));
  }
  void Kick() override {}
  void Close(absl::Status why) override {
    if (!closed.has_value()) closed = std::move(why);
  }
  void ReadOn() override {
    while (!unread.empty() && stream_->TakesFrame()) {
      const absl::Cord frame = std::move(unread.front());
      unread.pop_front();
      stream_->OnFrame(frame);
    }
  }
  template <class Request>
  void Send(const wire::Frame<Request>& frame) {
    unread.push_back(wire::Encode(frame));
    ReadOn();
  }
  void SendRaw(absl::string_view bytes) {
    unread.emplace_back(bytes);
    ReadOn();
  }
  template <class Request>
  void SayHello(uint32_t level = kFeatureLevel) {
    wire::Frame<Request> hello;
    hello.head.mutable_hello()->set_feature_level(level);
    hello.head.mutable_hello()->set_job(1);
    hello.head.mutable_hello()->set_session(5);
    Send(hello);
  }
  // Reads the frames that have waited.
  template <class Reply>
  std::vector<wire::Frame<Reply>> Read() {
    std::vector<wire::Frame<Reply>> replies;
    absl::Cord bytes;
    while (stream_->NextFrame(&bytes)) replies.push_back(wire::Decode<Reply>(bytes).value());
    return replies;
  }
  void Break() { stream_->OnBroken(absl::CancelledError("the peer went away")); }

  std::optional<absl::Status> closed;
  std::deque<absl::Cord> unread;  // sent, and not taken yet

 private:
  const std::shared_ptr<world::AcceptedStream> stream_;
};

// One shard, primary of the one segment of the ring, with one worker, session 5 of job 1.
class StreamLimitsTest : public ::testing::Test {
 protected:
  explicit StreamLimitsTest(Disk* disk = nullptr)
      : shard({.executors = 1, .all_replies_bytes_max = uint64_t{48} << 20}, clock, probe, nullptr, disk) {
    shard.Identify({.shard = ShardId(0), .incarnation = Incarnation(1)});
    v1::InstallRequest request;
    request.mutable_map()->set_version(1);
    v1::SegmentConfig* segment = request.mutable_map()->add_segments();
    segment->set_epoch(1);
    segment->mutable_primary()->set_incarnation(1);
    v1::ShardInfo* info = request.mutable_map()->add_shards();
    info->set_name("shard-0");
    info->set_address("127.0.0.1:1");
    info->set_incarnation(1);
    request.mutable_catalogue()->set_version(1);
    v1::Table* table = request.mutable_catalogue()->add_tables();
    table->set_id(kRanged);
    table->set_job(1);
    table->set_name("weights");
    table->mutable_schema()->set_kind(v1::TABLE_KIND_RANGED);
    table->mutable_schema()->set_dim(kDim);
    table->mutable_schema()->set_rows(kRows);
    table->mutable_schema()->mutable_rule()->mutable_add();
    EXPECT_THAT(shard.Install(request), IsOk());
    for (const auto action : {v1::Change::kOpen, v1::Change::kJoin}) {
      const v1::Change change = log::ChangeOf(action, SessionId(5), JobId(1));
      int changed = 0;
      for (int i = 0; i < 100 && changed == 0; ++i) {  // a disk takes its time
        shard.MakeChange(change, [&](const auto& reply) { changed = reply->committed_size(); });
        clock.now += absl::Milliseconds(20);
        shard.OnTime();
      }
      EXPECT_EQ(changed, 1);
    }
  }

  // Asks for the first `rows` rows; parked unless `min_clock` is 0.
  static wire::Frame<v1::PullRequest> Pull(uint64_t rows, uint64_t min_clock) {
    wire::Frame<v1::PullRequest> frame;
    frame.head.set_request(1);
    frame.head.set_table(kRanged);
    frame.head.set_key_form(v1::KEY_FORM_RANGES);
    frame.head.set_min_clock(min_clock);
    std::string part;
    wire::Append(wire::PartEntry{SegmentId(0), 1, Epoch(1), 0}, part);
    frame.head.set_parts(part);
    const uint64_t range[] = {0, rows};
    frame.keys = absl::Cord(absl::string_view(reinterpret_cast<const char*>(range), sizeof(range)));
    return frame;
  }
  static wire::Frame<v1::PushPullRequest> Push(uint64_t number, uint64_t rows = 1) {
    wire::Frame<v1::PushPullRequest> frame;
    frame.head.set_line(v1::LINE_ARRIVAL);
    frame.head.set_table(kRanged);
    frame.head.set_key_form(v1::KEY_FORM_RANGES);
    std::string part;
    wire::Append(wire::PartEntry{SegmentId(0), 1, Epoch(1), number}, part);
    frame.head.set_parts(part);
    const uint64_t range[] = {0, rows};
    frame.keys = absl::Cord(absl::string_view(reinterpret_cast<const char*>(range), sizeof(range)));
    frame.values = absl::Cord(std::string(rows * kRowBytes, '\0'));
    return frame;
  }
  static wire::Frame<v1::PushPullRequest> Tick(uint64_t clock) {
    wire::Frame<v1::PushPullRequest> frame;
    frame.head.mutable_tick()->set_clock(clock);
    return frame;
  }
  // Keeps the executor busy: what frames ask for waits.
  class Hold {
   public:
    explicit Hold(Shard& shard)
        : thread_([this, &executor = *shard.context().executors()[0]] {
            executor.Run([this] {
              held_.Notify();
              go_on_.WaitForNotification();
            });
          }) {
      held_.WaitForNotification();
    }
    ~Hold() { End(); }
    void End() {
      if (!thread_.joinable()) return;
      go_on_.Notify();
      thread_.join();
    }

   private:
    absl::Notification held_, go_on_;
    std::thread thread_;
  };
  // Of the frames that were sent, how many has the client heard to be under way no more?
  uint64_t Received(SilentPort& push) {
    for (const auto& reply : push.Read<v1::PushReply>()) {
      received = reply.head.received();
      granted = std::max(granted, reply.head.granted());
      if (reply.head.has_welcome()) window = reply.head.welcome().window_bytes();
      refusals += reply.head.refusals_size();
      for (const v1::TickAck& tick : reply.head.ticks()) ticks = tick.clock();
      const auto marks = wire::ParseMarks(reply.head.committed());
      EXPECT_THAT(marks, IsOk());
      for (const wire::Mark& mark : *marks) committed = mark.number;
    }
    return received;
  }
  uint64_t Parked() {
    uint64_t parked = 0;
    shard.Describe([&](const v1::BeatRequest& beat) { parked = beat.parked(); });
    return parked;
  }

  ManualClock clock;
  Probe probe;
  // As the client of a push stream has heard.
  uint64_t received = 0, committed = 0, granted = 0, window = 0, ticks = 0;
  int refusals = 0;
  Shard shard;
};

TEST_F(StreamLimitsTest, APullStreamWhoseRepliesAreNotReadIsNotReadEither) {
  SilentPort pull(shard.NewPullStream());
  pull.SayHello<v1::PullRequest>();
  for (int i = 0; i < 20'000; ++i) pull.SendRaw("\xff");
  EXPECT_EQ(pull.unread.size(), 20'000u - 4 * 1024 + 1) << "beside the welcome";
  EXPECT_EQ(pull.Read<v1::PullReply>().size(), 20'001u) << "a client that reads is read on";
  EXPECT_TRUE(pull.unread.empty());
}

TEST_F(StreamLimitsTest, APushStreamWhoseAnswersAreNotReadIsNotReadEither) {
  SilentPort push(shard.NewPushStream());
  for (int i = 0; i < 70'000; ++i) push.SendRaw("\xff");
  EXPECT_EQ(push.unread.size(), 70'000u - 64 * 1024) << "also before the hello";
  EXPECT_EQ(Received(push), 0u);
  EXPECT_EQ(refusals, 70'000);
  EXPECT_TRUE(push.unread.empty());
}

TEST_F(StreamLimitsTest, AClientThatSendsMoreThanItWasGrantedIsNotRead) {
  Hold hold(shard);  // nothing is freed
  SilentPort push(shard.NewPushStream());
  push.SayHello<v1::PushPullRequest>();
  const uint64_t most = shard.options().frame_bytes_max;
  for (uint64_t number = 1; number <= 40; ++number) push.Send(Push(number, /*rows=*/kRows));
  const uint64_t taken = 40 - push.unread.size();
  const uint64_t frame = kRows * kRowBytes;
  EXPECT_GE(taken * frame, (1u << 20) + most);
  EXPECT_LT(taken * frame, (1u << 20) + most + 2 * frame);
  hold.End();
  EXPECT_TRUE(push.unread.empty());
  EXPECT_EQ(Received(push), 40u);
  EXPECT_EQ(refusals, 0);
}

TEST_F(StreamLimitsTest, AStreamIsGrantedItsShareOnceItPushes) {
  SilentPort push(shard.NewPushStream());
  push.SayHello<v1::PushPullRequest>();
  Received(push);
  EXPECT_EQ(granted, 1u << 20);
  EXPECT_EQ(window, 1u << 20);
  push.Send(Push(1));
  const uint64_t size = wire::Encode(Push(1)).size();
  EXPECT_EQ(Received(push), 1u);
  EXPECT_EQ(granted, size + shard.options().window_bytes);
  push.Send(Tick(3));
  EXPECT_EQ(Received(push), 2u);
  EXPECT_EQ(ticks, 3u);
  EXPECT_EQ(granted, size + shard.options().window_bytes) << "a tick takes nothing of it";
  EXPECT_EQ(shard.context().streams().held(), shard.options().window_bytes);
  push.Break();
  EXPECT_EQ(shard.context().streams().held(), 0u);
}

TEST_F(StreamLimitsTest, AClientOfLevel1KeepsItsWindow) {
  SilentPort push(shard.NewPushStream());
  push.SayHello<v1::PushPullRequest>(/*level=*/1);
  push.Send(Push(1));
  push.Send(Push(2));
  EXPECT_EQ(Received(push), 2u);
  EXPECT_EQ(window, shard.options().window_bytes);
  EXPECT_EQ(granted, 0u) << "it knows no such field";
  EXPECT_EQ(shard.context().streams().held(), window);
  push.Break();
  EXPECT_EQ(shard.context().streams().held(), 0u);
}

TEST_F(StreamLimitsTest, WhatOtherStreamsHoldKeepsNoneOut) {
  Hold hold(shard);
  std::vector<std::unique_ptr<SilentPort>> fast;
  StreamBudget& budget = shard.context().streams();
  while (budget.held() < budget.bytes_max()) {
    fast.push_back(std::make_unique<SilentPort>(shard.NewPushStream()));
    fast.back()->SayHello<v1::PushPullRequest>();
    for (uint64_t number = 1; number <= 2; ++number) fast.back()->Send(Push(number, kRows));
  }
  SilentPort slow(shard.NewPushStream());
  slow.SayHello<v1::PushPullRequest>();
  Received(slow);
  EXPECT_EQ(granted, 1u) << "which is enough for a frame of any size";
  slow.Send(Push(3, kRows));
  slow.Send(Tick(1));
  EXPECT_TRUE(slow.unread.empty());
  hold.End();
  EXPECT_EQ(Received(slow), 2u);
  EXPECT_EQ(ticks, 1u);
  EXPECT_GT(granted, kRows * kRowBytes * 3 / 2);
  EXPECT_LE(budget.held(), budget.bytes_max() + budget.streams());
}

TEST_F(StreamLimitsTest, ReadsOfAStreamThatBrokeAreNotParkedOn) {
  std::weak_ptr<world::AcceptedStream> stream;
  {
    const auto accepted = shard.NewPullStream();
    stream = accepted;
    SilentPort pull(accepted);
    pull.SayHello<v1::PullRequest>();
    pull.Send(Pull(kRows, /*min_clock=*/3));
    ASSERT_EQ(Parked(), 1u);
    pull.Break();
  }
  shard.OnTime();
  EXPECT_EQ(Parked(), 0u);
  EXPECT_TRUE(stream.expired()) << "nothing holds the stream, its requests or their memory any more";
}

TEST_F(StreamLimitsTest, ParkedReadsOfABrokenStreamTakeNoRoomFromOthers) {
  SilentPort gone(shard.NewPullStream());
  gone.SayHello<v1::PullRequest>();
  for (size_t i = 0; i < log::Primary::kParkedMax; ++i) gone.Send(Pull(1, /*min_clock=*/3));
  ASSERT_EQ(Parked(), log::Primary::kParkedMax);
  gone.Break();
  SilentPort pull(shard.NewPullStream());
  pull.SayHello<v1::PullRequest>();
  pull.Send(Pull(1, /*min_clock=*/3));
  EXPECT_EQ(pull.Read<v1::PullReply>().size(), 1u) << "the welcome; the read is parked";
  EXPECT_EQ(Parked(), 1u);
}

TEST_F(StreamLimitsTest, ARefusalForWantOfReplyMemoryNamesParkedReads) {
  SilentPort pull(shard.NewPullStream());
  pull.SayHello<v1::PullRequest>();
  const uint64_t fit = shard.options().reply_bytes_max / (kRows * kRowBytes);
  for (uint64_t i = 0; i < fit; ++i) pull.Send(Pull(kRows, /*min_clock=*/3));
  ASSERT_EQ(Parked(), fit);
  (void)pull.Read<v1::PullReply>();
  pull.Send(Pull(kRows, /*min_clock=*/0));
  const auto replies = pull.Read<v1::PullReply>();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].head.refusals(0).reason(), v1::Refusal::OVER_BUDGET);
  EXPECT_THAT(replies[0].head.refusals(0).message(), ::testing::HasSubstr("parked"));
}

TEST_F(StreamLimitsTest, AStreamWithoutAHelloIsEnded) {
  SilentPort push(shard.NewPushStream());
  SilentPort pull(shard.NewPullStream());
  SilentPort rows(shard.NewPushPullStream());
  SilentPort replica(shard.NewReplicaStream());
  SilentPort greeted(shard.NewPullStream());
  greeted.SayHello<v1::PullRequest>();
  push.SendRaw("\xff");  // whatever its content
  clock.now += shard.options().hello_timeout;
  shard.OnTime();
  EXPECT_FALSE(push.closed.has_value());
  clock.now += StreamWatch::kEvery;
  shard.OnTime();
  for (const SilentPort* port : {&push, &pull, &rows, &replica}) {
    ASSERT_TRUE(port->closed.has_value());
    EXPECT_EQ(port->closed->code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(port->closed->message(), ::testing::HasSubstr("hello: none within 10s"));
  }
  EXPECT_FALSE(greeted.closed.has_value());
}

// As many clients ask as take all that there is for replies, and read nothing.
TEST_F(StreamLimitsTest, RepliesOfAllStreamsTogetherAreBounded) {
  const uint64_t one = kRows * kRowBytes;
  const uint64_t most = shard.context().replies().bytes_max();
  std::vector<std::unique_ptr<SilentPort>> slow;
  const auto ask = [&] {
    slow.push_back(std::make_unique<SilentPort>(shard.NewPullStream()));
    slow.back()->SayHello<v1::PullRequest>();
    for (uint64_t bytes = 0; bytes < shard.options().reply_bytes_max; bytes += one) {
      slow.back()->Send(Pull(kRows, /*min_clock=*/0));
    }
  };
  // Of each stream 4 MiB are read ahead, and one more.
  while (shard.context().replies().taken() + one <= most) ask();
  EXPECT_LE(shard.context().replies().taken(), most);
  SilentPort honest(shard.NewPullStream());
  honest.SayHello<v1::PullRequest>();
  (void)honest.Read<v1::PullReply>();
  honest.Send(Pull(kRows, /*min_clock=*/0));
  auto replies = honest.Read<v1::PullReply>();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].head.refusals(0).reason(), v1::Refusal::OVER_BUDGET);
  EXPECT_GT(replies[0].head.refusals(0).retry_after_ms(), 0u);
  // The shard ends a stream whose client does not read, and has its room back.
  clock.now += shard.options().unread_timeout + StreamWatch::kEvery;
  shard.OnTime();
  for (const auto& port : slow) {
    ASSERT_TRUE(port->closed.has_value());
    EXPECT_EQ(port->closed->code(), absl::StatusCode::kResourceExhausted);
    port->Break();
  }
  EXPECT_EQ(shard.context().replies().taken(), 0u);
  honest.Send(Pull(kRows, /*min_clock=*/0));
  EXPECT_FALSE(honest.closed.has_value());
  EXPECT_EQ(honest.Read<v1::PullReply>().at(0).values.size(), one);
}

TEST_F(StreamLimitsTest, AHelloWithATextThatIsNoneIsRefused) {
  SilentPort pull(shard.NewPullStream());
  wire::Frame<v1::PullRequest> hello;
  hello.head.mutable_hello()->set_feature_level(kFeatureLevel);
  hello.head.mutable_hello()->set_job(1);
  hello.head.mutable_hello()->set_session(5);
  hello.head.mutable_hello()->set_client("worker\n0");
  pull.Send(hello);
  const auto replies = pull.Read<v1::PullReply>();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].head.refusals(0).reason(), v1::Refusal::INVALID);
  EXPECT_THAT(replies[0].head.refusals(0).message(), ::testing::HasSubstr("client: 'worker\\x0a0'"));
}

TEST_F(StreamLimitsTest, ABusySegmentHoldsUpNoOther) {
  Shard busy({.executors = 1, .helper_thread = true}, clock, probe);
  Executor& executor = *busy.context().executors()[0];
  std::atomic<bool> enough = false;
  absl::Notification ended;
  std::function<void()> again = [&] { enough ? ended.Notify() : executor.Run(again); };
  executor.Run(again);  // returns, though the queue never empties
  busy.OnTime();
  absl::Notification described;
  busy.Describe([&](const v1::BeatRequest&) { described.Notify(); });
  described.WaitForNotification();
  enough = true;
  ended.WaitForNotification();
}

struct WithDisk {
  TestDisk disk;
};
class SlowDiskTest : public WithDisk, public StreamLimitsTest {
 protected:
  SlowDiskTest() : StreamLimitsTest(&disk) {}
};

TEST_F(SlowDiskTest, NothingIsGrantedWhileTheDiskIsSlow) {
  SilentPort push(shard.NewPushStream());
  push.SayHello<v1::PushPullRequest>();
  push.Send(Push(1));
  EXPECT_EQ(Received(push), 1u);
  const uint64_t before = granted;
  disk.pending = kDiskSlow + 1;
  push.Send(Push(2));
  push.Send(Push(3));
  push.Send(Tick(1));
  EXPECT_EQ(Received(push), 4u);
  EXPECT_EQ(committed, 3u) << "answers do not wait";
  EXPECT_EQ(ticks, 1u);
  EXPECT_EQ(granted, before);
  shard.OnTime();
  Received(push);
  EXPECT_EQ(granted, before);
  EXPECT_TRUE(shard.context().TakeDue()) << "the next visit is soon";
  disk.pending = kDiskSlow;
  shard.OnTime();
  Received(push);
  EXPECT_EQ(granted, before + 2 * wire::Encode(Push(2)).size());
  EXPECT_EQ(shard.context().streams().waits(), 3u) << "of three frames";
  EXPECT_FALSE(shard.context().streams().waiting());
}

// Its clients know no other way to learn that they must wait.
TEST_F(SlowDiskTest, FramesOfLevel1StayUnderWayWhileTheDiskIsSlow) {
  SilentPort push(shard.NewPushStream());
  push.SayHello<v1::PushPullRequest>(/*level=*/1);
  disk.pending = kDiskSlow + 1;
  push.Send(Push(1));
  push.Send(Push(2));
  EXPECT_EQ(Received(push), 0u);
  EXPECT_EQ(committed, 2u) << "answers do not wait";
  disk.pending = kDiskSlow;
  shard.OnTime();
  EXPECT_EQ(Received(push), 2u);
  disk.pending = kDiskSlow + 1;
  push.Send(Push(3));
  push.Break();
  EXPECT_EQ(shard.context().streams().held(), 0u);
}

// A disk that does not work is told of by refusals, which have to be asked for.
TEST_F(SlowDiskTest, ClientsOfADiskThatDoesNotWorkAreGrantedAnew) {
  SilentPort push(shard.NewPushStream());
  push.SayHello<v1::PushPullRequest>();
  disk.pending = kDiskSlow + 1;
  push.Send(Push(1));
  disk.pending = kDiskFarBehind + 1;
  push.Send(Push(2));
  EXPECT_EQ(push.unread.size(), 1u) << "clients get that far only with more than they were granted";
  EXPECT_EQ(Received(push), 1u);
  EXPECT_EQ(granted, 1u << 20);
  disk.standing = {.state = Disk::Health::State::kFails};
  shard.OnTime();
  EXPECT_EQ(Received(push), 2u);
  EXPECT_GT(granted, 1u << 20);
  EXPECT_EQ(refusals, 1) << "and its parts are refused";
}

}  // namespace
}  // namespace paceline::shard
