#include "libs/log/seen_rounds.h"

#include <deque>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/testing.h"
#include "libs/world/random.h"

namespace paceline::log {
namespace {

using Kind = wire::Reading::Kind;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr JobId kJob{1};
constexpr SessionId kPusher{7};
constexpr SessionId kReader{8};
constexpr SessionId kOther{9};
const absl::Time kBegin = absl::UnixEpoch() + absl::Hours(1);

struct Sink : RoundSink {
  void Told(const wire::Round& round) override { rounds.push_back(round); }
  bool gone() const override { return over; }
  std::vector<wire::Round> rounds;
  bool over = false;
  const uint64_t number = ++numbers;
  static inline uint64_t numbers = 0;
};

class SeenRoundsTest : public ::testing::Test {
 protected:
  SeenRounds::View View() const { return {segment, Epoch(3), committed.value_or(segment.version())}; }
  void Say(const std::shared_ptr<Sink>& sink, SessionId session, Kind kind, uint64_t round = 0,
           PartNumber wish = 0) {
    rounds.Take({.session = session,
                 .job = kJob,
                 .reading = {.segment = segment.id(), .kind = kind, .round = round, .wish = wish},
                 .beat = ++beat,
                 .stream = sink->number,
                 .sink = sink},
                View(), now);
  }
  void Push(SessionId by = kPusher) {
    segment.Apply(MakeUpdate(by, ++numbers[by], {{5, 1}}));
    rounds.Advance(View());
  }
  void Pass(absl::Duration time) {
    for (; time > absl::ZeroDuration(); time -= absl::Milliseconds(50)) {
      now += absl::Milliseconds(50);
      rounds.OnTime(View(), now);
    }
  }
  // The primary is old enough, and `kReader` reads.
  void Begin() {
    rounds.OnTime(View(), now);
    Pass(SeenRounds::kSilence + absl::Milliseconds(100));
    Say(reader, kReader, Kind::kJoins);
    ASSERT_THAT(reader->rounds, SizeIs(1));
    ASSERT_GT(reader->rounds[0].number, 0u);
  }

