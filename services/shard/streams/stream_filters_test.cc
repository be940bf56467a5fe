// Filters at the shard: what is agreed, and what becomes of frames that come with them.
#include "services/shard/streams/stream_filters.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

using filter::Filter;
using filter::FilterSet;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct NoObserver final : filter::Observer {
  void Filtered(Filter, uint64_t, uint64_t, absl::Duration) override {}
};

class StreamFiltersTest : public ShardTest {
 protected:
  StreamFiltersTest() = default;
  explicit StreamFiltersTest(ShardOptions options) : ShardTest(std::move(options)) {}

  template <class Request, class Reply>
  static v1::Welcome Begin(Wire<Request, Reply>& wire, FilterSet filters, FilterSet replies,
                           uint32_t level = kFeatureLevel) {
    wire.stream().Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), &wire));
    wire::Frame<Request> frame;
    v1::Hello* hello = frame.head.mutable_hello();
    hello->set_feature_level(level);
    hello->set_job(1);
    hello->set_session(5);
    for (const uint32_t number : filters.Numbers()) hello->add_filters(number);
    for (const uint32_t number : replies.Numbers()) hello->add_reply_filters(number);
    hello->add_filters(900);  // of a later release
    hello->add_reply_filters(900);
    wire.Send(frame);
    return wire.replies.at(0).head.welcome();
  }

  // A push of one row, coded.
  wire::Frame<v1::PushRequest> Coded(wire::Frame<v1::PushRequest> frame, FilterSet filters) {
    const FilterSet applied = encoder.Encode(filters, 1, frame.keys) |
                              filter::EncodeValues(filters, 2, frame.values, clock, observer);
    for (const uint32_t number : applied.Numbers()) frame.head.add_filters(number);
    return frame;
  }

  std::vector<float> RowIn(uint32_t segment) {
    PullWire reader(shard.NewPullStream());
    reader.Start();
    reader.Send(Pull(1));
    const std::string values(reader.replies.back().values);
    std::vector<float> row(2);
    std::memcpy(row.data(), values.data() + (segment == 1 ? 0 : 8), 8);
    return row;
  }

  NoObserver observer;
  filter::KeyEncoder encoder{clock, observer};
};

TEST_F(StreamFiltersTest, WhatBothKnowIsAgreed) {
  const v1::Welcome welcome =
      Begin(push, {Filter::kKeys, Filter::kZstd}, {Filter::kF16, Filter::kKeys, Filter::kLz4});
  EXPECT_THAT(welcome.filters(), ElementsAre(1, 7));
  EXPECT_THAT(welcome.reply_filters(), ElementsAre(3, 6));  // keys do not come back
  EXPECT_EQ(welcome.key_list_bytes(), filter::kListBytesMax);
  EXPECT_EQ(Begin(pull, {Filter::kDelta}, {}).key_list_bytes(), 0u);
}

TEST_F(StreamFiltersTest, AClientOfLevel1GetsNone) {
  const v1::Welcome welcome = Begin(push, FilterSet::All(), FilterSet::All(), 1);
  EXPECT_THAT(welcome.filters(), IsEmpty());
  EXPECT_THAT(welcome.reply_filters(), IsEmpty());
}

TEST_F(StreamFiltersTest, PartsAreAppliedAsIfTheyHadComePlain) {
  const v1::Welcome welcome = Begin(push, FilterSet::All(), {});
  encoder.Begin(welcome.key_list_bytes());
  const FilterSet filters = {Filter::kKeys, Filter::kDelta, Filter::kInt8, Filter::kLz4};
  for (uint64_t number = 1; number <= 4; ++number) push.Send(Coded(Push(number), filters));
  EXPECT_THAT(push.Refusals(), IsEmpty());
  EXPECT_EQ(CommittedUpto(push), 4u);
  EXPECT_THAT(RowIn(0), ElementsAre(4, 8));
}

TEST_F(StreamFiltersTest, AFrameThatIsRefusedHasTaughtItsKeys) {
  encoder.Begin(Begin(push, {Filter::kKeys}, {}).key_list_bytes());
  wire::Frame<v1::PushRequest> unknown = Push(1);
  unknown.head.set_table(99);
  push.Send(Coded(unknown, {Filter::kKeys}));
  ASSERT_EQ(push.Refusals().size(), 1u);
  wire::Frame<v1::PushRequest> named = Coded(Push(1), {Filter::kKeys});
  EXPECT_LT(named.keys.size(), 8u);
  push.Send(named);
  EXPECT_EQ(push.Refusals().size(), 1u);
  EXPECT_EQ(CommittedUpto(push), 1u);
}

