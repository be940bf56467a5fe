// Folders and stores that go back in time, copies of folders, and starts that end anywhere while they join:
// the real shard's side (Joining) and the real coordinator's, with a disk in memory between.
#include <vector>

#include "libs/base/status.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/memory_engine.h"
#include "services/coordinator/metadata/members/stamps.h"
#include "services/coordinator/metadata/test_util/test_cluster.h"
#include "services/shard/control/joining.h"
#include "services/shard/disk/disk_contents.h"
#include "services/shard/disk/folder.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Disk = engine::MemoryEngine::Disk;
using shard::Joining;

// Where a start ends.
enum class End {
  kNever,
  kBeforeAsking,
  kBeforeWriting,
  kBeforeSyncing,  // and the power goes
  kBeforeJoining,
  kCallUnderWay,  // it may arrive at any later time
  kBeforeTheAnswer,
};
constexpr End kEnds[] = {End::kBeforeAsking,  End::kBeforeWriting, End::kBeforeSyncing,
                         End::kBeforeJoining, End::kCallUnderWay,  End::kBeforeTheAnswer};

constexpr uint64_t kCluster = 77;

class JoinsTest : public ::testing::Test {
 protected:
  JoinsTest() : cluster_(1, {.ring_bits = 1, .new_cluster = kCluster}) {}

  // A process starts on a disk, and ends where it is told to. OK: it has joined.
  absl::Status Start(const std::shared_ptr<Disk>& disk, End end = End::kNever,
                     const std::string& name = "shard-0", std::string place = "") {
    auto engine = *engine::MemoryEngine::Open(disk);
    auto contents = shard::LoadDisk(*engine);
    if (!contents.ok()) return contents.status();
    v1::JoinClusterRequest request;
    request.set_feature_level(2);
    request.set_name(name);
    request.set_address(absl::StrCat("host:", ++nonce_));
    request.set_nonce(nonce_);
    request.set_keeps_data(true);
    *request.mutable_folder() = contents->folder;
    request.mutable_folder()->set_place(
        place.empty() ? absl::StrCat("disk ", reinterpret_cast<uintptr_t>(disk.get())) : place);
    *request.mutable_known() = contents->known;
    Joining joining(request);
    const absl::Status status = Go(joining, *engine, *disk, end);
    if (!status.ok()) return status;
    // As a shard that has its map: from now on the folder is this one's.
    engine::Batch batch;
    batch.Add(shard::NoteOf({.cluster = kCluster, .shard = ShardId(last_.shard()), .ring_bits = 1}));
    v1::Known known;
    known.set_incarnation(last_.incarnation());
    known.set_map_version(cluster_.core().Status().map_version());
    batch.Add(shard::KnownNote(known));
    EXPECT_THAT(engine->Write(batch), IsOk());
    return engine->Sync();
  }

  absl::Status Go(Joining& joining, engine::Engine& engine, Disk& disk, End end) {
    const absl::Status ended = absl::CancelledError("it was killed");
    for (int steps = 0; steps < 20; ++steps) {
      switch (joining.step()) {
        case Joining::Step::kAsk:
          if (end == End::kBeforeAsking) return ended;
          ABSL_RETURN_IF_ERROR(Call(joining));
          break;
        case Joining::Step::kWrite:
          if (end == End::kBeforeWriting) return ended;
          ABSL_RETURN_IF_ERROR(engine.Write(joining.Stamps()));
          if (end == End::kBeforeSyncing) {
            disk.LosePower(nonce_ % 2);
            return ended;
          }
          ABSL_RETURN_IF_ERROR(engine.Sync());
          cluster_.Run(sync_takes_);
          joining.OnWritten();
          break;
        case Joining::Step::kJoin:
          if (between_) std::exchange(between_, nullptr)();
          // A stamp that is in the folder already is not written again.
          if (end == End::kBeforeJoining || end == End::kBeforeWriting || end == End::kBeforeSyncing)
            return ended;
          if (end == End::kCallUnderWay) {
            late_.push_back(joining.request());
            return ended;
          }
          if (end == End::kBeforeTheAnswer) {
            (void)cluster_.core().JoinCluster(joining.request());
            return ended;
          }
          ABSL_RETURN_IF_ERROR(Call(joining));
          break;
        case Joining::Step::kJoined:
          return absl::OkStatus();
      }
    }
    return absl::InternalError("it asks without end");
  }

