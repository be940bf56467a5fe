#include "libs/world/soon.h"

#include <memory>

#include "gtest/gtest.h"

namespace paceline::world {
namespace {

struct Stream : Soon::Kickable {
  void Kick() override {
    ++kicks;
    if (then != nullptr) Soon::Kick(std::exchange(then, nullptr));
  }
  int kicks = 0;
  std::shared_ptr<Kickable> then;
};

TEST(SoonTest, WithoutOneAKickIsDoneAtOnce) {
  const auto stream = std::make_shared<Stream>();
  Soon::Kick(stream);
  EXPECT_EQ(stream->kicks, 1);
}

TEST(SoonTest, KicksThatArePutOffAreOne) {
  const auto stream = std::make_shared<Stream>();
  Soon soon;
  Soon::Kick(stream);
  Soon::Kick(stream);
  EXPECT_EQ(stream->kicks, 0);
  EXPECT_FALSE(soon.empty());
  soon.KickAll();
  EXPECT_EQ(stream->kicks, 1);
  EXPECT_TRUE(soon.empty());
  EXPECT_EQ(stream.use_count(), 1);
}

TEST(SoonTest, EventsDoNotPutAKickOffForEver) {
  const auto stream = std::make_shared<Stream>();
  Soon soon;
  for (int i = 0; i < 3 * Soon::kEvents; ++i) soon.Taken();  // none waits: they do not count
  Soon::Kick(stream);
  for (int i = 1; i < Soon::kEvents; ++i) soon.Taken();
  EXPECT_EQ(stream->kicks, 0);
  soon.Taken();
  EXPECT_EQ(stream->kicks, 1);
}

TEST(SoonTest, AKickMayPutOffAnother) {
  const auto first = std::make_shared<Stream>();
  const auto second = std::make_shared<Stream>();
  first->then = second;
  Soon soon;
  Soon::Kick(first);
  soon.KickAll();
  EXPECT_EQ(second->kicks, 0);
  EXPECT_FALSE(soon.empty());
  soon.KickAll();
  EXPECT_EQ(second->kicks, 1);
}

TEST(SoonTest, ItsEndKicksTheRest) {
  const auto stream = std::make_shared<Stream>();
  {
    Soon soon;
    Soon::Kick(stream);
  }
  EXPECT_EQ(stream->kicks, 1);
  Soon::Kick(stream);
  EXPECT_EQ(stream->kicks, 2) << "at once again";
}

TEST(SoonTest, CountsThePausesOfItsThread) {
  EXPECT_EQ(Soon::Pauses(), 0) << "it has no Soon";
  Soon soon;
  const uint64_t before = Soon::Pauses();
  EXPECT_GT(before, 0);
  soon.OnPause();
  EXPECT_EQ(Soon::Pauses(), before + 1);
}

}  // namespace
}  // namespace paceline::world
