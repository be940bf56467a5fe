#include "services/shard/control/history.h"

#include <vector>

#include "gtest/gtest.h"
#include "libs/base/crc32c.h"
#include "libs/log/testing.h"
#include "libs/world/real_clock.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

class Kept : public history::Sink {
 public:
  void Record(const history::Event& event) override { events.push_back(event); }
  template <class E>
  std::vector<E> Of() const {
    std::vector<E> found;
    for (const history::Event& event : events) {
      if (const E* e = std::get_if<E>(&event)) found.push_back(*e);
    }
    return found;
  }
  std::vector<history::Event> events;
};

log::Update UpdateOf(PartNumber number, absl::string_view keys, absl::string_view values) {
  return {.session = SessionId(5),
          .line = Line::kArrival,
          .number = number,
          .table = TableId(1),
          .clock = 3,
          .form = log::KeyForm::kKeys,
          .count = static_cast<uint32_t>(keys.size() / 8),
          .keys = keys,
          .values = values,
          .owner = nullptr};
}

TEST(HistoryTest, AShardRecordsItsIdentityItsRolesAndItsLog) {
  Kept kept;
  HistoryProbe<Probe> history(kept);
  const world::RealClock clock;
  Shard shard({}, clock, history);
  shard.Identify({.shard = ShardId(4), .incarnation = Incarnation(9)}, 77);
  v1::InstallRequest request;
  request.mutable_map()->set_version(1);
  request.mutable_map()->set_ring_bits(1);
  for (int s = 0; s < 2; ++s) {
    auto* segment = request.mutable_map()->add_segments();
    segment->set_epoch(6);
    segment->mutable_primary()->set_shard(4);
    segment->mutable_primary()->set_incarnation(9);
  }
  v1::ShardInfo* info = request.mutable_map()->add_shards();
  info->set_shard(4);
  info->set_name("shard-4");
  info->set_address("127.0.0.1:1");
  info->set_incarnation(9);
  ASSERT_TRUE(shard.Install(request).ok());
  const v1::Change open = log::ChangeOf(v1::Change::kOpen, SessionId(5), JobId(1));
  shard.MakeChange(open, [](const auto& reply) { ASSERT_TRUE(reply.ok()); });

  EXPECT_EQ(kept.Of<history::Identified>(),
            (std::vector<history::Identified>{
                {.shard = ShardId(4), .incarnation = Incarnation(9), .cluster = 77}}));
  const auto roles = kept.Of<history::RoleTaken>();
  ASSERT_EQ(roles.size(), 2);
  EXPECT_EQ(roles[0].epoch, Epoch(6));
  EXPECT_EQ(roles[0].role, history::Role::kPrimary);
  EXPECT_EQ(roles[0].lsn, Lsn(0));
  const auto logged = kept.Of<history::Logged>();
  ASSERT_EQ(logged.size(), 4);
  EXPECT_EQ(logged[0].kind, history::RecordKind::kBeginEpoch);
  EXPECT_EQ(logged[0].lsn, Lsn(1));
  EXPECT_EQ(logged[2].kind, history::RecordKind::kOpenSession);
  EXPECT_EQ(logged[2].lsn, Lsn(2));
  EXPECT_EQ(logged[2].session, SessionId(5));
  EXPECT_EQ(logged[2].job, JobId(1));
  EXPECT_TRUE(logged[2].primary);
}

TEST(HistoryTest, AnUpdateHasTheContentItWasPushedWithAndAHashOfEverything) {
  log::Segment segment(SegmentId(0), 1);
  const std::string keys(8, '\1');
  const std::string values(8, '\2');
  const history::Logged first = EventOf(segment, Epoch(1), UpdateOf(1, keys, values));
  EXPECT_EQ(first.kind, history::RecordKind::kUpdate);
  EXPECT_EQ(first.session, SessionId(5));
  EXPECT_EQ(first.number, 1);
  EXPECT_EQ(first.clock, 3);
  EXPECT_EQ(first.content, Crc32c(keys + values));
  EXPECT_EQ(EventOf(segment, Epoch(1), UpdateOf(1, keys, values)).hash, first.hash);
  EXPECT_NE(EventOf(segment, Epoch(1), UpdateOf(2, keys, values)).hash, first.hash);
  EXPECT_NE(EventOf(segment, Epoch(1), UpdateOf(1, keys, std::string(8, '\3'))).hash, first.hash);
}

TEST(HistoryTest, AFoldNamesItsNumbersAndItsHashCoversItsRows) {
  log::Segment segment(SegmentId(0), 1);
  log::Fold fold{.job = JobId(1),
                 .clock = 4,
                 .tables = {{.table = TableId(2), .keys = {1, 2}, .values = {0.5f, 1.5f}}},
                 .numbers = {{SessionId(5), 8}, {SessionId(6), 9}}};
  const history::Logged event = EventOf(segment, Epoch(1), fold);
  EXPECT_EQ(event.kind, history::RecordKind::kFold);
  EXPECT_EQ(event.numbers, fold.numbers);
  fold.tables[0].values[1] = 1.25f;
  EXPECT_NE(EventOf(segment, Epoch(1), fold).hash, event.hash);
}

TEST(HistoryTest, AReplicaRecordsTheSameRecordAsApplied) {
  Kept kept;
  HistoryProbe<Probe> history(kept);
  log::Segment segment(SegmentId(3), 4);
  const log::Record record = log::BeginEpoch{.epoch = Epoch(2)};
  segment.Apply(record);
  history.Followed(segment, record);
  history.Installed(segment);
  const auto logged = kept.Of<history::Logged>();
  ASSERT_EQ(logged.size(), 1);
  EXPECT_FALSE(logged[0].primary);
  EXPECT_EQ(logged[0].epoch, Epoch(2));
  EXPECT_TRUE(kept.Of<history::RoleTaken>().empty());
  EXPECT_EQ(kept.Of<history::Installed>(),
            (std::vector<history::Installed>{{.segment = SegmentId(3), .epoch = Epoch(2), .lsn = Lsn(1)}}));
}

}  // namespace
}  // namespace paceline::shard