  absl::Status Call(Joining& joining) {
    const auto reply = cluster_.core().JoinCluster(joining.request());
    if (reply.ok()) last_ = *reply;
    const absl::Status status = joining.OnReply(reply);
    if (absl::IsAborted(status)) cluster_.Run(absl::Milliseconds(20));
    return absl::IsAborted(status) ? absl::OkStatus() : status;
  }

  void CallsArrive() {
    for (const auto& request : std::exchange(late_, {})) (void)cluster_.core().JoinCluster(request);
  }

  static std::shared_ptr<Disk> NewDisk() { return std::make_shared<Disk>(); }
  static std::shared_ptr<Disk> CopyOf(const std::shared_ptr<Disk>& disk) { return Disk::CopyOf(*disk); }
  // Something is written, and synced.
  static void WriteTo(const std::shared_ptr<Disk>& disk) {
    auto engine = *engine::MemoryEngine::Open(disk);
    ASSERT_TRUE(shard::LoadDisk(*engine).ok());
    engine::Batch batch;
    batch.Add(engine::Batch::PutNote{.name = "test", .bytes = "x"});
    ASSERT_THAT(engine->Write(batch), IsOk());
    ASSERT_THAT(engine->Sync(), IsOk());
  }
  absl::Status Beat(uint64_t position, uint64_t session = 0) {
    v1::BeatRequest beat;
    beat.set_shard(last_.shard());
    beat.set_incarnation(last_.incarnation());
    beat.set_cluster(kCluster);
    beat.set_position(position);
    beat.mutable_known()->set_session(session);
    return cluster_.core().Beat(beat).status();
  }

  TestCluster cluster_;
  v1::JoinClusterReply last_;
  uint64_t nonce_ = 1000;
  std::vector<v1::JoinClusterRequest> late_;
  std::function<void()> between_;  // called once, before the next call to join
  absl::Duration sync_takes_;
};

v1::Stamp StampOf(uint64_t count, uint64_t random) {
  v1::Stamp stamp;
  stamp.set_count(count);
  stamp.set_random(random);
  return stamp;
}

TEST(StampsTest, TheStoreHasOneOfTheFoldersTwo) {
  v1::DataFolder folder;
  *folder.mutable_previous() = StampOf(4, 40);
  *folder.mutable_newest() = StampOf(5, 50);
  EXPECT_EQ(AgeOf(folder, StampOf(4, 40)), FolderAge::kGood);
  EXPECT_EQ(AgeOf(folder, StampOf(5, 50)), FolderAge::kGood);
  EXPECT_EQ(AgeOf(folder, StampOf(3, 30)), FolderAge::kStoreBehind);
  EXPECT_EQ(AgeOf(folder, v1::Stamp()), FolderAge::kStoreBehind);
  EXPECT_EQ(AgeOf(folder, StampOf(6, 60)), FolderAge::kFolderOld);
  EXPECT_EQ(AgeOf(folder, StampOf(5, 51)), FolderAge::kCopy);
  EXPECT_EQ(AgeOf(folder, StampOf(4, 41)), FolderAge::kCopy);
  EXPECT_EQ(AgeOf(v1::DataFolder(), v1::Stamp()), FolderAge::kGood) << "of an earlier release";
  EXPECT_EQ(AgeOf(v1::DataFolder(), StampOf(1, 10)), FolderAge::kFolderOld);
}

// Two starts in a row end anywhere, with calls that arrive late: the third one joins, and the one after it.
TEST_F(JoinsTest, NoShardIsLockedOutWhereverAStartEnds) {
  for (const bool fresh : {true, false}) {
    for (const End first : kEnds) {
      for (const End second : kEnds) {
        for (const int arrive : {0, 1, 2, 3}) {
          SCOPED_TRACE(
              absl::StrCat(fresh, " ", static_cast<int>(first), " ", static_cast<int>(second), " ", arrive));
          const std::string name = absl::StrCat("shard-", ++nonce_);
          const auto disk = NewDisk();
          for (int before = fresh ? 0 : 2; before > 0; --before) {
            ASSERT_THAT(Start(disk, End::kNever, name), IsOk());
          }
          EXPECT_THAT(Start(disk, first, name), StatusIs(StatusCode::kCancelled));
          if (arrive == 0) CallsArrive();
          EXPECT_THAT(Start(disk, second, name), StatusIs(StatusCode::kCancelled));
          if (arrive == 1) CallsArrive();
          if (arrive == 2) between_ = [this] { CallsArrive(); };
          EXPECT_THAT(Start(disk, End::kNever, name), IsOk());
          CallsArrive();
          EXPECT_THAT(Beat(0), IsOk()) << "a late call has ended it";
          EXPECT_THAT(Start(disk, End::kNever, name), IsOk());
        }
      }
    }
  }
}