TEST_F(StreamFiltersTest, WhatWasNotAgreedIsRefusedAndWhatCannotBeReadIsMalformed) {
  encoder.Begin(Begin(push, {Filter::kKeys}, {}).key_list_bytes());
  wire::Frame<v1::PushRequest> frame = Push(1);
  frame.head.add_filters(static_cast<uint32_t>(Filter::kLz4));
  push.Send(frame);
  EXPECT_EQ(push.Refusals().back().reason(), v1::Refusal::INVALID);
  EXPECT_THAT(push.Refusals().back().message(), HasSubstr("filters: 6"));
  frame = Push(1);
  frame.head.add_filters(static_cast<uint32_t>(Filter::kKeys));
  frame.keys = absl::Cord("\x02\x07 crc");
  push.Send(frame);
  EXPECT_EQ(push.Refusals().back().reason(), v1::Refusal::MALFORMED);
  EXPECT_THAT(push.Refusals().back().message(), HasSubstr("index 7 is not kept"));
  ExpectAlive(push, 1);
}

TEST_F(StreamFiltersTest, APullNamesItsKeysAndGetsItsRowsRounded) {
  encoder.Begin(Begin(pull, {Filter::kKeys, Filter::kDelta}, FilterSet::OfValues()).key_list_bytes());
  push.Start();
  push.Send(Push(1, 0, {0.1f, 1000.0f}));
  for (int again = 0; again < 2; ++again) {
    wire::Frame<v1::PullRequest> request = Pull(7);
    const FilterSet applied = encoder.Encode({Filter::kKeys, Filter::kDelta}, 1, request.keys);
    for (const uint32_t number : applied.Numbers()) request.head.add_key_filters(number);
    request.head.add_filters(static_cast<uint32_t>(Filter::kBf16));
    pull.Send(request);
    wire::Frame<v1::PullReply> reply = pull.replies.back();
    ASSERT_THAT(reply.head.refusals(), IsEmpty());
    EXPECT_THAT(reply.head.filters(), ElementsAre(4));
    ASSERT_THAT(filter::DecodeValues({Filter::kBf16}, 16, reply.values, clock, observer), IsOk());
    EXPECT_EQ(reply.values, Bytes<float>({0, 0, 0.10009765625f, 1000.0f}));
  }
  EXPECT_THAT(RowIn(0), ElementsAre(0.1f, 1000.0f));
}

TEST_F(StreamFiltersTest, APullAsksForAgreedFiltersOnly) {
  Begin(pull, {}, {Filter::kF16});
  for (const bool of_keys : {true, false}) {
    wire::Frame<v1::PullRequest> request = Pull(7);
    of_keys ? request.head.add_key_filters(2) : request.head.add_filters(5);
    pull.Send(request);
    EXPECT_EQ(pull.replies.back().head.refusals(0).reason(), v1::Refusal::INVALID);
    EXPECT_THAT(pull.replies.back().head.refusals(0).message(),
                HasSubstr(of_keys ? "filters: 2" : "filters: 5"));
  }
  pull.Send(Pull(8));
  EXPECT_THAT(pull.replies.back().head.refusals(), IsEmpty());
}

// The keys of a list are looked at once, for its first use; what was found says nothing of another use.
TEST_F(StreamFiltersTest, AListThatWasGoodInItsSegmentsIsRefusedInOthers) {
  encoder.Begin(Begin(push, {Filter::kKeys}, {}).key_list_bytes());
  const auto send = [&](uint64_t number, const std::string& parts) {
    wire::Frame<v1::PushRequest> frame = Push(number);
    frame.head.set_parts(parts);
    push.Send(Coded(std::move(frame), {Filter::kKeys}));
  };
  const uint32_t here = 0, elsewhere = 1;
  for (uint64_t number = 1; number <= 3; ++number) send(number, Part(here, 1, number));
  EXPECT_THAT(push.Refusals(), IsEmpty());
  send(1, Part(elsewhere, 1, 1));
  ASSERT_EQ(push.Refusals().size(), 1u);
  EXPECT_EQ(push.Refusals()[0].reason(), v1::Refusal::INVALID);
  send(1, Part(elsewhere, 1, 1));
  EXPECT_EQ(push.Refusals().size(), 2u) << "and again";
  send(4, Part(here, 1, 4));
  EXPECT_EQ(push.Refusals().size(), 2u);
  EXPECT_EQ(CommittedUpto(push), 4u);
}

