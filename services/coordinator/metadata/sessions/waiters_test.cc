#include "services/coordinator/metadata/sessions/waiters.h"

#include "libs/base/test_util/status_matchers.h"

namespace paceline::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WaitersTest : public ::testing::Test {
 protected:
  Ticket Add(uint64_t session, Awaited awaited, int deadline_s) {
    const Ticket ticket = waiters_.NewTicket();
    waiters_.Add(ticket, {.session = session,
                          .awaited = awaited,
                          .deadline = At(deadline_s),
                          .answer = [this, ticket](const absl::Status&) { answered_.push_back(ticket); }});
    return ticket;
  }
  static absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
  std::vector<Ticket> Answered(const std::vector<Waiters::Waiter>& taken) {
    answered_.clear();
    for (const auto& waiter : taken) waiter.answer(absl::OkStatus());
    return answered_;
  }

  Waiters waiters_;
  std::vector<Ticket> answered_;
};

TEST_F(WaitersTest, AreTakenBySessionAndWhatTheyAwait) {
  const Ticket a = Add(7, Awaited::kJoin, 9);
  const Ticket b = Add(7, Awaited::kClose, 5);
  const Ticket c = Add(8, Awaited::kJoin, 5);
  EXPECT_TRUE(waiters_.Has(7, Awaited::kJoin));
  EXPECT_FALSE(waiters_.Has(8, Awaited::kClose));
  EXPECT_THAT(waiters_.Sessions(), ElementsAre(7, 8));
  EXPECT_THAT(Answered(waiters_.Take(7, Awaited::kJoin)), ElementsAre(a));
  EXPECT_THAT(Answered(waiters_.TakeAll(7)), ElementsAre(b));
  EXPECT_FALSE(waiters_.Has(7));
  EXPECT_THAT(Answered(waiters_.TakeEverything()), ElementsAre(c));
  EXPECT_EQ(waiters_.size(), 0u);
}

TEST_F(WaitersTest, ExpireAtTheirDeadline) {
  EXPECT_EQ(waiters_.NextDeadline(), absl::InfiniteFuture());
  const Ticket late = Add(7, Awaited::kJoin, 9);
  const Ticket soon = Add(8, Awaited::kJoin, 5);
  EXPECT_EQ(waiters_.NextDeadline(), At(5));
  EXPECT_THAT(Answered(waiters_.TakeExpired(At(4))), IsEmpty());
  EXPECT_THAT(Answered(waiters_.TakeExpired(At(5))), ElementsAre(soon));
  EXPECT_THAT(Answered(waiters_.TakeExpired(At(100))), ElementsAre(late));
}

TEST_F(WaitersTest, ATicketIsTakenOnce) {
  const Ticket ticket = Add(7, Awaited::kJoin, 9);
  EXPECT_THAT(Answered(waiters_.Take(ticket)), ElementsAre(ticket));
  EXPECT_THAT(Answered(waiters_.Take(ticket)), IsEmpty());
  EXPECT_EQ(waiters_.NextDeadline(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace paceline::coordinator
