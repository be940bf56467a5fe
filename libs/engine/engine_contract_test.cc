// The contract of every engine, run over each of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/memory_engine.h"
#include "libs/engine/store/rocksdb_engine.h"
#include "libs/world/random.h"

namespace paceline::engine {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr SegmentId kA{1};
constexpr SegmentId kB{2};
constexpr PageKey kPage{.table = TableId(4), .start = 7, .depth = 3};

// A directory of its own for each test.
class TempDir {
 public:
  TempDir() {
    std::string name = ::testing::TempDir() + "/paceline_engine_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Contents final : public Reader {
 public:
  absl::Status OnBase(SegmentId segment, Lsn lsn, absl::string_view bytes) override {
    bases[segment] = {lsn, std::string(bytes)};
    return absl::OkStatus();
  }
  absl::Status OnPage(SegmentId segment, const PageKey& key, absl::string_view bytes) override {
    EXPECT_TRUE(logs.empty()) << "pages come before records";
    pages[segment][key] = std::string(bytes);
    return absl::OkStatus();
  }
  absl::Status OnRecord(LogEntry entry) override {
    logs[entry.segment].push_back({entry.lsn.v, std::string(entry.record)});
    epochs[entry.segment] = entry.epoch;
    return stop_at_record;
  }
  friend bool operator==(const Contents& a, const Contents& b) {
    return a.bases == b.bases && a.pages == b.pages && a.logs == b.logs && a.epochs == b.epochs;
  }

  std::map<SegmentId, std::pair<Lsn, std::string>> bases;
  std::map<SegmentId, std::map<PageKey, std::string>> pages;
  std::map<SegmentId, std::vector<std::pair<uint64_t, std::string>>> logs;
  std::map<SegmentId, Epoch> epochs;
  absl::Status stop_at_record;
};

// One disk, and the engine on it.
class Place {
 public:
  virtual ~Place() = default;
  virtual absl::StatusOr<std::unique_ptr<Engine>> Open() = 0;
  // The process that has the engine is killed: what it has written stays. It may be opened again afterwards.
  virtual void Kill(std::unique_ptr<Engine> engine) = 0;
};

class MemoryPlace final : public Place {
 public:
  absl::StatusOr<std::unique_ptr<Engine>> Open() override { return MemoryEngine::Open(disk_); }
  void Kill(std::unique_ptr<Engine>) override {}

 private:
  std::shared_ptr<MemoryEngine::Disk> disk_ = std::make_shared<MemoryEngine::Disk>();
};

class RocksDbPlace final : public Place {
 public:
  explicit RocksDbPlace(uint64_t group_bytes) : group_bytes_(group_bytes) {}

  absl::StatusOr<std::unique_ptr<Engine>> Open() override {
    return OpenRocksDbEngine(Path(), {.write_buffer_bytes = size_t{256} << 10, .group_bytes = group_bytes_});
  }
  // A copy of the files as they are now is what a kill would have left.
  void Kill(std::unique_ptr<Engine> engine) override {
    const std::string from = Path();
    ++copies_;
    std::error_code error;
    std::map<std::string, uintmax_t> before;
    do {  // until nothing was changed in the background meanwhile
      std::filesystem::remove_all(Path());
      before = Files(from);
      std::filesystem::copy(from, Path(), std::filesystem::copy_options::recursive, error);
    } while (error || before != Files(from));
    engine.reset();
  }

