#include "services/shard/shard.h"

#include <deque>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/wire/frame.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/packed.h"

namespace paceline::shard {
namespace {

using paceline::testing::IsOk;
using ::testing::HasSubstr;

constexpr uint32_t kSparse = 1;
constexpr uint32_t kRanged = 2;
constexpr uint32_t kForeign = 3;

class ManualClock : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch();
};

// A client's end of one stream: what it sends is handled at once, what comes back is kept.
template <class Request, class Reply>
class Wire : public world::StreamPort {
 public:
  explicit Wire(std::shared_ptr<world::AcceptedStream> stream) : stream_(std::move(stream)) {}
  void Start(uint64_t session = 5, uint32_t job = 1) {
    stream_->Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), this));
    wire::Frame<Request> hello;
    hello.head.mutable_hello()->set_feature_level(1);
    hello.head.mutable_hello()->set_job(job);
    hello.head.mutable_hello()->set_session(session);
    Send(hello);
  }
  void Kick() override {
    absl::Cord bytes;
    while (stream_->NextFrame(&bytes)) replies.push_back(wire::Decode<Reply>(bytes).value());
  }
  void Close(absl::Status why) override { closed = std::move(why); }
  void Send(const wire::Frame<Request>& frame) { stream_->OnFrame(wire::Encode(frame)); }
  void SendRaw(absl::string_view bytes) { stream_->OnFrame(absl::Cord(bytes)); }
  world::AcceptedStream& stream() { return *stream_; }

  // All refusals that have come.
  std::vector<v1::Refusal> Refusals() const {
    std::vector<v1::Refusal> all;
    for (const auto& reply : replies)
      all.insert(all.end(), reply.head.refusals().begin(), reply.head.refusals().end());
    return all;
  }

  std::deque<wire::Frame<Reply>> replies;
  std::optional<absl::Status> closed;

 private:
  std::shared_ptr<world::AcceptedStream> stream_;
};
using PushWire = Wire<v1::PushRequest, v1::PushReply>;
using PullWire = Wire<v1::PullRequest, v1::PullReply>;

