// RocksDB on a disk that loses power, fills up and fails: synced batches are there, and of the rest a prefix
// of the batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/memory_engine.h"
#include "libs/engine/store/rocksdb_engine.h"
#include "libs/engine/store/test_util/failing_files.h"
#include "libs/world/random.h"

namespace paceline::engine {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;
using testing::Platter;

constexpr size_t kBuffer = size_t{64} << 10;

// Loads into the form in which the twin has its contents.
class ToContents final : public Reader {
 public:
  absl::Status OnBase(SegmentId segment, Lsn lsn, absl::string_view bytes) override {
    contents.segments[segment].base = {lsn, std::string(bytes)};
    return absl::OkStatus();
  }
  absl::Status OnPage(SegmentId segment, const PageKey& key, absl::string_view bytes) override {
    contents.segments[segment].pages[key] = std::string(bytes);
    return absl::OkStatus();
  }
  absl::Status OnRecord(LogEntry entry) override {
    contents.segments[entry.segment].log.push_back(std::move(entry));
    return absl::OkStatus();
  }
  MemoryEngine::Contents contents;
};

MemoryEngine::Contents WithoutEmpty(MemoryEngine::Contents contents) {
  std::erase_if(contents.segments, [](const auto& entry) {
    return !entry.second.base.has_value() && entry.second.pages.empty() && entry.second.log.empty();
  });
  return contents;
}

// An engine on a failing disk, and a twin that has the same batches.
class PowerLossTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  PowerLossTest() : random_(GetParam()) {
    std::string name = ::testing::TempDir() + "/paceline_power_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~PowerLossTest() override {
    engine_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string Dir() const { return folder_ + "/" + std::to_string(life_); }

  // Opens the engine in the folder of this life, and loads what it finds into `found`.
  void OpenEngine(ToContents& found) {
    auto engine = OpenRocksDbEngine(Dir(), {.write_buffer_bytes = kBuffer, .env = env_.get()});
    ASSERT_THAT(engine, IsOk());
    engine_ = *std::move(engine);
    ASSERT_THAT(engine_->Load(found), IsOk());
  }
  // The next life, on what the last one left. All of it is safe.
  void Open() {
    platter_ = std::make_unique<Platter>();
    env_ = testing::FailingEnv(*platter_);
    ToContents found;
    ASSERT_NO_FATAL_FAILURE(OpenEngine(found));
    if (!states_.empty()) {
      // Batches up to `left` are there.
      size_t left = safe_;
      while (left < states_.size() && !(states_[left].segments == found.contents.segments)) ++left;
      ASSERT_LT(left, states_.size())
          << "life " << life_ << ": no state of batches " << safe_ << " to " << states_.size() - 1;
      lost_ += states_.size() - 1 - left;
      twin_.reset();
      disk_->LosePower(left);  // the twin is synced below only
    }
    twin_ = MemoryEngine::Open(disk_).value();
    ToContents same;
    ASSERT_THAT(twin_->Load(same), IsOk());
    ASSERT_THAT(twin_->Sync(), IsOk());
    ASSERT_THAT(engine_->Sync(), IsOk());
    states_ = {WithoutEmpty(disk_->contents())};
    safe_ = 0;
    ends_.clear();
    for (const auto& [id, segment] : disk_->contents().segments) {
      ends_[id] = !segment.log.empty()       ? segment.log.back().lsn.v
                  : segment.base.has_value() ? segment.base->first.v
                                             : 0;
    }
  }
  void LosePower() {
    const std::string from = Dir();
    ++life_;
    platter_->LosePower(from, Dir(), random_);
    platter_->Meet(Platter::Fault::kNone);
    met_ += platter_->met();
    engine_.reset();
  }

  Batch RandomBatch() {
    Batch batch;
    const SegmentId segment(static_cast<uint32_t>(world::Uniform(random_, 3)));
    for (uint64_t n = world::Uniform(random_, 4); n > 0; --n) {
      batch.Add(LogEntry{.segment = segment,
                         .epoch = Epoch(1),
                         .lsn = Lsn(++ends_[segment]),
                         .record = absl::Cord(std::string(world::Uniform(random_, 3000), 'r'))});
    }
    const PageKey key{.table = TableId(1), .start = world::Uniform(random_, 9), .depth = 1};
    const std::string mark = std::to_string(life_) + "." + std::to_string(states_.size());
    batch.Add(Batch::PutPage{.segment = segment, .key = key, .bytes = mark});
    if (world::Chance(random_, 0.1)) {
      batch.Add(Batch::PutBase{.segment = segment, .lsn = Lsn(ends_[segment]), .bytes = mark});
    }
    return batch;
  }
  // Both have it.
  void Note(const Batch& batch) {
    ASSERT_THAT(twin_->Write(batch), IsOk());
    states_.push_back(WithoutEmpty(disk_->contents()));
  }
  void Write() {
    const Batch batch = RandomBatch();
    ASSERT_THAT(engine_->Write(batch), IsOk());
    Note(batch);
  }
  void Sync() {
    ASSERT_THAT(engine_->Sync(), IsOk());
    safe_ = states_.size() - 1;
  }