TEST_F(JoinsTest, AnOlderFolderIsRefusedAndChangesNothing) {
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  const auto old = CopyOf(disk);
  ASSERT_THAT(Start(disk), IsOk());
  const int commits = cluster_.store().commits();
  EXPECT_THAT(Start(old),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("older copy"), HasSubstr("bring the newest folder back"))));
  EXPECT_EQ(cluster_.store().commits(), commits);
  EXPECT_THAT(Beat(0), IsOk()) << "the one that runs goes on";
  EXPECT_THAT(Start(disk), IsOk());
}

TEST_F(JoinsTest, TheSecondOfTwoCopiesThatBothStartIsRefused) {
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  const auto copy = CopyOf(disk);
  // Both have a start that ended before the store had its stamp.
  ASSERT_THAT(Start(disk, End::kBeforeJoining), StatusIs(StatusCode::kCancelled));
  ASSERT_THAT(Start(copy, End::kBeforeJoining), StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(Start(disk), IsOk());
  EXPECT_THAT(Start(copy), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("another copy is in use")));
}

TEST_F(JoinsTest, AnOlderCopyWithinOneStartIsRefusedOnceTheStoreKnowsMore) {
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  const auto old = CopyOf(disk);
  WriteTo(disk);
  const uint64_t position = disk->contents().batches;
  ASSERT_THAT(Beat(position), IsOk());
  cluster_.Run(absl::Seconds(11));
  ASSERT_THAT(Beat(position), IsOk());
  EXPECT_THAT(Start(old), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("has lost its end")));
  EXPECT_THAT(Start(disk), IsOk());
}

TEST_F(JoinsTest, PositionsTakeOneCommitInTenSecondsAndNoneWhereNothingIsNew) {
  cluster_.options.shards = 1;
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  (void)Beat(1);
  cluster_.Run(absl::Seconds(11));
  const int commits = cluster_.store().commits();
  for (uint64_t second = 0; second < 30; ++second) {
    ASSERT_THAT(Beat(100 + second), IsOk());
    cluster_.Run(absl::Seconds(1));
  }
  EXPECT_EQ(cluster_.store().commits() - commits, 3);
  for (int second = 0; second < 30; ++second) {
    ASSERT_THAT(Beat(129), IsOk());
    cluster_.Run(absl::Seconds(1));
  }
  EXPECT_LE(cluster_.store().commits() - commits, 4);
}

TEST_F(JoinsTest, AnEmptyFolderJoinsAndAnotherShardsFolderDoesNot) {
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  ASSERT_THAT(Start(NewDisk(), End::kNever, "shard-1"), IsOk());
  const int commits = cluster_.store().commits();
  EXPECT_THAT(Start(disk, End::kNever, "shard-1"),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("data of shard-0")));
  EXPECT_THAT(Start(disk, End::kNever, "stray"),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("shard-0")));
  EXPECT_EQ(cluster_.store().commits(), commits) << "nobody was superseded";
  const auto empty = NewDisk();
  EXPECT_THAT(Start(empty), StatusIs(StatusCode::kUnavailable, HasSubstr("does not answer")));
  cluster_.Run(absl::Seconds(4));
  EXPECT_THAT(Start(empty), IsOk()) << "loud: what it had is lost, or the others have it";
  EXPECT_THAT(Start(disk), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("older copy")));
  EXPECT_THAT(Start(empty), IsOk());
}

// An answer of the earlier start's address counts for a second only.
TEST_F(JoinsTest, AnEmptyFolderOnASlowDiskJoinsInThePlaceOfAStartThatHasEnded) {
  const std::vector disks = {NewDisk(), NewDisk()};
  ASSERT_THAT(Start(disks[0]), IsOk());
  cluster_.Run(absl::Seconds(4));
  sync_takes_ = absl::Milliseconds(1500);
  EXPECT_THAT(Start(disks[1]), IsOk());
  EXPECT_THAT(Start(disks[1]), IsOk());
}

