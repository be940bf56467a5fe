// A segment on a disk that forgets: after every loss of power the disk holds a state that the log went
// through, no older than the last sync, and the segment goes on from there.
#include "services/shard/disk/segment_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/memory_engine.h"
#include "libs/log/test_util/random_history.h"
#include "libs/log/testing.h"
#include "libs/world/random.h"
#include "services/shard/disk/disk_contents.h"
#include "services/shard/test_util/test_disk.h"

namespace paceline::shard {
namespace {

using ::paceline::testing::IsOk;

constexpr SegmentId kSegment = log::RandomHistory::kSegment;
constexpr int kRingBits = log::RandomHistory::kRingBits;
constexpr DiskOwner kOwner{.cluster = 1, .shard = ShardId(2), .ring_bits = kRingBits};

// One start after another of what keeps a segment, on one disk.
class Keeper {
 public:
  explicit Keeper(uint64_t seed, SegmentDisk::Pace pace) : history_(seed), pace_(pace) {
    Start();
    engine::Batch owner;
    owner.Add(NoteOf(kOwner));
    EXPECT_THAT(engine_->Write(owner), IsOk());
    Sync();
  }

  void Start() {
    engine_.reset();
    batch_ = engine::Batch();
    engine_ = engine::MemoryEngine::Open(disk_).value();
    auto contents = LoadDisk(*engine_);
    ASSERT_THAT(contents, IsOk());
    DiskContents::Segment& found = contents->segments[kSegment];
    written_.emplace(kSegment, batch_, port_, pace_);
    live_.emplace(found.state.has_value() ? *std::move(found.state) : log::Segment(kSegment, kRingBits));
    written_->Restore(std::move(found.found));
  }
  // The next record of the history, after the one the segment stands at.
  void Record() {
    const size_t at = live_->version().v;
    if (history_.log().size() <= at) history_.Next();
    const log::Record& record = history_.log()[at];
    live_->Apply(record);
    written_->OnRecord(*live_, log::AppliedRecord(record));
  }
  void OnTime() {
    now_ += absl::Minutes(1);
    written_->OnTime(*live_, now_);
  }
  void Write() {
    given_ = live_->version();
    ASSERT_THAT(engine_->Write(std::exchange(batch_, engine::Batch())), IsOk());
    usable_ = written_->usable();
  }
  void Sync() {
    ASSERT_THAT(engine_->Sync(), IsOk());
    synced_ = usable_ ? given_ : Lsn();
  }
  void Forget() {
    written_->Forget();
    synced_ = given_ = Lsn();
  }
  void LosePower(size_t kept) {
    disk_->LosePower(kept);
    Start();
    ASSERT_GE(live_->version(), synced_);
    ASSERT_EQ(live_->Hash(), HashAt(live_->version()));
    given_ = synced_ = live_->version();
    usable_ = written_->usable();
  }

  engine::MemoryEngine::Disk& disk() { return *disk_; }
  void Kill() {
    Start();
    given_ = synced_ = live_->version();
    usable_ = written_->usable();
  }
  const log::Segment& live() const { return *live_; }
  const SegmentDisk& written() const { return *written_; }
  TestDisk& port() { return port_; }
  size_t unsynced() const { return disk_->unsynced(); }

 private:
  // Of the state that the history's first records make.
  uint64_t HashAt(Lsn version) const {
    log::Segment segment(kSegment, kRingBits);
    for (uint64_t i = 0; i < version.v; ++i) segment.Apply(history_.log()[i]);
    return segment.Hash();
  }