template <class T>
absl::Cord Bytes(const std::vector<T>& values) {
  return absl::Cord(
      absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

// One shard that serves both segments of a ring of two, and one session of job 1.
class ShardTest : public ::testing::Test {
 protected:
  ShardTest() : ShardTest(ShardOptions{}) {}
  explicit ShardTest(ShardOptions options) : shard(std::move(options), clock, probe) {
    shard.Identify({.shard = ShardId(0), .incarnation = Incarnation(1)});
    Install(1, 1);
    Change(v1::SessionChange::OPEN, 5);
  }

  v1::InstallRequest MapOf(uint64_t version, uint64_t incarnation, uint64_t epoch = 1) {
    v1::InstallRequest request;
    request.mutable_map()->set_version(version);
    request.mutable_map()->set_ring_bits(1);
    for (int s = 0; s < 2; ++s) {
      request.mutable_map()->add_segments()->set_epoch(epoch);
      request.mutable_map()->mutable_segments(s)->mutable_primary()->set_incarnation(incarnation);
    }
    v1::ShardInfo* info = request.mutable_map()->add_shards();
    info->set_name("shard-0");
    info->set_address("127.0.0.1:1");
    info->set_incarnation(9);
    return request;
  }
  void Install(uint64_t version, uint64_t incarnation) {
    v1::InstallRequest request = MapOf(version, incarnation);
    request.mutable_catalogue()->set_version(1);
    for (uint32_t id : {kSparse, kRanged, kForeign}) {
      v1::Table* table = request.mutable_catalogue()->add_tables();
      table->set_id(id);
      table->set_job(id == kForeign ? 2 : 1);
      table->set_name("table-" + std::to_string(id));
      table->mutable_schema()->set_kind(id == kRanged ? v1::TABLE_KIND_RANGED : v1::TABLE_KIND_SPARSE);
      table->mutable_schema()->set_dim(2);
      if (id == kRanged) table->mutable_schema()->set_rows(1000);
      table->mutable_schema()->mutable_rule()->mutable_add();
    }
    ASSERT_THAT(shard.Install(request), IsOk());
  }
  v1::SessionChangeReply Change(v1::SessionChange::Action action, uint64_t session, uint64_t start = 0) {
    v1::SessionChange change;
    change.set_action(action);
    change.set_job(1);
    change.set_session(session);
    change.set_start_clock(start);
    v1::SessionChangeReply out;
    shard.ChangeSession(change, [&](absl::StatusOr<v1::SessionChangeReply> reply) { out = reply.value(); });
    return out;
  }
  static std::string Part(uint32_t segment, uint32_t count, uint64_t number, uint64_t epoch = 1) {
    std::string out;
    wire::Append(wire::PartEntry{SegmentId(segment), count, Epoch(epoch), number}, out);
    return out;
  }
  // A key of the sparse table that lies in `segment`.
  static uint64_t KeyIn(uint32_t segment) {
    const auto placement = ring::Placement::Sparse(TableId(kSparse), 1).value();
    uint64_t key = 0;
    while (placement.Of(key) != SegmentId(segment)) ++key;
    return key;
  }
  static wire::Frame<v1::PushRequest> Push(uint64_t number, uint32_t segment = 0,
                                           std::vector<float> row = {1, 2}) {
    wire::Frame<v1::PushRequest> frame;
    frame.head.set_table(kSparse);
    frame.head.set_line(v1::LINE_ARRIVAL);
    frame.head.set_parts(Part(segment, 1, number));
    frame.keys = Bytes<uint64_t>({KeyIn(segment)});
    frame.values = Bytes<float>(row);
    return frame;
  }
  static wire::Frame<v1::PullRequest> Pull(uint64_t request, uint64_t min_clock = 0) {
    wire::Frame<v1::PullRequest> frame;
    frame.head.set_request(request);
    frame.head.set_table(kSparse);
    frame.head.set_min_clock(min_clock);
    frame.head.set_parts(Part(1, 1, 0) + Part(0, 1, 0));
    frame.keys = Bytes<uint64_t>({KeyIn(1), KeyIn(0)});
    return frame;
  }
  static wire::Frame<v1::PushRequest> Tick(uint64_t at, std::vector<wire::Seal> seals) {
    wire::Frame<v1::PushRequest> frame;
    frame.head.mutable_tick()->set_clock(at);
    for (const wire::Seal& seal : seals) wire::Append(seal, *frame.head.mutable_tick()->mutable_seals());
    return frame;
  }
  // Expects that the stream still takes a good part.
  void ExpectAlive(PushWire& wire, uint64_t number) {
    wire.replies.clear();
    wire.Send(Push(number));
    ASSERT_FALSE(wire.replies.empty());
    EXPECT_THAT(wire.Refusals(), ::testing::IsEmpty());
    EXPECT_EQ(wire::ParseMarks(wire.replies.back().head.committed()).value().at(0).number, number);
  }
  static uint64_t CommittedUpto(const PushWire& wire) {
    uint64_t upto = 0;
    for (const auto& reply : wire.replies) {
      const std::vector<wire::Mark> marks = wire::ParseMarks(reply.head.committed()).value();
      for (const wire::Mark& mark : marks) upto = std::max(upto, mark.number);
    }
    return upto;
  }

  ManualClock clock;
  Probe probe;
  Shard shard;
  PushWire push{shard.NewPushStream()};
  PullWire pull{shard.NewPullStream()};
};

TEST_F(ShardTest, PushedRowsArePulledInTheRequestsOrder) {
  push.Start();
  EXPECT_EQ(push.replies.at(0).head.welcome().feature_level(), 1u);
  push.Send(Push(1, 0, {1, 2}));
  push.Send(Push(1, 1, {3, 4}));
  EXPECT_EQ(push.replies.back().head.received(), 2u);
  pull.Start();
  pull.Send(Pull(77));
  ASSERT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(pull.replies[1].head.request(), 77u);
  EXPECT_EQ(pull.replies[1].values, Bytes<float>({3, 4, 1, 2}));
  const auto certificates = wire::ParseCertificates(pull.replies[1].head.certificates()).value();
  ASSERT_EQ(certificates.size(), 2u);
  EXPECT_EQ(certificates[0].segment, SegmentId(1));
  EXPECT_TRUE(certificates[0].served);
  EXPECT_EQ(certificates[0].own, 1u);
}

TEST_F(ShardTest, RangesOfARangedTable) {
  const auto placement = ring::Placement::Ranged(TableId(kRanged), 1, 1000, 2).value();
  const auto piece = placement.ForRange(0, 10).value().at(0);
  wire::Frame<v1::PushRequest> frame;
  frame.head.set_table(kRanged);
  frame.head.set_line(v1::LINE_ARRIVAL);
  frame.head.set_key_form(v1::KEY_FORM_RANGES);
  frame.head.set_parts(Part(piece.segment.v, 1, 1));
  frame.keys = Bytes<uint64_t>({2, 3});
  frame.values = Bytes<float>({1, 2, 3, 4, 5, 6});
  push.Start();
  push.Send(frame);
  EXPECT_THAT(push.Refusals(), ::testing::IsEmpty());
  wire::Frame<v1::PullRequest> request;
  request.head.set_table(kRanged);
  request.head.set_key_form(v1::KEY_FORM_RANGES);
  request.head.set_parts(Part(piece.segment.v, 1, 1));
  request.keys = Bytes<uint64_t>({1, 3});
  pull.Start();
  pull.Send(request);
  EXPECT_EQ(pull.replies.back().values, Bytes<float>({0, 0, 1, 2, 3, 4}));
}

TEST_F(ShardTest, TicksCountOnceTheirPartsAreThereAndReleaseReads) {
  ASSERT_EQ(Change(v1::SessionChange::JOIN, 5).committed_size(), 2);
  push.Start();
  pull.Start();
  pull.Send(Pull(1, /*min_clock=*/1));
  EXPECT_EQ(pull.replies.size(), 1u) << "parked";
  push.Send(Tick(1, {{.segment = SegmentId(0), .run = 2, .number = 1}}));
  EXPECT_EQ(pull.replies.size(), 1u) << "the sealed parts are missing";
  push.Send(Push(1, 0));
  push.Send(Push(1, 1));
  ASSERT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(wire::ParseCertificates(pull.replies[1].head.certificates()).value().at(0).min_clock, 1u);
}

TEST_F(ShardTest, ATickSpeaksOnlyForWhatItsStreamNamed) {
  Change(v1::SessionChange::JOIN, 5);
  push.Start();
  push.Send(Tick(1, {{.segment = SegmentId(0), .run = 1, .number = 0}}));
  const auto ack = push.replies.back().head.ticks(0);
  EXPECT_EQ(ack.clock(), 1u);
  EXPECT_THAT(wire::ParseSegments(ack.unspoken()).value(), ::testing::ElementsAre(SegmentId(1)));

  PushWire second(shard.NewPushStream());
  second.Start();
  second.Send(Tick(2, {}));
  EXPECT_THAT(wire::ParseSegments(second.replies.back().head.ticks(0).unspoken()).value(),
              ::testing::ElementsAre(SegmentId(0), SegmentId(1)))
      << "what another stream named does not count";
  push.Send(Tick(2, {{.segment = SegmentId(1), .run = 1, .number = 0}}));
  EXPECT_THAT(wire::ParseSegments(push.replies.back().head.ticks(0).unspoken()).value(),
              ::testing::IsEmpty());
}

TEST_F(ShardTest, BadInputIsRefusedByNameAndTheStreamLivesOn) {
  push.Start();
  const auto refused = [&](const wire::Frame<v1::PushRequest>& frame, v1::Refusal::Reason reason,
                           absl::string_view names) {
    push.replies.clear();
    push.Send(frame);
    const auto refusals = push.Refusals();
    ASSERT_FALSE(refusals.empty()) << names;
    EXPECT_EQ(refusals[0].reason(), reason) << refusals[0].message();
    EXPECT_THAT(refusals[0].message(), HasSubstr(std::string(names)));
  };
  refused(Push(1, 0, {1, 2, 3}), v1::Refusal::INVALID, "values: 12 bytes");
  refused(Push(1, 0, {1, std::numeric_limits<float>::infinity()}), v1::Refusal::INVALID, "values");
  auto frame = Push(1);
  frame.head.set_table(99);
  refused(frame, v1::Refusal::INVALID, "table: 99 is unknown");
  frame.head.set_table(kForeign);
  refused(frame, v1::Refusal::INVALID, "belongs to another job");
  frame = Push(1);
  frame.head.set_parts(Part(1, 1, 1));
  refused(frame, v1::Refusal::INVALID, "lies in segment 0, its part names segment 1");
  frame.head.set_parts(Part(7, 1, 1));
  refused(frame, v1::Refusal::INVALID, "segment 7");
  frame.head.set_parts(Part(0, 1, 1) + Part(0, 0, 2));
  refused(frame, v1::Refusal::INVALID, "twice");
  frame.head.set_parts("short");
  refused(frame, v1::Refusal::MALFORMED, "parts: 5 bytes");
  frame = Push(1);
  frame.head.set_line(v1::LINE_AGGREGATED);
  refused(frame, v1::Refusal::INVALID, "line: 2");
  frame = Push(1);
  frame.head.add_filters(3);
  refused(frame, v1::Refusal::INVALID, "filters: 3");
  refused(Push(2), v1::Refusal::OUT_OF_ORDER, "before part 1");
  push.replies.clear();
  push.SendRaw("\xff\xff\xff");
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::MALFORMED);
  push.SendRaw(std::string(shard.options().frame_bytes_max + 1, 'x'));
  EXPECT_THAT(push.Refusals().back().message(), HasSubstr("send smaller frames"));
  ExpectAlive(push, 1);
}

TEST_F(ShardTest, BadPullsAreRefusedByNameAndTheStreamLivesOn) {
  pull.Start();
  auto frame = Pull(1);
  frame.head.set_table(99);
  pull.Send(frame);
  EXPECT_THAT(pull.replies.back().head.refusals(0).message(), HasSubstr("table: 99"));
  frame = Pull(2);
  frame.keys = Bytes<uint64_t>({1});
  pull.Send(frame);
  EXPECT_THAT(pull.replies.back().head.refusals(0).message(), HasSubstr("keys: 8 bytes"));
  pull.SendRaw("\xff");
  EXPECT_EQ(pull.replies.back().head.refusals(0).reason(), v1::Refusal::MALFORMED);
  pull.Send(Pull(3));
  EXPECT_EQ(pull.replies.back().values.size(), 16u);
}

TEST_F(ShardTest, HelloIsJudged) {
  wire::Frame<v1::PushRequest> old;
  old.head.mutable_hello()->set_session(5);
  push.stream().Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), &push));
  push.Send(old);
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::UNIMPLEMENTED);
  push.Send(Push(1));
  EXPECT_THAT(push.Refusals().back().message(), HasSubstr("hello: missing"));
  push.Start();
  ExpectAlive(push, 1);
}