 private:
  static std::map<std::string, uintmax_t> Files(const std::string& dir) {
    std::map<std::string, uintmax_t> sizes;
    std::error_code gone;
    for (const auto& file : std::filesystem::directory_iterator(dir)) {
      sizes[file.path().filename()] = file.file_size(gone);
    }
    return sizes;
  }
  std::string Path() const { return dir_.path() + "/new/" + std::to_string(copies_); }
  const uint64_t group_bytes_;
  TempDir dir_;
  int copies_ = 0;
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Place>()> make;
};

class EngineContract : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    place_ = GetParam().make();
    Open();
  }
  void Open() {
    auto opened = place_->Open();
    ASSERT_THAT(opened, IsOk());
    engine_ = *std::move(opened);
    loaded_ = Contents();
    ASSERT_THAT(engine_->Load(loaded_), IsOk());
  }
  void Reopen() {
    engine_.reset();
    Open();
  }
  void Kill() {
    place_->Kill(std::move(engine_));
    Open();
  }
  static LogEntry Entry(SegmentId segment, uint64_t lsn, absl::string_view record = "r") {
    return {.segment = segment, .epoch = Epoch(3), .lsn = Lsn(lsn), .record = absl::Cord(record)};
  }
  absl::Status Write(std::vector<Batch::Operation> operations) {
    Batch batch;
    for (Batch::Operation& operation : operations) batch.Add(std::move(operation));
    return engine_->Write(batch);
  }
  absl::Status Append(SegmentId segment, uint64_t from, uint64_t to) {
    Batch batch;
    for (uint64_t lsn = from; lsn <= to; ++lsn) batch.Add(Entry(segment, lsn));
    return engine_->Write(batch);
  }
  // The LSNs of the segment's records that were loaded.
  std::vector<uint64_t> Lsns(SegmentId segment) {
    std::vector<uint64_t> lsns;
    for (const auto& [lsn, record] : loaded_.logs[segment]) lsns.push_back(lsn);
    return lsns;
  }

  std::unique_ptr<Place> place_;
  std::unique_ptr<Engine> engine_;
  Contents loaded_;
};

INSTANTIATE_TEST_SUITE_P(
    Engines, EngineContract,
    ::testing::Values(Kind{"Memory", [] { return std::make_unique<MemoryPlace>(); }},
                      Kind{"RocksDb", [] { return std::make_unique<RocksDbPlace>(uint64_t{1} << 28); }},
                      // Most batches have several groups.
                      Kind{"SmallGroups", [] { return std::make_unique<RocksDbPlace>(3); }}),
    [](const auto& instance) { return instance.param.name; });

TEST_P(EngineContract, IsEmptyAtFirst) {
  EXPECT_THAT(loaded_.bases, IsEmpty());
  EXPECT_THAT(loaded_.pages, IsEmpty());
  EXPECT_THAT(loaded_.logs, IsEmpty());
  EXPECT_THAT(engine_->Note("who"), StatusIs(StatusCode::kNotFound));
}

TEST_P(EngineContract, WritesSurviveAReopen) {
  absl::Cord pieces("a record ");
  pieces.Append(std::string(5000, 'x'));
  LogEntry entry = Entry(kA, 11);
  entry.record = pieces;
  ASSERT_THAT(Write({Batch::PutBase{.segment = kA, .lsn = Lsn(10), .bytes = "base"},
                     Batch::PutPage{.segment = kA, .key = kPage, .bytes = "rows"}, entry,
                     Batch::PutNote{.name = "who", .bytes = "me"}}),
              IsOk());
  Reopen();
  EXPECT_EQ(loaded_.bases[kA], std::pair(Lsn(10), std::string("base")));
  EXPECT_EQ(loaded_.pages[kA][kPage], "rows");
  ASSERT_THAT(Lsns(kA), ElementsAre(11));
  EXPECT_EQ(loaded_.logs[kA][0].second, std::string(pieces));
  EXPECT_EQ(loaded_.epochs[kA], Epoch(3));
  EXPECT_EQ(engine_->Note("who").value(), "me");
}

TEST_P(EngineContract, CountsTheBatchesThatWereEverWritten) {
  EXPECT_EQ(engine_->position(), 0u);
  for (uint64_t n = 1; n <= 3; ++n) {
    ASSERT_THAT(Write({Batch::PutNote{.name = "who", .bytes = "me"}}), IsOk());
    EXPECT_EQ(engine_->position(), n);
  }
  Reopen();
  EXPECT_EQ(engine_->position(), 3u);
  ASSERT_THAT(Write({Batch::PutNote{.name = "who", .bytes = "you"}}), IsOk());
  EXPECT_EQ(engine_->position(), 4u);
}