  Segment segment = SegmentWith(kJob, {kPusher, kReader, kOther});
  SeenRounds rounds;
  std::shared_ptr<Sink> pusher = std::make_shared<Sink>();
  std::shared_ptr<Sink> reader = std::make_shared<Sink>();
  std::map<SessionId, PartNumber> numbers;
  std::optional<Lsn> committed;
  absl::Time now = kBegin;
  uint64_t beat = 0;
};

TEST_F(SeenRoundsTest, NoRoundUnlessSomebodyAsks) {
  Begin();
  Say(pusher, kPusher, Kind::kNot);
  Push();
  EXPECT_THAT(reader->rounds, SizeIs(1));
  EXPECT_EQ(pusher->rounds.back().number, 0u) << "it does not read";
}

TEST_F(SeenRoundsTest, APartIsSeenOnceTheReadersHaveConfirmedItsRound) {
  Begin();
  Push();
  Push();
  Say(pusher, kPusher, Kind::kNot, 0, /*wish=*/2);
  ASSERT_THAT(reader->rounds, SizeIs(2));
  const wire::Round told = reader->rounds[1];
  EXPECT_EQ(told.version, segment.version());
  EXPECT_GT(told.number, reader->rounds[0].number);
  EXPECT_EQ(told.epoch, Epoch(3));
  ASSERT_THAT(pusher->rounds, SizeIs(1)) << "the answer only";
  EXPECT_EQ(pusher->rounds[0].seen, 0u);
  Say(reader, kReader, Kind::kReads, told.number - 1);
  EXPECT_THAT(pusher->rounds, SizeIs(1));
  EXPECT_EQ(reader->rounds.back().beat, 0u) << "its lease is not renewed before it confirms";
  Say(reader, kReader, Kind::kReads, told.number);
  ASSERT_THAT(pusher->rounds, SizeIs(2));
  EXPECT_EQ(pusher->rounds[1].seen, 2u);
  EXPECT_EQ(reader->rounds.back().beat, beat);
}

TEST_F(SeenRoundsTest, AWishIsForPartsThatAreApplied) {
  Begin();
  Push();
  Say(pusher, kPusher, Kind::kNot, 0, /*wish=*/2);
  EXPECT_THAT(reader->rounds, SizeIs(1));
  Push();
  EXPECT_THAT(reader->rounds, SizeIs(2));
}

TEST_F(SeenRoundsTest, AWishThatGrowsWithEachPushIsAnsweredToo) {
  Begin();
  Push();
  for (PartNumber wish = 2; wish <= 5; ++wish) {
    Say(pusher, kPusher, Kind::kNot, 0, wish);
    Say(pusher, kPusher, Kind::kNot, 0, wish + 1);  // one more than is applied by then
    Push();
    Say(reader, kReader, Kind::kReads, reader->rounds.back().number);
  }
  EXPECT_EQ(pusher->rounds.back().seen, 5u);
  Say(pusher, kPusher, Kind::kNot, 0, /*wish=*/0);
  const size_t told = reader->rounds.size();
  Push();
  EXPECT_THAT(reader->rounds, SizeIs(told)) << "it asks no more";
}

TEST_F(SeenRoundsTest, ARoundIsToldOnceItsVersionIsCommitted) {
  Begin();
  committed = segment.version();
  Push();
  Say(pusher, kPusher, Kind::kNot, 0, /*wish=*/1);
  EXPECT_THAT(reader->rounds, SizeIs(1));
  auto joins = std::make_shared<Sink>();
  Say(joins, kOther, Kind::kJoins);
  ASSERT_THAT(joins->rounds, SizeIs(1));
  EXPECT_EQ(joins->rounds[0].version, *committed);
  committed = segment.version();
  rounds.Advance(View());
  ASSERT_THAT(reader->rounds, SizeIs(2));
  EXPECT_EQ(reader->rounds[1].version, *committed);
  EXPECT_THAT(joins->rounds, SizeIs(2)) << "it joined at an older version";
}

TEST_F(SeenRoundsTest, WhoJoinsWhileARoundIsToldIsAsNew) {
  Begin();
  Push();
  Say(pusher, kPusher, Kind::kNot, 0, 1);
  auto joins = std::make_shared<Sink>();
  Say(joins, kOther, Kind::kJoins);
  EXPECT_EQ(joins->rounds.at(0).number, reader->rounds.at(1).number);
  Say(reader, kReader, Kind::kReads, reader->rounds.at(1).number);
  EXPECT_EQ(pusher->rounds.back().seen, 1u);
}

TEST_F(SeenRoundsTest, ANewPrimaryLetsTheReadersOfTheOneBeforeRunOut) {
  rounds.OnTime(View(), now);
  Push();
  Say(pusher, kPusher, Kind::kNot, 0, 1);
  Pass(SeenRounds::kSilence);
  EXPECT_EQ(pusher->rounds.back().seen, 0u);
  Pass(absl::Milliseconds(100));
  EXPECT_EQ(pusher->rounds.back().seen, 1u);
}

TEST_F(SeenRoundsTest, ASilentReaderIsForgotten) {
  Begin();
  Push();
  Say(pusher, kPusher, Kind::kNot, 0, 1);
  Pass(absl::Milliseconds(950));
  Say(pusher, kPusher, Kind::kNot, 0, 1);
  EXPECT_EQ(pusher->rounds.back().seen, 0u);
  EXPECT_EQ(pusher->rounds.back().waits_for, kReader);
  Pass(absl::Milliseconds(200));
  EXPECT_EQ(pusher->rounds.back().seen, 1u);
  EXPECT_EQ(reader->rounds.back().number, 0u) << "it is told";
  Say(reader, kReader, Kind::kReads, 99);
  EXPECT_EQ(reader->rounds.back().number, 0u) << "and stays forgotten";
  Say(reader, kReader, Kind::kJoins);
  EXPECT_GT(reader->rounds.back().number, 0u);
}

TEST_F(SeenRoundsTest, AReaderThatTalksAndDoesNotConfirmIsForgottenToo) {
  Begin();
  Push();
  Say(pusher, kPusher, Kind::kNot, 0, 1);
  for (int i = 0; i < 12; ++i) {
    Pass(absl::Milliseconds(100));
    Say(reader, kReader, Kind::kReads, reader->rounds[0].number);
  }
  EXPECT_EQ(pusher->rounds.back().seen, 1u);
}

TEST_F(SeenRoundsTest, AStreamThatIsGoneIsAwaitedAsLongAsItsClientMayReadOn) {
  Begin();
  Push();
  reader->over = true;
  Say(pusher, kPusher, Kind::kNot, 0, 1);
  Pass(absl::Milliseconds(800));
  EXPECT_EQ(pusher->rounds.back().seen, 0u);
  Pass(absl::Milliseconds(400));
  EXPECT_EQ(pusher->rounds.back().seen, 1u);
}

TEST_F(SeenRoundsTest, NobodyWaitsForAClosedSessionOrOneThatHasLeft) {
  Begin();
  auto leaves = std::make_shared<Sink>();
  Say(leaves, kOther, Kind::kJoins);
  Push();
  Say(pusher, kPusher, Kind::kNot, 0, 1);
  Say(leaves, kOther, Kind::kNot);
  EXPECT_EQ(pusher->rounds.back().seen, 0u);
  segment.Apply(Evict{.session = kReader});
  Pass(absl::Milliseconds(50));
  EXPECT_EQ(pusher->rounds.back().seen, 1u);
}

TEST_F(SeenRoundsTest, ForgetsWhoOnlyAsked) {
  Say(pusher, kPusher, Kind::kNot, 0, 1);
  EXPECT_FALSE(rounds.empty());
  Pass(SeenRounds::kAsksNoMore + absl::Milliseconds(100));
  EXPECT_TRUE(rounds.empty());
}

// A reader as docs/wire.md wants it, in the simplest way: what it says and hears is under way for a while,
// its clock has a rate of its own, and it may stand still.
struct Model {
  SessionId session;
  double rate = 1;
  bool in = false;
  uint64_t joining = 0;  // a beat
  Lsn version;
  uint64_t round = 0;
  double until = 0;         // of its own clock, in ms
  double paused_until = 0;  // of the true time
  double next_beat = 0;
  struct Message {
    double at = 0;
    wire::Reading reading;
    uint64_t beat = 0;
  };
  std::deque<Message> to;
  std::deque<std::pair<double, wire::Round>> from;
  size_t taken = 0;  // of what its sink heard
  std::shared_ptr<Sink> sink = std::make_shared<Sink>();
};

// Whatever is late, lost in time, or silent: what a pusher was told to be seen by all is in all that any
// reader may hand out.
TEST_F(SeenRoundsTest, WhatIsSeenIsInAllThatReadersMayHandOut) {
  uint64_t seen_parts = 0, outlived = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    world::SplitMix64 random(seed);
    const auto below = [&](uint64_t n) { return random.Next() % n; };
    segment = SegmentWith(kJob, {kPusher, kReader, kOther});
    rounds = SeenRounds();
    numbers.clear();
    std::vector<Lsn> lsns = {Lsn(0)};  // of the pusher's parts
    auto asks = std::make_shared<Sink>();
    PartNumber seen = 0;
    std::vector<Model> models(2);
    models[0].session = kReader;
    models[1].session = kOther;
    for (Model& model : models) model.rate = 0.96 + 0.01 * static_cast<double>(below(9));
    for (double t = 1; t < 12000; t += 5) {
      now = kBegin + absl::Milliseconds(t);
      if (below(10) == 0) {
        Push();
        lsns.push_back(segment.version());
      }
      if (below(8) == 0) Say(asks, kPusher, Kind::kNot, 0, numbers[kPusher]);
      if (below(20) == 0) rounds.OnTime(View(), now);
      for (Model& model : models) {
        const double own = t * model.rate;
        while (!model.to.empty() && model.to.front().at <= t) {
          const Model::Message message = model.to.front();
          model.to.pop_front();
          rounds.Take({model.session, kJob, message.reading, message.beat, model.sink->number, model.sink},
                      View(), now);
        }
        for (; model.taken < model.sink->rounds.size(); ++model.taken) {
          // One that is very late may come when its reader was forgotten.
          const uint64_t delay = below(100) == 0 ? 700 + below(600) : below(3) == 0 ? below(300) : below(20);
          const double at = t + static_cast<double>(delay);
          const double after = model.from.empty() ? 0 : model.from.back().first;
          model.from.emplace_back(std::max(at, after), model.sink->rounds[model.taken]);
        }
        // What it may hand out now holds what was said to be seen, also while its code stands still: it may
        // look at its clock, and then hand out, at any moment.
        outlived += model.in && own >= model.until;
        if (model.in && own < model.until) {
          ASSERT_GE(model.version, lsns[seen]) << "at " << t << " ms";
        }
        if (t < model.paused_until) continue;
        if (below(400) == 0) model.paused_until = t + static_cast<double>(below(2500));
        bool talks = own >= model.next_beat;
        while (!model.from.empty() && model.from.front().first <= t) {
          const wire::Round round = model.from.front().second;
          model.from.pop_front();
          if (model.joining != 0) {
            if (round.beat < model.joining || round.number == 0) continue;
            model.in = true;
            model.joining = 0;
            model.version = round.version;
            model.round = round.number;
            model.until = static_cast<double>(round.beat) + 800;
          } else if (model.in && round.number == 0) {
            model.in = false;
            talks = true;
          } else if (model.in) {
            if (round.number > model.round) {
              model.round = round.number;
              model.version = round.version;
              talks = true;
            }
            if (round.beat != 0) model.until = std::max(model.until, static_cast<double>(round.beat) + 800);
          }
        }
        if (!talks) continue;
        model.next_beat = own + 200;
        Model::Message message{.reading = {.segment = segment.id()}};
        message.beat = static_cast<uint64_t>(own);
        message.at = t + static_cast<double>(below(3) == 0 ? below(300) : below(20));
        if (!model.to.empty()) message.at = std::max(message.at, model.to.back().at);
        if (model.in) {
          message.reading.kind = Kind::kReads;
          message.reading.round = model.round;
        } else if (model.joining == 0 || own - static_cast<double>(model.joining) >= 1000) {
          message.reading.kind = Kind::kJoins;
          model.joining = message.beat;
        } else {
          continue;
        }
        model.to.push_back(message);
      }
      for (const wire::Round& round : asks->rounds) seen = std::max(seen, round.seen);
      asks->rounds.clear();
    }
    seen_parts += seen;
  }
  EXPECT_GT(seen_parts, 60u * 100) << "most is seen";
  EXPECT_GT(outlived, 100u) << "some leases run out";
}

}  // namespace
}  // namespace paceline::log