TEST_F(ShardTest, ASessionOfAnotherJobIsFenced) {
  push.Start(/*session=*/5, /*job=*/2);
  auto frame = Push(1);
  frame.head.set_table(kForeign);
  frame.keys = Bytes<uint64_t>({[] {
    const auto placement = ring::Placement::Sparse(TableId(kForeign), 1).value();
    uint64_t key = 0;
    while (placement.Of(key) != SegmentId(0)) ++key;
    return key;
  }()});
  push.Send(frame);
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::FENCED);
}

TEST_F(ShardTest, WhatMovedAndWhatIsLostIsSaidApart) {
  Shard other({}, clock, probe);
  other.Identify({.shard = ShardId(0), .incarnation = Incarnation(2)});  // a later start of the same shard
  v1::InstallRequest request = MapOf(1, 1);
  ASSERT_THAT(other.Install(request), IsOk());
  PushWire wire(other.NewPushStream());
  wire.Start();
  wire::Frame<v1::PushRequest> empty;
  empty.head.set_line(v1::LINE_ARRIVAL);
  empty.head.set_parts(Part(0, 0, 1));
  wire.Send(empty);
  EXPECT_EQ(wire.Refusals().at(0).reason(), v1::Refusal::DATA_LOSS);
  EXPECT_THAT(wire.Refusals().at(0).message(), HasSubstr("acknowledged data is gone"));
  empty.head.set_parts(Part(0, 0, 1, /*epoch=*/2));
  wire.Send(empty);
  EXPECT_EQ(wire.Refusals().back().reason(), v1::Refusal::UNAVAILABLE) << "its map is behind the sender's";
}