TEST_P(EngineContract, AKillLosesNothingThatWasWritten) {
  ASSERT_THAT(Append(kA, 1, 3), IsOk());
  ASSERT_THAT(Append(kA, 4, 5), IsOk());
  Kill();
  EXPECT_THAT(Lsns(kA), ElementsAre(1, 2, 3, 4, 5));
  ASSERT_THAT(Append(kA, 6, 6), IsOk());
  Kill();
  EXPECT_THAT(Lsns(kA), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_P(EngineContract, SegmentsAreApart) {
  ASSERT_THAT(Write({Entry(kA, 1), Entry(kB, 1), Entry(kA, 2),
                     Batch::PutPage{.segment = kA, .key = kPage, .bytes = "of a"},
                     Batch::PutPage{.segment = kB, .key = kPage, .bytes = "of b"}}),
              IsOk());
  ASSERT_THAT(Write({Batch::Reset{kA}}), IsOk());
  Reopen();
  EXPECT_THAT(Lsns(kA), IsEmpty());
  EXPECT_FALSE(loaded_.pages.contains(kA));
  EXPECT_THAT(Lsns(kB), ElementsAre(1));
  EXPECT_EQ(loaded_.pages[kB][kPage], "of b");
}

TEST_P(EngineContract, ANewBaseCutsTheLogsOldEnd) {
  ASSERT_THAT(Append(kA, 1, 9), IsOk());
  ASSERT_THAT(Append(kB, 1, 2), IsOk());
  ASSERT_THAT(Write({Batch::PutBase{.segment = kA, .lsn = Lsn(6), .bytes = "six"}}), IsOk());
  Reopen();
  EXPECT_THAT(Lsns(kA), ElementsAre(7, 8, 9));
  EXPECT_THAT(Lsns(kB), ElementsAre(1, 2));
  ASSERT_THAT(Write({Entry(kA, 10), Batch::PutBase{.segment = kA, .lsn = Lsn(10), .bytes = "ten"}}), IsOk());
  Reopen();
  EXPECT_THAT(Lsns(kA), IsEmpty());
  EXPECT_THAT(Append(kA, 11, 11), IsOk());
}

TEST_P(EngineContract, PagesAreReplacedAndDeleted) {
  const PageKey other{.table = TableId(4), .start = 7, .depth = 4};
  ASSERT_THAT(Write({Batch::PutPage{.segment = kA, .key = kPage, .bytes = "old"},
                     Batch::PutPage{.segment = kA, .key = other, .bytes = "gone"}}),
              IsOk());
  ASSERT_THAT(Write({Batch::PutPage{.segment = kA, .key = kPage, .bytes = "new"},
                     Batch::DeletePage{.segment = kA, .key = other}}),
              IsOk());
  Reopen();
  EXPECT_EQ(loaded_.pages[kA], (std::map<PageKey, std::string>{{kPage, "new"}}));
}

// A follower that is sent another state: an image as of record 40, and a log that goes on from there.
TEST_P(EngineContract, ASegmentThatBeganAnewHasNoOlderData) {
  ASSERT_THAT(Append(kA, 1, 50), IsOk());
  ASSERT_THAT(Write({Entry(kA, 51), Batch::PutPage{.segment = kA, .key = kPage, .bytes = "old"},
                     Batch::Reset{kA}, Entry(kA, 41, "new")}),
              IsOk());
  Kill();
  EXPECT_THAT(loaded_.bases, IsEmpty());
  EXPECT_FALSE(loaded_.pages.contains(kA));
  EXPECT_THAT(loaded_.logs[kA], ElementsAre(std::pair(uint64_t{41}, std::string("new"))));
  ASSERT_THAT(Append(kA, 42, 43), IsOk());
  ASSERT_THAT(Write({Batch::PutBase{.segment = kA, .lsn = Lsn(40), .bytes = "forty"}}), IsOk());
  Reopen();
  EXPECT_EQ(loaded_.bases[kA].first, Lsn(40));
  EXPECT_THAT(Lsns(kA), ElementsAre(41, 42, 43));
}

// A segment that began anew begins behind all groups written before, even if nothing else was written since,
// and after a start too.
TEST_P(EngineContract, AStartDoesNotReturnToDataBeforeANewBeginning) {
  ASSERT_THAT(Append(kA, 1, 1), IsOk());
  ASSERT_THAT(Write({Batch::PutPage{.segment = kA, .key = kPage, .bytes = "page"}}), IsOk());
  ASSERT_THAT(Write({Batch::Reset{kB}}), IsOk());
  Reopen();
  ASSERT_THAT(Append(kB, 1, 1), IsOk());
  Reopen();
  EXPECT_THAT(Lsns(kB), ElementsAre(1));
}

TEST_P(EngineContract, GapsAreRefusedWhole) {
  ASSERT_THAT(Append(kA, 1, 3), IsOk());
  EXPECT_THAT(Write({Entry(kB, 1), Entry(kA, 5)}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("record 5")));
  EXPECT_THAT(Write({Entry(kA, 3)}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("expected record 4")));
  EXPECT_THAT(Write({Batch::PutBase{.segment = kA, .lsn = Lsn(4), .bytes = ""}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("base")));
  Reopen();
  EXPECT_THAT(Lsns(kA), ElementsAre(1, 2, 3));
  EXPECT_THAT(Lsns(kB), IsEmpty()) << "of the refused batch";
  EXPECT_THAT(Write({Entry(kA, 5)}), StatusIs(StatusCode::kInvalidArgument)) << "loading tells where it ends";
}

TEST_P(EngineContract, LoadingComesFirst) {
  engine_.reset();
  auto opened = place_->Open();
  ASSERT_THAT(opened, IsOk());
  Batch batch;
  batch.Add(Entry(kA, 1));
  EXPECT_THAT((*opened)->Write(batch), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_P(EngineContract, TheReadersErrorEndsTheLoading) {
  ASSERT_THAT(Append(kA, 1, 3), IsOk());
  engine_.reset();
  auto opened = place_->Open();
  ASSERT_THAT(opened, IsOk());
  Contents contents;
  contents.stop_at_record = absl::DataLossError("no record");
  EXPECT_THAT((*opened)->Load(contents), StatusIs(StatusCode::kDataLoss, "no record"));
  EXPECT_EQ(contents.logs[kA].size(), 1u);
}

TEST_P(EngineContract, ADiskHasOneUser) {
  EXPECT_THAT(place_->Open(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("in use")));
}

TEST_P(EngineContract, ASyncKeepsAllEarlierWrites) {
  ASSERT_THAT(Append(kA, 1, 3), IsOk());
  EXPECT_THAT(engine_->Sync(), IsOk());
  EXPECT_THAT(engine_->Sync(), IsOk()) << "with nothing to sync";
  Kill();
  EXPECT_THAT(Lsns(kA), ElementsAre(1, 2, 3));
}

// The log is cut again and again, by segments that move at different paces; what lies on the disk stays
// small.
TEST_P(EngineContract, ALogThatIsCutStaysBoundedWithItsWriteAheadLog) {
  constexpr uint64_t kRecords = 4000;
  const std::string record(4096, 'r');
  uint64_t most = 0;
  for (uint64_t lsn = 1; lsn <= kRecords; ++lsn) {
    ASSERT_THAT(Write({Entry(kA, lsn, record)}), IsOk());
    // One segment hardly ever changes: what it needs must not hold back the others' for good.
    if (lsn % 500 == 1) {
      const uint64_t slow = lsn / 500 + 1;
      ASSERT_THAT(Write({Entry(kB, slow), Batch::PutBase{.segment = kB, .lsn = Lsn(slow), .bytes = "b"}}),
                  IsOk());
    }
    if (lsn % 100 == 0) {
      ASSERT_THAT(Write({Batch::PutBase{.segment = kA, .lsn = Lsn(lsn - 20), .bytes = "base"}}), IsOk());
      const auto usage = engine_->usage();
      ASSERT_THAT(usage, IsOk());
      most = std::max(most, usage->log + usage->pages + usage->write_ahead);
    }
  }
  EXPECT_LT(most, uint64_t{5} << 20) << "of " << kRecords * record.size() << " bytes written";
  Kill();
  EXPECT_THAT(Lsns(kA), ElementsAre(3981, 3982, 3983, 3984, 3985, 3986, 3987, 3988, 3989, 3990, 3991, 3992,
                                    3993, 3994, 3995, 3996, 3997, 3998, 3999, 4000));
}

// Random batches over both, killed and opened again in between, against what the twin says it has.
TEST_P(EngineContract, HoldsTheSameAsItsTwin) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    engine_.reset();
    place_ = GetParam().make();
    Open();
    world::SplitMix64 random(seed);
    auto disk = std::make_shared<MemoryEngine::Disk>();
    auto twin = MemoryEngine::Open(disk).value();
    Contents none;
    ASSERT_THAT(twin->Load(none), IsOk());
    std::map<SegmentId, uint64_t> end;
    std::map<SegmentId, uint64_t> begin;
    for (int step = 0; step < 300; ++step) {
      Batch batch;
      for (uint64_t n = world::Uniform(random, 4); n > 0; --n) {
        const SegmentId segment(static_cast<uint32_t>(world::Uniform(random, 3)));
        const PageKey key{.table = TableId(1), .start = world::Uniform(random, 5), .depth = 1};
        switch (world::Uniform(random, 12)) {
          case 0:
            batch.Add(Batch::Reset{segment});
            begin[segment] = end[segment] = world::Uniform(random, 100);
            break;
          case 1: {
            const uint64_t lsn = begin[segment] + world::Uniform(random, end[segment] - begin[segment] + 1);
            begin[segment] = lsn;
            batch.Add(Batch::PutBase{.segment = segment, .lsn = Lsn(lsn), .bytes = std::to_string(step)});
            break;
          }
          case 2:
            batch.Add(Batch::DeletePage{.segment = segment, .key = key});
            break;
          case 3:
            batch.Add(Batch::PutPage{.segment = segment, .key = key, .bytes = std::to_string(step)});
            break;
          default:
            batch.Add(Entry(segment, ++end[segment], std::string(world::Uniform(random, 3000), 'r')));
        }
      }
      const absl::Status here = engine_->Write(batch);
      const absl::Status there = twin->Write(batch);
      ASSERT_EQ(here.code(), there.code()) << here << there;
      ASSERT_THAT(here, IsOk()) << "seed " << seed << ", step " << step;
      if (world::Uniform(random, 60) != 0) continue;
      Kill();
      twin.reset();
      twin = MemoryEngine::Open(disk).value();
      Contents expected;
      ASSERT_THAT(twin->Load(expected), IsOk());
      ASSERT_TRUE(loaded_ == expected) << "seed " << seed << ", step " << step;
    }
  }
}

// -- the twin's faults --

class MemoryFaults : public ::testing::Test {
 protected:
  MemoryFaults() { Open(); }
  void Open() {
    engine_.reset();
    engine_ = MemoryEngine::Open(disk_).value();
    loaded_ = Contents();
    (void)engine_->Load(loaded_);
  }
  absl::Status Append(uint64_t lsn) {
    Batch batch;
    batch.Add(LogEntry{.segment = kA, .epoch = Epoch(1), .lsn = Lsn(lsn), .record = absl::Cord("r")});
    return engine_->Write(batch);
  }
  std::shared_ptr<MemoryEngine::Disk> disk_ = std::make_shared<MemoryEngine::Disk>();
  std::unique_ptr<MemoryEngine> engine_;
  Contents loaded_;
};

TEST_F(MemoryFaults, PowerTakesAnySuffixThatWasNotSynced) {
  for (uint64_t lsn = 1; lsn <= 3; ++lsn) ASSERT_THAT(Append(lsn), IsOk());
  ASSERT_THAT(engine_->Sync(), IsOk());
  for (uint64_t lsn = 4; lsn <= 9; ++lsn) ASSERT_THAT(Append(lsn), IsOk());
  EXPECT_EQ(disk_->unsynced(), 6u);
  engine_.reset();
  disk_->LosePower(2);
  Open();
  EXPECT_EQ(loaded_.logs[kA].size(), 5u);
  disk_->LosePower(0);
  Open();
  EXPECT_EQ(loaded_.logs[kA].size(), 5u) << "what was kept is on the disk";
}

TEST_F(MemoryFaults, AFailedWriteChangesNothingAndMayBeRepeated) {
  disk_->write_error = absl::ResourceExhaustedError("full");
  EXPECT_THAT(Append(1), StatusIs(StatusCode::kResourceExhausted));
  disk_->write_error = absl::OkStatus();
  EXPECT_THAT(Append(1), IsOk());
  disk_->sync_error = absl::UnavailableError("gone");
  EXPECT_THAT(engine_->Sync(), StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(disk_->unsynced(), 1u);
}

TEST_F(MemoryFaults, DamageIsFoundAtLoading) {
  ASSERT_THAT(Append(1), IsOk());
  disk_->damaged = true;
  engine_.reset();
  engine_ = MemoryEngine::Open(disk_).value();
  Contents contents;
  EXPECT_THAT(engine_->Load(contents), StatusIs(StatusCode::kDataLoss));
}

// A reader that several threads may call for segments that differ; it notes who brought their pages.
class SharedContents final : public Reader {
 public:
  absl::Status OnBase(SegmentId segment, Lsn lsn, absl::string_view bytes) override {
    const std::lock_guard lock(mutex);
    return contents.OnBase(segment, lsn, bytes);
  }
  absl::Status OnPage(SegmentId segment, const PageKey& key, absl::string_view bytes) override {
    const std::lock_guard lock(mutex);
    threads[segment].insert(std::this_thread::get_id());
    if (segment == fails_at) return absl::DataLossError("a page that is none");
    return contents.OnPage(segment, key, bytes);
  }
  absl::Status OnRecord(LogEntry entry) override { return contents.OnRecord(std::move(entry)); }

  std::mutex mutex;
  Contents contents;
  std::map<SegmentId, std::set<std::thread::id>> threads;
  std::optional<SegmentId> fails_at;
};

TEST_P(EngineContract, SeveralThreadsLoadWhatOneDoes) {
  Batch batch;
  for (uint32_t s = 0; s < 20; s += 2) {
    batch.Add(Batch::PutBase{.segment = SegmentId(s), .lsn = Lsn(3), .bytes = "base"});
    for (uint64_t p = 0; p < 50; ++p) {
      batch.Add(Batch::PutPage{.segment = SegmentId(s),
                               .key = {.table = TableId(1), .start = p, .depth = 6},
                               .bytes = std::string(1000 + p, 'p')});
    }
    batch.Add(LogEntry{
        .segment = SegmentId(s), .epoch = Epoch(1), .lsn = Lsn(4), .record = absl::Cord("a record")});
  }
  ASSERT_THAT(engine_->Write(batch), IsOk());
  place_->Kill(std::move(engine_));
  engine_ = place_->Open().value();
  SharedContents shared;
  ASSERT_THAT(engine_->LoadInParallel(shared, 4), IsOk());
  place_->Kill(std::move(engine_));
  engine_ = place_->Open().value();
  Contents alone;
  ASSERT_THAT(engine_->Load(alone), IsOk());
  EXPECT_EQ(shared.contents, alone);
  EXPECT_EQ(alone.pages.size(), 10u);
  for (const auto& [segment, threads] : shared.threads) {
    EXPECT_EQ(threads.size(), 1u) << "segment " << segment.v;
  }
}

TEST_P(EngineContract, AnErrorOfOneThreadEndsTheLoading) {
  Batch batch;
  for (uint32_t s = 0; s < 8; ++s) {
    batch.Add(Batch::PutPage{.segment = SegmentId(s), .key = kPage, .bytes = "page"});
  }
  ASSERT_THAT(engine_->Write(batch), IsOk());
  place_->Kill(std::move(engine_));
  engine_ = place_->Open().value();
  SharedContents shared;
  shared.fails_at = SegmentId(5);
  EXPECT_THAT(engine_->LoadInParallel(shared, 3), StatusIs(StatusCode::kDataLoss, HasSubstr("none")));
}

// -- RocksDB's own --

TEST(RocksDbEngine, DamageIsFoundAtLoading) {
  TempDir dir;
  {
    auto engine = OpenRocksDbEngine(dir.path()).value();
    Contents contents;
    ASSERT_THAT(engine->Load(contents), IsOk());
    Batch batch;
    batch.Add(
        LogEntry{.segment = kA, .epoch = Epoch(1), .lsn = Lsn(1), .record = absl::Cord("a record of note")});
    ASSERT_THAT(engine->Write(batch), IsOk());
  }
  {
    auto engine = OpenRocksDbEngine(dir.path()).value();  // now it is in a file
  }
  int damaged = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir.path())) {
    if (file.path().extension() != ".sst") continue;
    std::ifstream in(file.path(), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    in.close();
    const size_t at = bytes.find("of note");
    if (at == std::string::npos) continue;
    bytes[at] = 'X';
    std::ofstream(file.path(), std::ios::binary) << bytes;
    ++damaged;
  }
  ASSERT_EQ(damaged, 1);
  auto engine = OpenRocksDbEngine(dir.path());
  Contents contents;
  const absl::Status loaded = engine.ok() ? (*engine)->Load(contents) : engine.status();
  EXPECT_THAT(loaded, StatusIs(StatusCode::kDataLoss));
}

TEST(RocksDbEngine, AFolderThatCannotBeMadeIsNamed) {
  EXPECT_THAT(OpenRocksDbEngine("/proc/none/here"),
              StatusIs(StatusCode::kUnavailable, HasSubstr("/proc/none/here")));
}

}  // namespace
}  // namespace paceline::engine
