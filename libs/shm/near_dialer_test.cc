#include "libs/shm/near_dialer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/carrier/loop.h"
#include "libs/shm/handover.h"
#include "libs/shm/server.h"

namespace paceline::shm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(60);

class FarDialer final : public world::Dialer {
 public:
  std::unique_ptr<world::StreamPort> Dial(const std::string& address, world::StreamKind,
                                          std::shared_ptr<world::StreamHandler>) override {
    dialed.push_back(address);
    return nullptr;
  }
  std::vector<std::string> dialed;
};

class NearTestHandler final : public world::AcceptedStream {
 public:
  void Attach(std::shared_ptr<world::StreamPort>) override {}
  void OnFrame(absl::Cord) override {}
  bool NextFrame(absl::Cord* frame) override {
    if (to_send-- <= 0) return false;
    *frame = absl::Cord(std::string(size_t{1} << 20, 'x'));
    return true;
  }
  bool TakesFrame() override { return takes; }
  void OnFinished() override {}
  void OnBroken(absl::Status why) override {
    end = std::move(why);
    broken.Notify();
  }
  int to_send = 0;
  bool takes = true;
  absl::Status end;  // after `broken`
  Notification broken;
};

class NearDialerTest : public ::testing::Test {
 protected:
  NearDialerTest() {
    char name[] = "/tmp/paceline-shm-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~NearDialerTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Server> Serve(const std::string& address, int64_t streams_max, bool takes = true) {
    auto server = Server::Start({.path = folder_ + "/" + address, .streams_max = streams_max},
                                [takes](world::StreamKind) {
                                  auto handler = std::make_shared<NearTestHandler>();
                                  handler->takes = takes;
                                  return handler;
                                });
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  std::shared_ptr<NearDialer> Dialer(absl::Duration stuck_max = absl::InfiniteDuration()) {
    const auto say = [this](const std::string& text) {
      MutexLock lock(&mutex_);
      said_.push_back(text);
    };
    loops_.push_back(std::make_unique<carrier::Loop>(carrier::Loop::Options{}));
    return std::make_shared<NearDialer>(far_, folder_, say, *loops_.back(), stuck_max);
  }
  // Dials the shard, which does not take that, and then again.
  void DialTwice(NearDialer& dialer) {
    const auto handler = std::make_shared<NearTestHandler>();
    const auto near = dialer.Dial("127.0.0.1:1", world::StreamKind::kPush, handler);
    EXPECT_NE(near, nullptr);
    ASSERT_TRUE(handler->broken.WaitForNotificationWithTimeout(kSoon));
    EXPECT_TRUE(far_.dialed.empty());
    dialer.Dial("127.0.0.1:1", world::StreamKind::kPush, std::make_shared<NearTestHandler>());
    EXPECT_THAT(far_.dialed, ElementsAre("127.0.0.1:1"));
  }
  std::vector<std::string> said() {
    MutexLock lock(&mutex_);
    return said_;
  }

  std::string folder_;
  FarDialer far_;
  Mutex mutex_;
  std::vector<std::string> said_;
  std::vector<std::unique_ptr<carrier::Loop>> loops_;  // of each dialer
};

TEST_F(NearDialerTest, ChoosesForEachShard) {
  const auto server = Serve("127.0.0.1:1", 10);
  const auto dialer = Dialer();
  const auto handler = std::make_shared<NearTestHandler>();
  const auto near = dialer->Dial("127.0.0.1:1", world::StreamKind::kPush, handler);
  EXPECT_NE(near, nullptr);
  for (int i = 0; i < 3; ++i) {
    dialer->Dial("10.0.0.1:1", world::StreamKind::kPull, std::make_shared<NearTestHandler>());
  }
  EXPECT_EQ(far_.dialed.size(), 3u);
  EXPECT_EQ(dialer->near_streams(), 1u);
  EXPECT_THAT(said(), ElementsAre(HasSubstr("10.0.0.1:1 go over TCP"))) << "once";
  loops_.front()->Stop(absl::CancelledError("the test is done"));
  EXPECT_TRUE(handler->broken.WaitForNotificationWithTimeout(kSoon));
}

TEST_F(NearDialerTest, WhoRefusesIsDialedTheOtherWay) {
  const auto server = Serve("127.0.0.1:1", 0);
  DialTwice(*Dialer());
  EXPECT_THAT(said(), ElementsAre(HasSubstr("already")));
}

// As one without descriptors, or one that stands still: it may still answer on the connections that it has.
TEST_F(NearDialerTest, WhoDoesNotAnswerIsDialedTheOtherWay) {
  const auto silent = ListenAt(folder_ + "/127.0.0.1:1");
  ASSERT_TRUE(silent.ok()) << silent.status();
  DialTwice(*Dialer());
  EXPECT_THAT(said(), ElementsAre(HasSubstr("does not answer")));
}

// More than its ring holds waits for it.
TEST_F(NearDialerTest, WhoReadsNothingIsGivenUpWhereThatIsWanted) {
  const auto server = Serve("127.0.0.1:1", 10, /*takes=*/false);
  const auto patient = Dialer();
  const auto dialer = Dialer(absl::Milliseconds(50));
  const auto waits = std::make_shared<NearTestHandler>();
  const auto handler = std::make_shared<NearTestHandler>();
  waits->to_send = handler->to_send = 3;
  const auto one = patient->Dial("127.0.0.1:1", world::StreamKind::kPush, waits);
  const auto other = dialer->Dial("127.0.0.1:1", world::StreamKind::kPush, handler);
  ASSERT_TRUE(handler->broken.WaitForNotificationWithTimeout(kSoon));
  EXPECT_THAT(handler->end.message(), HasSubstr("has read nothing for 50ms"));
  EXPECT_FALSE(waits->broken.HasBeenNotified());
}

TEST_F(NearDialerTest, MayOutliveItsStreams) {
  auto server = Serve("127.0.0.1:1", 10);
  const auto dialer = Dialer();
  const auto handler = std::make_shared<NearTestHandler>();
  auto port = dialer->Dial("127.0.0.1:1", world::StreamKind::kPush, handler);
  loops_.front()->Stop(absl::CancelledError("the test is done"));
  EXPECT_TRUE(handler->broken.WaitForNotificationWithTimeout(kSoon));
  server = nullptr;
  port->Kick();
  port = nullptr;
  const auto late = std::make_shared<NearTestHandler>();
  server = Serve("127.0.0.1:1", 10);
  dialer->Dial("127.0.0.1:1", world::StreamKind::kPush, late);
  EXPECT_THAT(far_.dialed, ElementsAre("127.0.0.1:1"));
}

}  // namespace
}  // namespace paceline::shm
