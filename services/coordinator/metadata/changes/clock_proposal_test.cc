#include "services/coordinator/metadata/changes/clock_proposal.h"

#include <gtest/gtest.h>

namespace paceline::coordinator {
namespace {

TEST(ClockProposalTest, GoesTwiceAsFarAfterEachRefusal) {
  ClockProposal proposal;
  EXPECT_EQ(proposal.Beyond(100), 102u);
  EXPECT_EQ(proposal.Beyond(200), 202u) << "asking again is no refusal";
  proposal.Refused();
  EXPECT_EQ(proposal.Beyond(100), 104u);
  proposal.Refused();
  EXPECT_EQ(proposal.Beyond(104), 112u);
}

TEST(ClockProposalTest, BeginsAnewOnceAClockWasAccepted) {
  ClockProposal proposal;
  proposal.Refused();
  proposal.Refused();
  proposal.Accepted();
  EXPECT_EQ(proposal.Beyond(100), 102u);
}

TEST(ClockProposalTest, TheDistanceHasALimit) {
  ClockProposal proposal;
  for (int i = 0; i < 100; ++i) proposal.Refused();
  EXPECT_EQ(proposal.Beyond(100), 100u + 8192u);
}

}  // namespace
}  // namespace paceline::coordinator
