// All cases of segment_role.h; in each a host takes the role that the table names.
#include "services/shard/segment/segment_role.h"

#include <array>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/shard/test_util/members.h"

namespace paceline::shard {
namespace {

using namespace testing_members;

constexpr std::array kRoles = {"Elsewhere", "Primary", "Replica", "Learner", "Lost"};
constexpr std::array kHolds = {"nothing", "no more", "a part", "all"};
constexpr std::array kEvents = {
    "restored", "named primary",         "emptied", "named replica", "named first replica",
    "left out", "left to earlier start", "frame",   "outstayed"};
constexpr std::array kActions = {"restore",   "begin first", "begin empty",    "begin epoch",     "take over",
                                 "step down", "follow",      "follow empty",   "count",           "leave out",
                                 "drop",      "point away",  "tell lost here", "tell lost before"};

constexpr std::array kStandings = {
    Standing{Role::kElsewhere, Holds::kNothing}, Standing{Role::kElsewhere, Holds::kNoMore},
    Standing{Role::kPrimary, Holds::kWhole},     Standing{Role::kReplica, Holds::kPart},
    Standing{Role::kReplica, Holds::kWhole},     Standing{Role::kLearner, Holds::kPart},
    Standing{Role::kLearner, Holds::kWhole},     Standing{Role::kLost, Holds::kNothing},
    Standing{Role::kLost, Holds::kNoMore},       Standing{Role::kLost, Holds::kPart},
};

std::string Text(Standing standing) {
  return absl::StrCat(kRoles[static_cast<size_t>(standing.role)], " that holds ",
                      kHolds[static_cast<size_t>(standing.holds)]);
}

std::string Text(const Step& step) {
  std::string text = kRoles[static_cast<size_t>(step.next)];
  const char* separator = ": ";
  for (const Action action : step.actions) {
    absl::StrAppend(&text, separator, kActions[static_cast<size_t>(action)]);
    separator = ", ";
  }
  return text;
}

std::string Table() {
  std::string table = "\n";
  for (const Standing& standing : kStandings) {
    absl::StrAppend(&table, Text(standing), "\n");
    for (size_t event = 0; event < kEvents.size(); ++event) {
      absl::StrAppend(&table, "  ", kEvents[event], " -> ", Text(Next(standing, static_cast<Event>(event))),
                      "\n");
    }
  }
  return table;
}

TEST(SegmentRoleTest, AllCases) {
  EXPECT_EQ(Table(), R"(
Elsewhere that holds nothing
  restored -> Learner: restore
  named primary -> Primary: begin first
  emptied -> Primary: begin empty
  named replica -> Replica: follow, count
  named first replica -> Replica: follow empty, count
  left out -> Elsewhere: point away
  left to earlier start -> Lost: tell lost before
  frame -> Learner: follow
  outstayed -> Elsewhere
Elsewhere that holds no more
  restored -> Learner: restore
  named primary -> Lost: tell lost here
  emptied -> Primary: begin empty
  named replica -> Replica: follow, count
  named first replica -> Replica: follow empty, count
  left out -> Elsewhere: point away
  left to earlier start -> Lost: tell lost before
  frame -> Learner: follow
  outstayed -> Elsewhere
Primary that holds all
  restored -> Primary
  named primary -> Primary: begin epoch
  emptied -> Primary: begin empty
  named replica -> Replica: step down, count
  named first replica -> Replica: step down, count
  left out -> Learner: step down, leave out
  left to earlier start -> Learner: step down, leave out
  frame -> Learner: follow
  outstayed -> Primary
Replica that holds a part
  restored -> Replica
  named primary -> Lost: tell lost here
  emptied -> Primary: begin empty
  named replica -> Replica: count
  named first replica -> Replica: count
  left out -> Learner: leave out
  left to earlier start -> Learner: leave out
  frame -> Replica
  outstayed -> Replica
Replica that holds all
  restored -> Replica
  named primary -> Primary: take over
  emptied -> Primary: begin empty
  named replica -> Replica: count
  named first replica -> Replica: count
  left out -> Learner: leave out
  left to earlier start -> Learner: leave out
  frame -> Replica
  outstayed -> Replica
Learner that holds a part
  restored -> Learner
  named primary -> Lost: tell lost here
  emptied -> Primary: begin empty
  named replica -> Replica: count
  named first replica -> Replica: count
  left out -> Learner: leave out
  left to earlier start -> Learner: leave out
  frame -> Learner
  outstayed -> Elsewhere: drop
Learner that holds all
  restored -> Learner
  named primary -> Primary: take over
  emptied -> Primary: begin empty
  named replica -> Replica: count
  named first replica -> Replica: count
  left out -> Learner: leave out
  left to earlier start -> Learner: leave out
  frame -> Learner
  outstayed -> Elsewhere: drop
Lost that holds nothing
  restored -> Lost
  named primary -> Primary: begin first
  emptied -> Primary: begin empty
  named replica -> Replica: follow, count
  named first replica -> Replica: follow empty, count
  left out -> Elsewhere: point away
  left to earlier start -> Lost: tell lost before
  frame -> Learner: follow
  outstayed -> Lost
Lost that holds no more
  restored -> Lost
  named primary -> Lost: tell lost here
  emptied -> Primary: begin empty
  named replica -> Replica: follow, count
  named first replica -> Replica: follow empty, count
  left out -> Elsewhere: point away
  left to earlier start -> Lost: tell lost before
  frame -> Learner: follow
  outstayed -> Lost
Lost that holds a part
  restored -> Lost
  named primary -> Lost: tell lost here
  emptied -> Primary: begin empty
  named replica -> Replica: count
  named first replica -> Replica: count
  left out -> Learner: leave out
  left to earlier start -> Learner: leave out
  frame -> Lost
  outstayed -> Lost
)");
}

// For every standing, also for those that the table omits because no segment gets into them.
TEST(SegmentRoleTest, TheLastActionLeadsToTheNextRole) {
  const auto leads_to = [](Action action) {
    switch (action) {
      case Action::kBeginFirst:
      case Action::kBeginEmpty:
      case Action::kBeginEpoch:
      case Action::kTakeOver:
        return Role::kPrimary;
      case Action::kRestore:
      case Action::kStepDown:
      case Action::kFollow:
      case Action::kFollowEmpty:
      case Action::kLeaveOut:
        return Role::kLearner;
      case Action::kCount:
        return Role::kReplica;
      case Action::kDrop:
      case Action::kPointAway:
        return Role::kElsewhere;
      case Action::kTellLostHere:
      case Action::kTellLostBefore:
        break;
    }
    return Role::kLost;
  };
  for (size_t role = 0; role < kRoles.size(); ++role) {
    for (size_t holds = 0; holds < kHolds.size(); ++holds) {
      for (size_t event = 0; event < kEvents.size(); ++event) {
        const Standing standing{static_cast<Role>(role), static_cast<Holds>(holds)};
        const Step step = Next(standing, static_cast<Event>(event));
        SCOPED_TRACE(absl::StrCat(Text(standing), ", ", kEvents[event]));
        EXPECT_EQ(step.next, step.actions.empty() ? standing.role : leads_to(step.actions.back()));
      }
    }
  }
}

// -- the host --

// A shard that gets into each standing, in epochs of its own, and then meets each event.
class HostedRoleTest : public ::testing::Test {
 protected:
  HostedRoleTest() { Begin(); }
  void Begin() {
    net.nodes.clear();
    node = std::make_unique<Node>(net, clock, 0);
    epoch = 0;
  }
  void Configure(const ring::Member& primary, bool as_replica, bool emptied = false) {
    ring::SegmentConfig config{.epoch = Epoch(++epoch), .primary = primary, .replicas = {}};
    if (as_replica) config.replicas = {node->self};
    if (emptied) config.emptied_in = config.epoch;
    node->host.OnConfig(config, MapVersion(epoch), node->self, /*ring_bits=*/0);
    named = primary;
  }
  void Outstay() {
    node->host.OnTime(clock.now);
    clock.now += absl::Minutes(11);  // as long as anything is kept
    node->host.OnTime(clock.now);
  }
  void Frame() {
    v1::ReplicateRequest::Segment frame;
    frame.set_epoch(epoch);
    node->host.Follow(named, frame, absl::Cord(), /*ring_bits=*/0);
  }

