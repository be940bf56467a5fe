// Pulls that ask a shard for a reduction.
#include "libs/wire/partial.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

class ReductionPullTest : public ShardTest {
 protected:
  ReductionPullTest() {
    push.Start();
    pull.Start();
  }

  static wire::Frame<v1::PullRequest> Asked(const table::ReduceQuery& query, uint32_t of = kSparse) {
    wire::Frame<v1::PullRequest> request;
    request.head.set_request(7);
    request.head.set_table(of);
    request.head.set_key_form(v1::KEY_FORM_REDUCTION);
    *request.head.mutable_reduction() = wire::ToProto(query);
    request.head.set_parts(Part(0, 2, 0) + Part(1, 2, 0));
    request.keys = Bytes<uint64_t>({0, 0, 0, 0});
    return request;
  }
  // The partial results of a reply, added up.
  static table::Partial Whole(const table::ReduceQuery& query, const wire::Frame<v1::PullReply>& reply) {
    const std::string values(reply.values);
    const size_t bytes = wire::PartialBytes(query);
    EXPECT_EQ(values.size() % bytes, 0u);
    table::Partial whole;
    for (size_t at = 0; at < values.size(); at += bytes) {
      const auto read = wire::ReadPartial(query, absl::string_view(values).substr(at, bytes));
      EXPECT_THAT(read, IsOk());
      EXPECT_FALSE(read->end.more);
      whole.Merge(query, read->partial);
    }
    return whole;
  }
  // Why a request is refused as a whole.
  std::string Refused(const wire::Frame<v1::PullRequest>& request) {
    pull.Send(request);
    const auto& refusals = pull.replies.back().head.refusals();
    EXPECT_EQ(refusals.size(), 1);
    if (refusals.empty()) return "";
    EXPECT_EQ(refusals[0].reason(), v1::Refusal::INVALID);
    return refusals[0].message();
  }
};

TEST_F(ReductionPullTest, EachSegmentAnswersWithAPartialResult) {
  push.Send(Push(1, 0, {1, -2}));
  push.Send(Push(1, 1, {10, 20}));
  const table::ReduceQuery query{.op = table::ReduceOp::kSum};
  pull.Send(Asked(query));
  const auto& reply = pull.replies.back();
  const auto certificates = wire::ParseCertificates(reply.head.certificates()).value();
  ASSERT_EQ(certificates.size(), 2u);
  EXPECT_TRUE(certificates[0].served);
  EXPECT_EQ(certificates[1].own, 1u);
  EXPECT_EQ(Whole(query, reply).Value(query.op), 29);
  EXPECT_EQ(Whole(query, reply).rows, 2u);

  const table::ReduceQuery top{.op = table::ReduceOp::kTopAbs, .column = 1, .k = 3};
  pull.Send(Asked(top));
  const std::vector<table::TopEntry> ordered = Whole(top, pull.replies.back()).Ordered(top.op);
  ASSERT_EQ(ordered.size(), 2u);
  EXPECT_EQ(ordered[1], (table::TopEntry{.key = KeyIn(0), .column = 1, .value = -2}));
}

TEST_F(ReductionPullTest, OfARangedTableHasRowsThatNobodyHasPushedTo) {
  const table::ReduceQuery query{.op = table::ReduceOp::kRows, .first = 10, .last = 19};
  pull.Send(Asked(query, kRanged));
  EXPECT_EQ(Whole(query, pull.replies.back()).rows, 10u);
}

// One that is parked among others that are not.
TEST_F(ReductionPullTest, WaitsForTheReadersOwnPart) {
  const table::ReduceQuery query{.op = table::ReduceOp::kSum};
  wire::Frame<v1::PullRequest> request = Asked(query);
  request.head.set_parts(Part(0, 2, 0) + Part(1, 2, /*number=*/1));
  const size_t before = pull.replies.size();
  pull.Send(request);
  EXPECT_EQ(pull.replies.size(), before);
  push.Send(Push(1, 1, {3, 4}));
  ASSERT_EQ(pull.replies.size(), before + 1);
  EXPECT_EQ(Whole(query, pull.replies.back()).Value(query.op), 7);
}

TEST_F(ReductionPullTest, WhatIsWrongIsNamed) {
  wire::Frame<v1::PullRequest> request = Asked({});
  request.head.clear_reduction();
  EXPECT_THAT(Refused(request), HasSubstr("reduction: op 0 is not known"));
  request = Asked({});
  request.head.set_parts(Part(0, 1, 0) + Part(1, 3, 0));
  EXPECT_THAT(Refused(request), HasSubstr("a part that asks for a reduction has 2, a cursor and an epoch"));
  EXPECT_THAT(Refused(Asked({.op = table::ReduceOp::kTop, .k = 5000})),
              HasSubstr("k: 5000; expected 1 to 1024"));
  EXPECT_THAT(Refused(Asked({.first = 1000}, kRanged)), HasSubstr("the table has keys 0 to 999"));
}

}  // namespace
}  // namespace paceline::shard