TEST_F(StreamFiltersTest, AListThatWasPulledFromItsSegmentsIsRefusedInOthers) {
  encoder.Begin(Begin(pull, {Filter::kKeys}, {}).key_list_bytes());
  const auto refusals_of = [&](const std::string& parts) {
    wire::Frame<v1::PullRequest> request = Pull(7);
    request.head.set_parts(parts);
    const FilterSet applied = encoder.Encode({Filter::kKeys}, 1, request.keys);
    for (const uint32_t number : applied.Numbers()) request.head.add_key_filters(number);
    pull.Send(request);
    return pull.replies.back().head.refusals_size();
  };
  const std::string right = Part(1, 1, 0) + Part(0, 1, 0), wrong = Part(0, 1, 0) + Part(1, 1, 0);
  for (int again = 0; again < 3; ++again) EXPECT_EQ(refusals_of(right), 0);
  for (int again = 0; again < 2; ++again) EXPECT_EQ(refusals_of(wrong), 2) << "of both parts";
  EXPECT_EQ(refusals_of(right), 0);
}

// A read that waits keeps its keys, which may have come as a few bytes.
TEST_F(StreamFiltersTest, KeysOfReadsThatWaitAreBounded) {
  Begin(pull, {Filter::kZstd}, {});
  constexpr size_t kRanges = (size_t{7} << 20) / 16;  // all of them empty: no row is asked for
  wire::Frame<v1::PullRequest> request;
  request.head.set_table(kRanged);
  request.head.set_key_form(v1::KEY_FORM_RANGES);
  request.head.set_min_clock(9);  // nobody has joined: it waits
  request.head.set_parts(Part(0, kRanges, 0));
  request.keys = Bytes(std::vector<uint64_t>(2 * kRanges));
  const FilterSet applied = encoder.Encode({Filter::kZstd}, 2, request.keys);
  for (const uint32_t number : applied.Numbers()) request.head.add_key_filters(number);
  ASSERT_LT(request.keys.size(), 10'000u);
  for (uint64_t id = 1; id <= 12; ++id) {
    request.head.set_request(id);
    pull.Send(request);
  }
  ASSERT_EQ(pull.Refusals().size(), 3u) << "9 times 7 MiB are what fits in 64 MiB";
  EXPECT_EQ(pull.Refusals().front().reason(), v1::Refusal::OVER_BUDGET);
}

class FewListsTest : public StreamFiltersTest {
 protected:
  FewListsTest() : StreamFiltersTest(ShardOptions{.key_lists_bytes_max = 200 << 10}) {}
};

TEST_F(FewListsTest, AStreamThatBreaksGivesItsListsBackThoughItsReadsStillWait) {
  Begin(pull, {Filter::kKeys}, {});
  EXPECT_GT(shard.context().key_lists().promised(), 0u);
  pull.Send(Pull(1, /*min_clock=*/9));  // nobody has joined
  EXPECT_EQ(pull.replies.size(), 1u) << "the welcome";
  pull.stream().OnBroken(absl::CancelledError("the peer went away"));
  EXPECT_EQ(shard.context().key_lists().promised(), 0u);
  EXPECT_EQ(Begin(push, {Filter::kKeys}, {}).key_list_bytes(), 100u << 10);
  push.stream().OnBroken(absl::CancelledError("the peer went away"));
  EXPECT_EQ(shard.context().key_lists().promised(), 0u);
}

TEST_F(FewListsTest, RoomForListsIsPromisedOnceAndComesBack) {
  EXPECT_EQ(Begin(push, {Filter::kKeys}, {}).key_list_bytes(), 100u << 10);
  EXPECT_THAT(Begin(pull, {Filter::kKeys, Filter::kDelta}, {}).filters(),
              ElementsAre(2));  // too little is left
  EXPECT_EQ(shard.context().key_lists().promised(), 100u << 10);
  {
    KeyListRoom& room = shard.context().key_lists();
    EXPECT_EQ(room.Take(1000), nullptr);
  }
  const auto other = std::make_shared<KeyListRoom>(uint64_t{1} << 20);
  {
    const auto share = other->Take(uint64_t{100} << 10);
    EXPECT_EQ(share->bytes(), 100u << 10);
  }
  EXPECT_EQ(other->promised(), 0u);
}

}  // namespace
}  // namespace paceline::shard