TEST_F(ShardTest, ANewEpochForThisStartServesTheSegmentAfresh) {
  Shard other({}, clock, probe);
  ASSERT_THAT(other.Install(MapOf(1, 1)), IsOk()) << "maps may come before the shard knows who it is";
  other.Identify({.shard = ShardId(0), .incarnation = Incarnation(2)});
  ASSERT_THAT(other.Install(MapOf(2, 2, /*epoch=*/2)), IsOk());
  v1::BeatRequest beat;
  other.Describe([&](v1::BeatRequest now) { beat = now; });
  EXPECT_EQ(beat.primaries(), 2u);
  EXPECT_EQ(beat.lost(), 0u);
}

TEST_F(ShardTest, ANewerListOfTablesIsFetchedBeforeItJudges) {
  CatalogueVersion wanted;
  shard.OnWantCatalogue([&](CatalogueVersion version) { wanted = version; });
  push.Start();
  auto frame = Push(1);
  frame.head.set_catalogue_version(4);
  push.Send(frame);
  EXPECT_EQ(wanted, CatalogueVersion(4));
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::UNAVAILABLE);
  EXPECT_EQ(push.Refusals().at(0).number(), 1u);
  EXPECT_EQ(CommittedUpto(push), 0u);
}

TEST_F(ShardTest, ReadsEndAtTheirDeadline) {
  Change(v1::SessionChange::JOIN, 5);
  pull.Start();
  auto frame = Pull(1, /*min_clock=*/3);
  frame.head.set_timeout_ms(500);
  pull.Send(frame);
  clock.now += absl::Milliseconds(499);
  shard.OnTime();
  EXPECT_EQ(pull.replies.size(), 1u);
  clock.now += absl::Milliseconds(1);
  shard.OnTime();
  ASSERT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(pull.replies[1].head.refusals(0).reason(), v1::Refusal::DEADLINE);
  EXPECT_EQ(pull.replies[1].values.size(), 0u);
}

