// Both ends of streams that gRPC does not carry: what is so whatever carries them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/carrier/loop.h"
#include "libs/carrier/test_util/stream_ends.h"
#include "libs/dial/test_ways.h"

namespace paceline::dial {
namespace {

using carrier::Caller;
using carrier::Echo;
using carrier::kSoon;
using ::testing::HasSubstr;

class Streams : public ::testing::TestWithParam<const char*> {
 protected:
  ~Streams() override { loop_.reset(); }

  void Serve(int threads = 1) {
    way_->Serve(threads, absl::Microseconds(50), [this](world::StreamKind) {
      MutexLock lock(&mutex_);
      echoes_.push_back(std::make_shared<Echo>());
      changed_.SignalAll();
      return echoes_.back();
    });
  }
  std::shared_ptr<Echo> AwaitEcho(size_t index = 0) {
    MutexLock lock(&mutex_);
    if (!changed_.AwaitFor(&mutex_, kSoon, [&] { return echoes_.size() > index; })) return nullptr;
    return echoes_[index];
  }
  std::unique_ptr<world::StreamPort> Call(const std::shared_ptr<Caller>& caller) {
    auto port = way_->Dial(loop_, caller);
    EXPECT_NE(port, nullptr);
    return port;
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::shared_ptr<Echo>> echoes_;
  const std::unique_ptr<Way> way_ = MakeWay(GetParam());
  std::shared_ptr<carrier::Loop> loop_ = std::make_shared<carrier::Loop>(carrier::Loop::Options{});
};

TEST_P(Streams, FramesComeBackWhole) {
  Serve(2);
  std::vector<std::shared_ptr<Caller>> callers;
  std::vector<std::unique_ptr<world::StreamPort>> ports;
  std::vector<std::string> sent;
  for (size_t i = 0; i < 40; ++i) {
    // Some are larger than a ring.
    const size_t size = i % 10 == 0 ? 3'000'000 + i : i * i * 37;
    sent.emplace_back(size, static_cast<char>('a' + i % 26));
  }
  for (int c = 0; c < 3; ++c) {
    callers.push_back(std::make_shared<Caller>());
    ports.push_back(Call(callers.back()));
  }
  std::vector<std::thread> threads;
  for (int c = 0; c < 3; ++c) {
    threads.emplace_back([&, c] {
      for (const std::string& frame : sent) {
        callers[c]->Send(frame);
        ports[c]->Kick();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& caller : callers) EXPECT_EQ(caller->Await(sent.size()), sent);
  EXPECT_EQ(way_->open(), 3);
}

// As a shard's link does, which dials under the lock that NextFrame takes.
TEST_P(Streams, TheFirstFrameGoesWithoutAKick) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  caller->Send("hello");
  const auto port = Call(caller);
  EXPECT_EQ(caller->Await(1), std::vector<std::string>{"hello"});
}

TEST_P(Streams, AThreadThatWaitsCarries) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  for (size_t i = 1; i <= 2'000; ++i) {
    caller->Send(absl::StrCat("frame ", i));
    port->Kick();
    loop_->CarryUntil([&] { return caller->Has(i); });
    ASSERT_EQ(caller->Await(i).back(), absl::StrCat("frame ", i));
  }
}

TEST_P(Streams, AStreamThatHasEndedLetsGoOfAFrameThatIsHalfWritten) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  EXPECT_TRUE(port->LetsGoOfFrames());
  AwaitEcho()->Take(false);
  const std::string bytes(30'000'000, 'x');  // more than the kernel takes, too
  auto released = std::make_shared<Notification>();
  caller->Send(absl::MakeCordFromExternal(bytes, [released](absl::string_view) { released->Notify(); }));
  port->Kick();
  EXPECT_FALSE(released->WaitForNotificationWithTimeout(absl::Milliseconds(10)));
  port->Close(absl::CancelledError("enough"));
  EXPECT_TRUE(released->WaitForNotificationWithTimeout(kSoon));
}

TEST_P(Streams, TheShardsStatusArrives) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  caller->Send("one");
  port->Kick();
  EXPECT_EQ(caller->Await(1).size(), 1u);
  AwaitEcho()->port()->Close(absl::ResourceExhaustedError("enough"));
  const auto why = caller->AwaitBroken();
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*why)) << *why;
  EXPECT_THAT(why->message(), HasSubstr("enough"));
  EXPECT_TRUE(AwaitEcho()->AwaitBroken().has_value());
}

