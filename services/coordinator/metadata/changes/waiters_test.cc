#include "services/coordinator/metadata/changes/waiters.h"

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/metadata/test_util/test_shards.h"
#include "services/coordinator/store/memory_store.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WaitersTest : public ::testing::Test {
 protected:
  Ticket Add(Subject subject, Awaited awaited, int deadline_s) {
    const Ticket ticket = waiters_.NewTicket();
    const auto told = waiters_.Await(
        {.subject = subject,
         .awaited = awaited,
         .deadline = At(deadline_s),
         .answer =
             [this, ticket](const absl::Status& status) {
               answered_.push_back(ticket);
               status_ = status;
             },
         .expired = [] { return absl::DeadlineExceededError("it waits for shard-1"); },
         .left = [this, ticket](bool abandoned) { (abandoned ? abandoned_ : expired_).push_back(ticket); }},
        ticket);
    EXPECT_THAT(told, IsOk());
    return ticket;
  }
  absl::Time At(int seconds) const { return begin_ + absl::Seconds(seconds); }
  std::vector<Ticket> Answered() { return std::exchange(answered_, {}); }
  std::vector<Ticket> OnTime(int seconds) {
    context_.now = At(seconds);
    waiters_.OnTime();
    return Answered();
  }

  ManualClock clock_;
  const absl::Time begin_ = clock_.now;
  std::unique_ptr<MemoryStore> store_ = *MemoryStore::Open(std::make_shared<MemoryStore::Disk>());
  std::unique_ptr<Facts> facts_ = *Facts::Load(*store_, 3);
  FakeShards shards_;
  Probe probe_;
  Context context_{.facts = *facts_,
                   .clock = clock_,
                   .caller = shards_,
                   .probe = probe_,
                   .options = {.limits = {.requests = 3}},
                   .outbox = {},
                   .now = begin_};
  std::optional<Subject> lost_;  // it is hopeless to wait for it
  Waiters waiters_{context_, [this](Subject subject) {
                     return subject == lost_ ? absl::DataLossError("it is lost") : absl::OkStatus();
                   }};
  std::vector<Ticket> answered_;
  absl::Status status_;  // the last answer
  std::vector<Ticket> abandoned_;
  std::vector<Ticket> expired_;
};

TEST_F(WaitersTest, AreAnsweredBySubjectAndEvent) {
  const Ticket a = Add(Subject::Session(7), Awaited::kJoin, 9);
  const Ticket b = Add(Subject::Session(7), Awaited::kClose, 5);
  const Ticket c = Add(Subject::Table(7), Awaited::kDone, 5);
  EXPECT_TRUE(waiters_.Has(Subject::Session(7), Awaited::kJoin));
  EXPECT_FALSE(waiters_.Has(Subject::Table(7), Awaited::kJoin));
  waiters_.AnswerFor(Subject::Session(7), Awaited::kJoin, absl::OkStatus());
  EXPECT_THAT(Answered(), ElementsAre(a));
  waiters_.AnswerAll(Subject::Session(7), absl::OkStatus());
  EXPECT_THAT(Answered(), ElementsAre(b));
  EXPECT_FALSE(waiters_.Has(Subject::Session(7)));
  waiters_.AnswerEverything(absl::UnavailableError("the coordinator ends"));
  EXPECT_THAT(Answered(), ElementsAre(c));
  EXPECT_THAT(status_, StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(waiters_.size(), 0u);
  EXPECT_THAT(expired_, IsEmpty());
}

TEST_F(WaitersTest, TheAnswerAtTheDeadlineNamesTheShardsTheyWaitFor) {
  EXPECT_EQ(waiters_.NextDeadline(), absl::InfiniteFuture());
  const Ticket late = Add(Subject::Session(7), Awaited::kJoin, 9);
  const Ticket soon = Add(Subject::Session(8), Awaited::kJoin, 5);
  EXPECT_EQ(waiters_.NextDeadline(), At(5));
  EXPECT_THAT(OnTime(4), IsEmpty());
  EXPECT_THAT(OnTime(5), ElementsAre(soon));
  EXPECT_THAT(status_, StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("shard-1")));
  EXPECT_THAT(OnTime(100), ElementsAre(late));
  EXPECT_THAT(expired_, ElementsAre(soon, late));
  EXPECT_EQ(waiters_.NextDeadline(), absl::InfiniteFuture());
}

TEST_F(WaitersTest, ADeadlineIsTheEarlierOfTheClientsAndTheRequestsOwn) {
  EXPECT_EQ(waiters_.DeadlineOf(absl::InfiniteFuture(), 0), At(30));
  EXPECT_EQ(waiters_.DeadlineOf(absl::InfiniteFuture(), 4000), At(4));
  EXPECT_EQ(waiters_.DeadlineOf(At(2), 4000), At(2));
}

TEST_F(WaitersTest, HopelessRequestsAreAnsweredAtOnce) {
  const Ticket ticket = Add(Subject::Table(7), Awaited::kDone, 9);
  Add(Subject::Table(8), Awaited::kDone, 9);
  lost_ = Subject::Table(7);
  EXPECT_THAT(OnTime(1), ElementsAre(ticket));
  EXPECT_THAT(status_, StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(expired_, ElementsAre(ticket));
}

TEST_F(WaitersTest, ARequestThatIsGivenUpIsAnsweredOnce) {
  const Ticket ticket = Add(Subject::Shard(1), Awaited::kDone, 9);
  waiters_.Abandon(ticket);
  waiters_.Abandon(ticket);
  waiters_.AnswerOne(ticket, absl::OkStatus());
  EXPECT_THAT(Answered(), ElementsAre(ticket));
  EXPECT_THAT(status_, StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(abandoned_, ElementsAre(ticket));
}

TEST_F(WaitersTest, ARequestThatWaitsForTheNextEventKeepsItsTicket) {
  const Ticket ticket = Add(Subject::Files(), Awaited::kDone, 9);
  EXPECT_TRUE(waiters_.Take(ticket));
  EXPECT_FALSE(waiters_.Take(ticket));
  EXPECT_THAT(Answered(), IsEmpty());
  ASSERT_THAT(waiters_.Await({.subject = Subject::Load(1),
                              .deadline = At(9),
                              .answer = [this](const absl::Status& status) { status_ = status; },
                              .expired = nullptr},
                             ticket),
              IsOk());
  waiters_.Abandon(ticket);
  EXPECT_THAT(status_, StatusIs(StatusCode::kCancelled));
}

TEST_F(WaitersTest, TheirNumberHasALimit) {
  for (int i = 0; i < 3; ++i) Add(Subject::Session(7), Awaited::kJoin, 9);
  EXPECT_THAT(waiters_.Await(
                  {.subject = Subject::Table(1), .deadline = At(9), .answer = nullptr, .expired = nullptr}),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("requests")));
  EXPECT_EQ(waiters_.size(), 3u);
}

TEST_F(WaitersTest, ReceiversAreToldWhenTheVisitEnds) {
  absl::StatusOr<int> told = absl::UnknownError("nothing yet");
  waiters_.Telling<int>([&](absl::StatusOr<int> reply) { told = reply; }, [] { return 7; })(absl::OkStatus());
  EXPECT_THAT(told, StatusIs(StatusCode::kUnknown));
  context_.outbox.Flush();
  EXPECT_EQ(*told, 7);
}

}  // namespace
}  // namespace paceline::coordinator