  void GetInto(Standing standing) {
    const bool whole = standing.holds == Holds::kWhole;
    switch (standing.role) {
      case Role::kElsewhere:
        if (standing.holds == Holds::kNothing) return;
        Configure(node->self, false);
        Configure(other, false);
        return Outstay();
      case Role::kPrimary:
        return Configure(node->self, false);
      case Role::kLearner:
        GetInto({Role::kReplica, standing.holds});
        return Configure(other, false);
      case Role::kReplica:
        if (!whole) Configure(other, false);  // the first epoch, in which all are whole, is over
        return Configure(other, true);
      case Role::kLost:
        if (standing.holds == Holds::kNothing) return Configure(earlier, false);
        GetInto({standing.holds == Holds::kPart ? Role::kReplica : Role::kElsewhere, standing.holds});
        return Configure(node->self, false);
    }
  }
  // False: it does not happen here.
  bool Meet(Standing standing, Event event) {
    switch (event) {
      case Event::kNamedPrimary:
        Configure(node->self, false);
        return true;
      case Event::kEmptied:
        Configure(node->self, false, /*emptied=*/true);
        return true;
      case Event::kNamedReplica:
        if (epoch == 0) ++epoch;
        Configure(other, true);
        return true;
      case Event::kNamedFirstReplica:
        if (epoch > 0) return false;
        Configure(other, true);
        return true;
      case Event::kLeftOut:
        Configure(other, false);
        return true;
      case Event::kLeftToEarlierStarts:
        Configure(earlier, false);
        return true;
      case Event::kFrame:
        if (epoch == 0) Configure(other, false);
        Frame();
        return standing.role != Role::kPrimary;
      case Event::kOutstayed:
        Outstay();
        return true;
      case Event::kRestored:
        return false;
    }
    return false;
  }

  TestClock clock;
  Net net;
  const ring::Member other{.shard = ShardId(1), .incarnation = Incarnation(2)};
  const ring::Member earlier{.shard = ShardId(0), .incarnation = Incarnation(0)};
  ring::Member named;
  uint64_t epoch = 0;
  std::unique_ptr<Node> node;
};

TEST_F(HostedRoleTest, BecomesTheRoleOfTheTable) {
  size_t met = 0;
  for (const Standing& standing : kStandings) {
    for (size_t event = 0; event < kEvents.size(); ++event) {
      SCOPED_TRACE(absl::StrCat(Text(standing), ", ", kEvents[event]));
      Begin();
      GetInto(standing);
      ASSERT_EQ(node->host.role(), standing.role);
      const log::Follower* follower = node->host.follower();
      ASSERT_EQ(follower != nullptr, standing.role != Role::kPrimary &&
                                         (standing.holds == Holds::kPart || standing.holds == Holds::kWhole));
      if (follower != nullptr) {
        ASSERT_EQ(follower->whole(), standing.holds == Holds::kWhole);
      }
      if (!Meet(standing, static_cast<Event>(event))) continue;
      EXPECT_EQ(node->host.role(), Next(standing, static_cast<Event>(event)).next);
      ++met;
    }
  }
  EXPECT_EQ(met, 70u);
}

}  // namespace
}  // namespace paceline::shard