TEST_F(ShardTest, AReleasedSegmentIsServedWhereItIsAdopted) {
  push.Start();
  push.Send(Push(1));
  v1::Map proto = MapOf(2, 1, /*epoch=*/2).map();
  proto.mutable_segments(1)->set_epoch(1);  // only segment 0 moves, to another incarnation
  proto.mutable_segments(0)->mutable_primary()->set_incarnation(9);
  const auto map = std::make_shared<const ring::SegmentMap>(wire::MapFromProto(proto).value());
  std::optional<log::Segment> state;
  shard.ReleaseSegment(SegmentId(0), map,
                       [&](std::optional<log::Segment> released) { state = std::move(released); });
  ASSERT_TRUE(state.has_value());
  push.Send(Push(2));
  ASSERT_EQ(push.Refusals().size(), 1u);
  EXPECT_EQ(push.Refusals()[0].reason(), v1::Refusal::MOVED);
  EXPECT_EQ(push.Refusals()[0].map_version(), 2u);
  shard.ReleaseSegment(SegmentId(0), map, [](const auto& again) { EXPECT_FALSE(again.has_value()); });

  shard.AdoptSegment(*std::move(state), map, [] {});
  EXPECT_EQ(shard.host(SegmentId(0)).primary()->epoch(), Epoch(2));
  push.Send(Push(2));
  EXPECT_EQ(push.Refusals().size(), 1u) << "part 2 follows part 1, which came before the move";
}

TEST_F(ShardTest, StoppingAnswersEverything) {
  Change(v1::SessionChange::JOIN, 5);
  push.Start();
  pull.Start();
  pull.Send(Pull(1, /*min_clock=*/3));
  shard.Stop();
  ASSERT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(pull.replies[1].head.refusals(0).reason(), v1::Refusal::UNAVAILABLE);
  push.Send(Push(1));
  EXPECT_EQ(push.Refusals().at(0).reason(), v1::Refusal::UNAVAILABLE);
}

TEST_F(ShardTest, AFinishedStreamIsClosedWhenAllIsAnswered) {
  Change(v1::SessionChange::JOIN, 5);
  pull.Start();
  pull.Send(Pull(1, /*min_clock=*/1));
  pull.stream().OnFinished();
  EXPECT_FALSE(pull.closed.has_value());
  push.Start();
  push.Send(Tick(1, {{.segment = SegmentId(0), .run = 2, .number = 0}}));
  push.stream().OnFinished();
  EXPECT_EQ(pull.replies.size(), 2u);
  EXPECT_EQ(pull.closed, absl::OkStatus());
  EXPECT_EQ(push.closed, absl::OkStatus());
}

TEST_F(ShardTest, DescribesItself) {
  Change(v1::SessionChange::JOIN, 5, /*start=*/3);
  push.Start();
  auto frame = Push(1);
  frame.head.set_clock(3);
  push.Send(frame);
  v1::BeatRequest beat;
  shard.Describe([&](v1::BeatRequest now) { beat = now; });
  EXPECT_EQ(beat.rows(), 1u);
  EXPECT_EQ(beat.rows_pushed(), 1u);
  EXPECT_GT(beat.bytes(), 0u);
  ASSERT_EQ(beat.workers_size(), 1);
  EXPECT_EQ(beat.workers(0).clock(), 3u);
}

}  // namespace
}  // namespace paceline::shard