TEST_F(JoinsTest, FoldersAndStoresOfAnEarlierReleaseGetTheirStamps) {
  const auto disk = NewDisk();
  cluster_.shards().proves_ends = false;
  cluster_.shards().disks["shard-0"] = {};
  ASSERT_THAT(cluster_.shards().Join(cluster_.core(), "shard-0"), IsOk());
  {
    auto engine = *engine::MemoryEngine::Open(disk);
    ASSERT_TRUE(shard::LoadDisk(*engine).ok());
    engine::Batch batch;
    batch.Add(shard::NoteOf({.cluster = kCluster, .shard = ShardId(0), .ring_bits = 1}));
    ASSERT_THAT(engine->Write(batch), IsOk());
    ASSERT_THAT(engine->Sync(), IsOk());
  }
  cluster_.shards().at("shard-0").up = false;
  cluster_.Run(absl::Seconds(4));
  const auto unstamped = CopyOf(disk);
  for (const End end : kEnds) EXPECT_THAT(Start(disk, end), StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(Start(disk), IsOk());
  EXPECT_THAT(Start(unstamped), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("older copy")));
}

// -- stores --

TEST_F(JoinsTest, AStoreBehindTheFoldersDoesNotServeUntilTheNewestIsBack) {
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  const MemoryStore::Disk old = cluster_.StoreCopy();
  ASSERT_THAT(Start(disk), IsOk());
  ASSERT_THAT(Start(disk), IsOk());
  const MemoryStore::Disk newest = cluster_.StoreCopy();
  cluster_.beating = false;
  cluster_.Stop();
  cluster_.PutStore(old);
  ASSERT_THAT(cluster_.Restart(), IsOk());
  const int commits = cluster_.store().commits();
  EXPECT_THAT(Start(disk), StatusIs(StatusCode::kUnavailable, AllOf(HasSubstr("older than its cluster"),
                                                                    HasSubstr("bring the newest store"))));
  EXPECT_THAT(cluster_.OpenSession("job", 1).status(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("older")));
  EXPECT_THAT(Start(NewDisk(), End::kNever, "shard-9"), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(cluster_.Problems(), Contains(HasSubstr("older than its cluster")));
  EXPECT_EQ(cluster_.store().commits(), commits);
  cluster_.Stop();
  cluster_.PutStore(newest);
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_THAT(Start(disk), IsOk());
}

TEST_F(JoinsTest, ABeatThatKnowsMoreShowsThatTheStoreIsBehind) {
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  ASSERT_THAT(Beat(0), IsOk());
  cluster_.beating = false;
  cluster_.Stop();
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_THAT(Beat(0, /*session=*/3), StatusIs(StatusCode::kUnavailable, HasSubstr("session 3")));
  EXPECT_THAT(Beat(0), StatusIs(StatusCode::kUnavailable)) << "it stays so";
}

// Nothing has changed since the copy was made but that a snapshot was taken, or rates of a table.
TEST_F(JoinsTest, AStoreFromBeforeASnapshotOrAChangeOfRatesIsBehind) {
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  cluster_.beating = false;
  for (const bool joins : {false, true}) {
    for (const std::string what : {"cut", "catalogue version"}) {
      ASSERT_THAT(cluster_.Restart(), IsOk());
      v1::Known known;
      what == "cut" ? known.set_cut(1) : known.set_catalogue_version(1);
      v1::JoinClusterRequest join;
      join.set_feature_level(2);
      join.set_name("shard-0");
      join.set_address("host:1");
      join.set_nonce(++nonce_);
      join.set_ask(true);
      *join.mutable_folder() = shard::LoadDisk(**engine::MemoryEngine::Open(disk))->folder;
      *join.mutable_known() = known;
      v1::BeatRequest beat;
      beat.set_shard(last_.shard());
      beat.set_incarnation(last_.incarnation());
      beat.set_cluster(kCluster);
      *beat.mutable_known() = known;
      const absl::Status status =
          joins ? cluster_.core().JoinCluster(join).status() : cluster_.core().Beat(beat).status();
      EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable,
                                   AllOf(HasSubstr("older than its cluster"), HasSubstr(what + " 1"))));
    }
  }
}