TEST_P(Streams, ClosingTellsTheShard) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  auto port = Call(caller);
  const auto echo = AwaitEcho();
  ASSERT_NE(echo, nullptr);
  port = nullptr;
  EXPECT_TRUE(caller->AwaitBroken().has_value());
  const auto why = echo->AwaitBroken();
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(absl::IsCancelled(*why)) << *why;
}

TEST_P(Streams, AServerMayEndInTheMiddleOfEverything) {
  Serve(2);
  std::vector<std::shared_ptr<Caller>> callers;
  std::vector<std::unique_ptr<world::StreamPort>> ports;
  for (int c = 0; c < 4; ++c) {
    callers.push_back(std::make_shared<Caller>());
    ports.push_back(Call(callers.back()));
    for (int i = 0; i < 50; ++i) callers.back()->Send(std::string(200'000, 'x'));
    ports.back()->Kick();
  }
  ASSERT_NE(AwaitEcho(), nullptr);
  way_->StopServing();
  for (const auto& caller : callers) EXPECT_TRUE(caller->AwaitBroken().has_value());
}

TEST_P(Streams, AFrameWaitsUntilItIsTaken) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  const auto echo = AwaitEcho();
  ASSERT_NE(echo, nullptr);
  caller->Send("first");
  port->Kick();
  EXPECT_EQ(caller->Await(1).size(), 1u);
  echo->Take(false);
  for (int i = 0; i < 50; ++i)
    caller->Send(std::string(600'000, 'x'));  // more than a ring, or the kernel, holds
  port->Kick();
  // A stream beside it is served meanwhile.
  const auto other = std::make_shared<Caller>();
  const auto other_port = Call(other);
  other->Send("beside");
  other_port->Kick();
  EXPECT_EQ(other->Await(1).size(), 1u);
  EXPECT_EQ(echo->frames(), 1u);
  echo->Take(true);
  echo->port()->ReadOn();
  EXPECT_EQ(caller->Await(51).size(), 51u);
}

TEST_P(Streams, AnIdlePairUsesNoCpu) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  caller->Send("one");
  port->Kick();
  EXPECT_EQ(caller->Await(1).size(), 1u);
  const auto cpu = [] {
    rusage used = {};
    getrusage(RUSAGE_SELF, &used);
    return absl::DurationFromTimeval(used.ru_utime) + absl::DurationFromTimeval(used.ru_stime);
  };
  // The time itself is what is measured: nothing happens in it.
  Notification never;
  const absl::Duration before = cpu();
  EXPECT_FALSE(never.WaitForNotificationWithTimeout(absl::Seconds(1)));
  EXPECT_LT(cpu() - before, absl::Milliseconds(100));
}

// Frames that are under way when the shard ends the stream do not make the client miss why.
TEST_P(Streams, TheShardsStatusArrivesWhileTheClientSends) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  const auto port = Call(caller);
  for (int i = 0; i < 40; ++i) caller->Send(std::string(1'000'000, 'x'));
  port->Kick();
  const auto echo = AwaitEcho();
  ASSERT_NE(echo, nullptr);
  ASSERT_TRUE(echo->AwaitFrames(1));
  echo->port()->Close(absl::ResourceExhaustedError("enough"));
  const auto why = caller->AwaitBroken();
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*why)) << *why;
  EXPECT_TRUE(echo->AwaitBroken().has_value());
}

TEST_P(Streams, AStreamMayBeClosedBeforeItIsOpen) {
  Serve();
  const auto caller = std::make_shared<Caller>();
  Call(caller) = nullptr;
  EXPECT_TRUE(caller->AwaitBroken().has_value());
}

INSTANTIATE_TEST_SUITE_P(Ways, Streams, ::testing::Values("Near", "Direct"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace paceline::dial
