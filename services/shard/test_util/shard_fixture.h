#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/feature_level.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/log/testing.h"
#include "libs/secret/secret.h"
#include "libs/wire/frame.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/packed.h"
#include "services/shard/shard.h"

namespace paceline::shard {

using paceline::testing::IsOk;
using ::testing::HasSubstr;

inline constexpr uint32_t kSparse = 1;
inline constexpr uint32_t kRanged = 2;
inline constexpr uint32_t kForeign = 3;
inline constexpr uint32_t kAggregated = 4;

class ManualClock : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch();
};

// A client's end of one stream: its frames are handled at once, replies are kept.
template <class Request, class Reply>
class Wire : public world::StreamPort {
 public:
  explicit Wire(std::shared_ptr<world::AcceptedStream> stream) : stream_(std::move(stream)) {}
  void Start(uint64_t session = 5, uint32_t job = 1, const std::string& token = "") {
    stream_->Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), this));
    wire::Frame<Request> hello;
    hello.head.mutable_hello()->set_feature_level(kFeatureLevel);
    hello.head.mutable_hello()->set_job(job);
    hello.head.mutable_hello()->set_session(session);
    hello.head.mutable_hello()->set_token(token);
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
using PushPullWire = Wire<v1::PushPullRequest, v1::PushPullReply>;

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
    Change(v1::Change::kOpen, 5);
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
    for (uint32_t id : {kSparse, kRanged, kForeign, kAggregated}) {
      v1::Table* table = request.mutable_catalogue()->add_tables();
      table->set_id(id);
      table->set_job(id == kForeign ? 2 : 1);
      table->set_name("table-" + std::to_string(id));
      table->mutable_schema()->set_kind(id == kRanged ? v1::TABLE_KIND_RANGED : v1::TABLE_KIND_SPARSE);
      table->mutable_schema()->set_dim(2);
      table->mutable_schema()->set_aggregated(id == kAggregated);
      if (id == kRanged) table->mutable_schema()->set_rows(1000);
      table->mutable_schema()->mutable_rule()->mutable_add();
    }
    ASSERT_THAT(shard.Install(request), IsOk());
  }
  // By the map that the shard has, or another one.
  v1::ChangeReply Change(v1::Change::ActionCase action, uint64_t session, uint64_t start = 0,
                         std::optional<uint64_t> map_version = std::nullopt, const std::string& secret = "") {
    v1::Change change = log::ChangeOf(action, SessionId(session), JobId(1), start);
    if (!secret.empty()) change.mutable_open()->set_secret_sha256(secret::Sha256(secret));
    change.set_map_version(map_version.value_or(shard.view()->map->version().v));
    return Make(change);
  }
  static v1::Change OfJob(uint32_t job) {
    v1::Change change;
    change.mutable_subject()->set_kind(v1::Subject::JOB);
    change.mutable_subject()->set_id(job);
    change.set_job(job);
    return change;
  }
  v1::ChangeReply Make(const v1::Change& change) {
    v1::ChangeReply out;
    shard.MakeChange(change, [&](absl::StatusOr<v1::ChangeReply> reply) { out = reply.value(); });
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
  template <class Request = v1::PushRequest>
  static wire::Frame<Request> Tick(uint64_t at, std::vector<wire::Seal> seals) {
    wire::Frame<Request> frame;
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

}  // namespace paceline::shard