TEST_F(JoinsTest, NoNumbersAreGivenOutBeforeTheShardsAreHeardOf) {
  cluster_.options.shards = 2;
  ASSERT_THAT(cluster_.Restart(), IsOk());
  const auto disks = std::vector{NewDisk(), NewDisk()};
  ASSERT_THAT(Start(disks[0]), IsOk());
  ASSERT_THAT(Start(disks[1], End::kNever, "shard-1", "the folder"), IsOk());
  cluster_.beating = false;
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_THAT(Start(disks[0]), StatusIs(StatusCode::kUnavailable, HasSubstr("shard-1")))
      << "its folder may know no more than an older store does";
  EXPECT_THAT(cluster_.OpenSession("job", 1).status(),
              StatusIs(StatusCode::kUnavailable, AllOf(HasSubstr("shard-1"), Not(HasSubstr("shard-0")))));
  EXPECT_THAT(Start(NewDisk(), End::kNever, "shard-2"),
              StatusIs(StatusCode::kUnavailable, HasSubstr("shard-1")));
  // All are there, one with an empty folder: nobody else can be asked.
  ASSERT_THAT(Start(NewDisk(), End::kNever, "shard-1", "the folder"), IsOk());
  ASSERT_THAT(Start(disks[0]), IsOk());
  EXPECT_THAT(Start(NewDisk(), End::kNever, "shard-2"), IsOk());
}

// A process with another one's name asks, and is turned away: what the real one knows is not known yet.
TEST_F(JoinsTest, ARefusedStartDoesNotCountAsItsShard) {
  cluster_.options.shards = 2;
  ASSERT_THAT(cluster_.Restart(), IsOk());
  const std::vector disks = {NewDisk(), NewDisk(), NewDisk()};
  ASSERT_THAT(Start(disks[0]), IsOk());
  ASSERT_THAT(Start(disks[1], End::kNever, "shard-1"), IsOk());
  cluster_.beating = false;
  ASSERT_THAT(cluster_.Restart(), IsOk());
  EXPECT_THAT(Start(disks[0]), StatusIs(StatusCode::kUnavailable, HasSubstr("has heard of shard-1")));
  EXPECT_THAT(Start(disks[2], End::kNever, "shard-1"), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(cluster_.OpenSession("job", 1).status(),
              StatusIs(StatusCode::kUnavailable, HasSubstr("has heard of shard-1")));
}

// Each start of its coordinator is another term. Were shards told of these, the newest store would be taken
// for older than its cluster when it is brought back.
TEST_F(JoinsTest, AnOlderStoreTellsNoShardItsTerms) {
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  const v1::JoinClusterReply first = last_;
  ASSERT_THAT(Start(NewDisk(), End::kNever, "shard-1"), IsOk());
  const v1::JoinClusterReply second = last_;
  const MemoryStore::Disk old = cluster_.StoreCopy();
  last_ = first;
  ASSERT_THAT(Beat(0, /*session=*/0), IsOk());
  ASSERT_THAT(Start(disk), IsOk());
  const MemoryStore::Disk newest = cluster_.StoreCopy();
  cluster_.beating = false;
  const auto beat_of_second = [&](uint64_t term) {
    v1::BeatRequest beat;
    beat.set_shard(second.shard());
    beat.set_incarnation(second.incarnation());
    beat.set_cluster(kCluster);
    beat.mutable_known()->set_term(term);
    return cluster_.core().Beat(beat);
  };
  uint64_t term = second.term();
  cluster_.Stop();
  cluster_.PutStore(old);
  for (int start = 0; start < 3; ++start) {
    ASSERT_THAT(cluster_.Restart(), IsOk());
    const auto told = beat_of_second(term);
    ASSERT_THAT(told, IsOk()) << "it knows nothing that the store does not";
    term = std::max(term, told->term());
  }
  EXPECT_THAT(Start(disk), StatusIs(StatusCode::kUnavailable, HasSubstr("older than its cluster")));
  cluster_.Stop();
  cluster_.PutStore(newest);
  ASSERT_THAT(cluster_.Restart(), IsOk());
  ASSERT_THAT(beat_of_second(term), IsOk());
  EXPECT_THAT(Start(disk), IsOk());
  const auto all_heard = beat_of_second(term);
  ASSERT_THAT(all_heard, IsOk());
  EXPECT_GT(all_heard->term(), 0u);
}

TEST_F(JoinsTest, ACoordinatorThatIsNotTheLastToLeadTakesItsStoreForNoOlder) {
  const auto disk = NewDisk();
  ASSERT_THAT(Start(disk), IsOk());
  ASSERT_THAT(Beat(0), IsOk());
  // Another one leads, on the same store, and has given out more.
  cluster_.beating = false;
  cluster_.TakeTermElsewhere();
  EXPECT_THAT(Beat(0, /*session=*/9), StatusIs(StatusCode::kUnavailable, HasSubstr("another coordinator")));
  EXPECT_THAT(cluster_.Problems(), Not(Contains(HasSubstr("older than its cluster"))));
}

}  // namespace
}  // namespace paceline::coordinator