  world::SplitMix64 random_;
  std::string folder_;
  int life_ = 0;
  std::unique_ptr<Platter> platter_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<MemoryEngine::Disk> disk_ = std::make_shared<MemoryEngine::Disk>();
  std::unique_ptr<MemoryEngine> twin_;
  std::map<SegmentId, uint64_t> ends_;
  std::vector<MemoryEngine::Contents> states_;  // after each batch of this life
  size_t safe_ = 0;                             // of them the last that was synced
  uint64_t lost_ = 0;                           // batches that power took
  uint64_t met_ = 0;                            // calls that failed
};

INSTANTIATE_TEST_SUITE_P(Seeds, PowerLossTest, ::testing::Range<uint64_t>(1, 5));

TEST_P(PowerLossTest, APrefixOfTheBatchesIsLeftAndAllThatWasSynced) {
  ASSERT_NO_FATAL_FAILURE(Open());
  for (int life = 0; life < 8; ++life) {
    for (uint64_t steps = 50 + world::Uniform(random_, 250); steps > 0; --steps) {
      ASSERT_NO_FATAL_FAILURE(Write());
      if (!world::Chance(random_, 0.02)) continue;
      ASSERT_NO_FATAL_FAILURE(Sync());
    }
    LosePower();
    ASSERT_NO_FATAL_FAILURE(Open());
  }
  EXPECT_GT(lost_, 0u) << "it was no loss of power";
}

struct Meeting {
  Platter::Fault fault;
  StatusCode code;
  std::string says;
};

// Whichever operation fails, at any time: synced batches survive a loss of power, a refused batch may be
// written again, and once the disk works again everything gets written.
TEST_P(PowerLossTest, ADiskThatFailsForAWhileLosesNothingThatWasSynced) {
  const Meeting meetings[] = {
      {Platter::Fault::kFull, StatusCode::kResourceExhausted, "No space left on device"},
      {Platter::Fault::kWritesFail, StatusCode::kUnavailable, "Input/output error"},
      {Platter::Fault::kSyncsFail, StatusCode::kUnavailable, "Input/output error"}};
  ASSERT_NO_FATAL_FAILURE(Open());
  for (int life = 0; life < 6; ++life) {
    const Meeting& meeting = meetings[life % 3];
    platter_->MeetAfter(1 + world::Uniform(random_, 60), meeting.fault);
    int patience = 3 + static_cast<int>(world::Uniform(random_, 4));  // refusals before it works again
    for (uint64_t steps = 50 + world::Uniform(random_, 200); steps > 0; --steps) {
      const Batch batch = RandomBatch();
      for (absl::Status written = engine_->Write(batch); !written.ok(); written = engine_->Write(batch)) {
        ASSERT_THAT(written, StatusIs(meeting.code, HasSubstr(meeting.says))) << "life " << life;
        ASSERT_GT(--patience, -20) << "it does not go on, life " << life << ": " << written;
        if (patience < 0) platter_->Meet(Platter::Fault::kNone);
      }
      ASSERT_NO_FATAL_FAILURE(Note(batch));
      if (!world::Chance(random_, 0.1)) continue;
      if (const absl::Status synced = engine_->Sync(); synced.ok()) {
        safe_ = states_.size() - 1;
      } else {
        ASSERT_THAT(synced, StatusIs(meeting.code, HasSubstr(meeting.says))) << "life " << life;
        if (--patience < 0) platter_->Meet(Platter::Fault::kNone);
      }
    }
    if (world::Chance(random_, 0.5)) {  // else power is lost while it fails
      platter_->Meet(Platter::Fault::kNone);
      ASSERT_NO_FATAL_FAILURE(Write());
      ASSERT_NO_FATAL_FAILURE(Sync());
    }
    LosePower();
    ASSERT_NO_FATAL_FAILURE(Open()) << "life " << life;
  }
  EXPECT_GT(met_, 0u);
}

// Content found at a start may be built on at once: opening the database synced it.
TEST_P(PowerLossTest, AStartFindsOnlySafeBatches) {
  ASSERT_NO_FATAL_FAILURE(Open());
  for (uint64_t steps = 50 + world::Uniform(random_, 250); steps > 0; --steps) {
    ASSERT_NO_FATAL_FAILURE(Write());
  }
  const std::string killed = Dir();
  ++life_;
  Platter::Kill(killed, Dir());
  engine_.reset();
  ToContents found;
  ASSERT_NO_FATAL_FAILURE(OpenEngine(found));
  ASSERT_EQ(found.contents.segments, states_.back().segments) << "the kernel has it all";
  LosePower();
  ToContents left;
  ASSERT_NO_FATAL_FAILURE(OpenEngine(left));
  EXPECT_EQ(left.contents.segments, found.contents.segments);
}

}  // namespace
}  // namespace paceline::engine