  log::RandomHistory history_;
  const SegmentDisk::Pace pace_;
  std::shared_ptr<engine::MemoryEngine::Disk> disk_ = std::make_shared<engine::MemoryEngine::Disk>();
  TestDisk port_;
  std::unique_ptr<engine::MemoryEngine> engine_;
  engine::Batch batch_;
  std::optional<log::Segment> live_;
  std::optional<SegmentDisk> written_;
  absl::Time now_ = absl::UnixEpoch();
  Lsn given_, synced_;
  bool usable_ = false;
};

constexpr SegmentDisk::Pace kQuick{
    .log_bytes = 20'000, .log_age = absl::Minutes(20), .step_bytes = 10'000, .first_step_bytes = 10'000};

TEST(SegmentDiskTest, AnyLossOfPowerLeavesAStateOfTheLog) {
  uint64_t bases = 0;  // of all lives
  for (uint64_t seed = 1; seed <= 9; ++seed) {
    SCOPED_TRACE(seed);
    world::SplitMix64 random(seed * 7919);
    Keeper keeper(seed, kQuick);
    for (int step = 0; step < 400; ++step) {
      keeper.Record();
      const uint64_t before = keeper.written().bases();
      if (world::Chance(random, 0.4)) keeper.OnTime();
      bases += keeper.written().bases() - before;
      if (world::Chance(random, 0.5)) keeper.Write();
      if (world::Chance(random, 0.05)) keeper.Sync();
      if (world::Chance(random, 0.01)) keeper.Forget();
      if (world::Chance(random, 0.02)) keeper.LosePower(world::Uniform(random, keeper.unsynced() + 1));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  EXPECT_GE(bases, 20u) << "bases were made and used";
}

TEST(SegmentDiskTest, TheLogIsCutAndOldPagesGo) {
  Keeper keeper(3, kQuick);
  uint64_t most = 0;
  for (int i = 0; i < 1200; ++i) {
    keeper.Record();
    keeper.OnTime();
    keeper.Write();
    most = std::max(most, keeper.written().log_bytes());
  }
  const engine::MemoryEngine::Segment& kept = keeper.disk().contents().segments.at(kSegment);
  EXPECT_GT(keeper.written().bases(), 8u);
  EXPECT_LT(kept.log.size(), 600u);
  uint64_t pages = 0;
  for (const auto& [id, table] : keeper.live().tables()) {
    table->rows.ForEachPage([&](const table::Page&) { ++pages; });
  }
  EXPECT_LE(kept.pages.size(), 2 * pages + 50) << "those of dropped tables and of halves are deleted";
  keeper.Sync();
  keeper.LosePower(0);
}

// Pages that have not changed are not written again.
TEST(SegmentDiskTest, ABaseCostsThePagesThatHaveChanged) {
  TestDisk port;
  engine::Batch batch;
  SegmentDisk written(SegmentId(0), batch, port, {.log_bytes = 1, .log_age = absl::Minutes(1)});
  log::Segment segment(SegmentId(0), 0);
  const auto apply = [&](const log::Record& record) {
    segment.Apply(record);
    written.OnRecord(segment, log::AppliedRecord(record));
  };
  apply(log::BeginEpoch{Epoch(1)});
  apply(log::OpenTable{log::SumTable(JobId(1))});
  apply(log::OpenSession{.session = SessionId(7), .job = JobId(1), .closed_floor = SessionId()});
  std::vector<std::pair<uint64_t, float>> rows;
  for (uint64_t key = 0; key < 50'000; ++key) rows.emplace_back(key, 1.0f);
  apply(log::MakeUpdate(SessionId(7), 1, rows));
  absl::Time now = absl::UnixEpoch();
  const auto base = [&] {
    batch = engine::Batch();
    const uint64_t before = written.bases();
    for (int i = 0; i < 100 && written.bases() == before; ++i)
      written.OnTime(segment, now += absl::Minutes(2));
    EXPECT_EQ(written.bases(), before + 1);
    return std::ranges::count_if(batch.operations(), [](const auto& operation) {
      return std::holds_alternative<engine::Batch::PutPage>(operation);
    });
  };
  const auto all = base();
  EXPECT_GT(all, 8);
  apply(log::MakeUpdate(SessionId(7), 2, {{17, 1.0f}}));
  EXPECT_EQ(base(), 1);
}

TEST(SegmentDiskTest, AKilledShardFindsASafeState) {
  Keeper keeper(7, kQuick);
  for (int i = 0; i < 50; ++i) keeper.Record();
  keeper.Write();
  EXPECT_FALSE(keeper.written().ready()) << "nothing is synced";
  keeper.Kill();
  EXPECT_TRUE(keeper.written().ready());
  EXPECT_EQ(keeper.written().durable(), keeper.live().version());
  EXPECT_EQ(keeper.live().version(), Lsn(50));
  keeper.LosePower(0);
  EXPECT_EQ(keeper.live().version(), Lsn(50));
}

TEST(SegmentDiskTest, ADiskStallsOnlyIfItComesNoFurther) {
  log::RandomHistory history(11);
  for (int i = 0; i < 300; ++i) history.Next();
  engine::Batch batch;
  TestDisk port;
  SegmentDisk written(kSegment, batch, port, {.first_step_bytes = 500});
  absl::Time now = absl::UnixEpoch();
  const auto pass = [&] { written.OnTime(history.segment(), now += absl::Seconds(8)); };
  for (int i = 0; i < 5; ++i) pass();
  ASSERT_FALSE(written.usable()) << "the history has too few rows: a base takes longer than that";
  EXPECT_EQ(written.state(), v1::ReplicateReply::DISK_FILLS) << "40 s, and it comes along";
  port.pending = kDiskBehind;
  pass();
  pass();
  EXPECT_EQ(written.state(), v1::ReplicateReply::DISK_FILLS);
  pass();
  EXPECT_EQ(written.state(), v1::ReplicateReply::DISK_STALLS);
  port.pending = 0;
  while (!written.usable()) pass();
  const auto mark = written.TakeMark();
  ASSERT_TRUE(mark) << "the first base is waited for";
  EXPECT_NE(written.state(), v1::ReplicateReply::DISK_READY) << "it is not synced";
  EXPECT_TRUE(written.OnDurable(*mark));
  EXPECT_EQ(written.state(), v1::ReplicateReply::DISK_READY);
  pass();
  pass();
  EXPECT_EQ(written.state(), v1::ReplicateReply::DISK_READY) << "nobody waits for it";
}

TEST(SegmentDiskTest, ADiskThatFallsFarBehindIsGivenUpAndBegunAnew) {
  using State = Disk::Health::State;
  for (const auto& [pending, state] :
       {std::pair(kDiskLost + 1, State::kFails), std::pair(kDiskLostAtWork + 1, State::kWorks)}) {
    Keeper keeper(5, kQuick);
    const auto record = [&keeper] {
      for (int i = 0; i < 50; ++i) {
        keeper.Record();
        keeper.OnTime();
      }
    };
    record();
    keeper.Write();
    keeper.Sync();
    keeper.port().pending = pending - 1;
    keeper.port().standing.state = state;
    record();
    EXPECT_TRUE(keeper.written().usable());
    keeper.port().pending = pending;
    record();
    EXPECT_FALSE(keeper.written().usable());
    keeper.port().standing.state = State::kWorks;
    keeper.port().pending = 0;
    for (int i = 0; i < 200 && !keeper.written().usable(); ++i) keeper.OnTime();
    EXPECT_TRUE(keeper.written().usable());
    const Lsn held = keeper.live().version();
    keeper.Write();
    keeper.Sync();
    keeper.LosePower(0);
    EXPECT_EQ(keeper.live().version(), held);
  }
}

}  // namespace
}  // namespace paceline::shard
