// A shard's tasks for snapshots: it writes files of its segments' rows, and loads jobs from them.
#include "services/shard/snapshots/snapshot_tasks.h"

#include <deque>
#include <utility>

#include "libs/log/segment_image.h"
#include "libs/snapshot/manifest.h"
#include "libs/snapshot/memory_files.h"
#include "services/shard/test_util/shard_fixture.h"

namespace paceline::shard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Tasks wait until the test runs them.
class Queue final : public SnapshotRunner {
 public:
  void Run(Task task, absl::Duration delay) override {
    tasks.push_back(std::move(task));
    delayed += delay > absl::ZeroDuration() ? 1 : 0;
  }
  void RunAll() {
    while (!tasks.empty()) {
      Task task = std::move(tasks.front());
      tasks.pop_front();
      task(files);
    }
  }
  snapshot::MemoryFiles files;
  std::deque<Task> tasks;
  int delayed = 0;
};

class ShardSnapshotsTest : public ShardTest {
 protected:
  ShardSnapshotsTest() {
    shard.KeepSnapshots(queue);
    EXPECT_THAT(queue.files.MakeFolder("ctr-1-00000001"), IsOk());
    push.Start();
    push.Send(Push(1, 0, {1, 2}));
    push.Send(Push(1, 1, {3, 4}));
  }

  v1::ChangeReply Do(const v1::Change& change) {
    absl::StatusOr<v1::ChangeReply> out = absl::UnknownError("no answer");
    shard.MakeChange(change, [&](absl::StatusOr<v1::ChangeReply> reply) { out = std::move(reply); });
    EXPECT_THAT(out, IsOk());
    return out.ok() ? *out : v1::ChangeReply();
  }
  static v1::Change Cut(uint64_t id) {
    v1::Change change = OfJob(1);
    change.mutable_cut()->set_id(id);
    change.mutable_cut()->set_at_once(true);
    change.mutable_cut()->set_snapshot("ctr-1-00000001");
    return change;
  }
  static v1::Change Closing(uint32_t job) {
    v1::Change change = OfJob(job);
    change.mutable_close();
    return change;
  }
  // Loads table kSparse of the snapshot into table `to` of job 7.
  static v1::Change Load(uint64_t id, uint32_t to, uint32_t dim = 2) {
    v1::Change change = OfJob(7);
    change.mutable_load()->set_id(id);
    change.mutable_load()->set_clock(12);
    change.mutable_load()->set_snapshot("ctr-1-00000001");
    v1::Change::LoadJob::Table& load = *change.mutable_load()->add_tables();
    load.set_from(kSparse);
    load.mutable_to()->set_id(to);
    load.mutable_to()->set_job(7);
    load.mutable_to()->set_name("again");
    load.mutable_to()->mutable_schema()->set_kind(v1::TABLE_KIND_SPARSE);
    load.mutable_to()->mutable_schema()->set_dim(dim);
    load.mutable_to()->mutable_schema()->mutable_rule()->mutable_add();
    return change;
  }
  // A whole snapshot.
  void Take() {
    Do(Cut(1));
    queue.RunAll();
    const v1::ChangeReply reply = Do(Cut(1));
    v1::SnapshotManifest manifest;
    manifest.set_format(snapshot::kFormat);
    manifest.set_name("ctr-1-00000001");
    manifest.set_ring_bits(1);
    *manifest.mutable_files() = reply.files();
    ASSERT_THAT(snapshot::WriteManifest(queue.files, manifest), IsOk());
  }
  std::vector<float> RowOf(uint32_t table, uint64_t key) {
    std::vector<float> row(2, -1);
    shard.context().ForEachSegment(
        [&](SegmentHost& host) {
          const auto placement = ring::Placement::Sparse(TableId(table), 1).value();
          const log::Segment::Table* found = host.primary()->segment().FindTable(TableId(table));
          if (placement.Of(key) != host.id() || found == nullptr) return;
          found->rows.Read(table::KeyView(absl::MakeConstSpan(&key, 1)), row.data());
        },
        [] {});
    return row;
  }

  Queue queue;
};

TEST_F(ShardSnapshotsTest, ASegmentIsDoneWhenItsFileIsWritten) {
  EXPECT_THAT(Do(Cut(1)).committed(), IsEmpty());
  const v1::ChangeReply waits = Do(Cut(1));
  EXPECT_THAT(waits.committed(), IsEmpty());
  EXPECT_THAT(waits.waits(), ElementsAre(HasSubstr("being written"), HasSubstr("being written")));
  EXPECT_THAT(queue.tasks, SizeIs(2)) << "asked again, written once";
  push.Send(Push(2, 0, {10, 10}));  // after the cut
  queue.RunAll();
  const v1::ChangeReply reply = Do(Cut(1));
  EXPECT_THAT(reply.committed(), ElementsAre(0u, 1u));
  ASSERT_EQ(reply.files_size(), 2);
  EXPECT_EQ(reply.files(0).rows(), 1u);
  EXPECT_EQ(reply.files(0).bytes(), queue.files.folders["ctr-1-00000001"][reply.files(0).name()].size());
  EXPECT_EQ(shard.snapshots()->counters().files_written, 2u);
  Take();
  queue.RunAll();
  Do(Load(5, 21));
  queue.RunAll();
  EXPECT_THAT(RowOf(21, KeyIn(0)), ElementsAre(1, 2)) << "as of the cut";
}

TEST_F(ShardSnapshotsTest, AFileThatCannotBeWrittenFailsTheCut) {
  Do(Cut(1));
  queue.files.error = absl::ResourceExhaustedError("the disk is full");
  queue.RunAll();
  const v1::ChangeReply reply = Do(Cut(1));
  EXPECT_THAT(reply.committed(), IsEmpty());
  ASSERT_EQ(reply.failures_size(), 2);
  EXPECT_THAT(reply.failures(0).why(), HasSubstr("the disk is full"));
  EXPECT_FALSE(reply.failures(0).lost());
  queue.files.error = absl::OkStatus();
  Do(Cut(2));
  queue.RunAll();
  EXPECT_THAT(Do(Cut(2)).committed(), ElementsAre(0u, 1u));
}

TEST_F(ShardSnapshotsTest, ACutThatWasGivenUpIsNotWrittenAgain) {
  Do(Cut(1));
  Do(Cut(1));
  EXPECT_THAT(queue.tasks, SizeIs(2));
  ASSERT_THAT(snapshot::DeleteSnapshot(queue.files, "ctr-1-00000001"), IsOk());
  queue.RunAll();
  EXPECT_THAT(queue.files.folders, IsEmpty());
  EXPECT_EQ(shard.snapshots()->counters().write_failures, 2u);
  const v1::ChangeReply reply = Do(Cut(1));
  ASSERT_EQ(reply.failures_size(), 2);
  EXPECT_THAT(reply.failures(0).why(), HasSubstr("ctr-1-00000001"));
  EXPECT_FALSE(reply.failures(0).lost()) << "it is not to be cut again";
}

TEST_F(ShardSnapshotsTest, AnOldCutIsLost) {
  Do(Cut(2));
  queue.RunAll();
  const v1::ChangeReply reply = Do(Cut(1));
  ASSERT_EQ(reply.failures_size(), 2);
  EXPECT_TRUE(reply.failures(0).lost());
}

TEST_F(ShardSnapshotsTest, RowsThatChangeMeanwhileCountAsMemoryUntilWritten) {
  const auto bytes = [&] {
    v1::BeatRequest beat;
    shard.Describe([&](v1::BeatRequest described) { beat = std::move(described); });
    return beat.bytes();
  };
  const uint64_t before = bytes();
  Do(Cut(1));
  Do(Cut(1));
  EXPECT_EQ(bytes(), before);
  push.Send(Push(2, 0, {10, 10}));
  EXPECT_GT(bytes(), before);
  queue.RunAll();
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(shard.snapshots()->counters().pages_copied, 2u);
}

TEST_F(ShardSnapshotsTest, TheCutIsLostUnlessItStaysPrimary) {
  Do(Cut(1));
  shard.context().ForEachSegment([](SegmentHost& host) { host.primary()->OnTime(absl::InfiniteFuture()); },
                                 [] {});
  queue.RunAll();
  const v1::ChangeReply reply = Do(Cut(1));
  ASSERT_EQ(reply.failures_size(), 2);
  EXPECT_TRUE(reply.failures(0).lost());
}

TEST_F(ShardSnapshotsTest, ALateCallDoesNotWriteOverASnapshot) {
  Take();
  const auto files = queue.files.folders["ctr-1-00000001"];
  Do(Closing(1));
  Do(Cut(1));
  Do(Cut(1));
  queue.RunAll();
  EXPECT_EQ(shard.snapshots()->counters().files_written, 4u) << "the cut was logged again";
  for (const auto& [name, bytes] : files)
    EXPECT_EQ(queue.files.folders["ctr-1-00000001"][name], bytes) << name;
}

// Calls of any kind: the segment would not know the earlier ones.
TEST_F(ShardSnapshotsTest, ASegmentThatBeganEmptyTakesNoCallsOfBefore) {
  Take();
  v1::InstallRequest emptied = MapOf(2, 1, /*epoch=*/2);
  emptied.mutable_map()->mutable_segments(0)->set_emptied_in(2);
  emptied.mutable_map()->mutable_segments(0)->set_change_floor(5);
  ASSERT_THAT(shard.Install(emptied), IsOk());
  v1::Change cut = Cut(1);
  cut.set_number(4);
  const v1::ChangeReply late = Do(cut);
  EXPECT_THAT(late.files(), SizeIs(1)) << "of segment 1";
  EXPECT_THAT(late.late(), ElementsAre(0u));
  v1::Change open = log::ChangeOf(v1::Change::kOpen, SessionId(6), JobId(1));
  open.set_number(5);
  EXPECT_THAT(Do(open).committed(), ElementsAre(1u));
  open.set_number(6);
  EXPECT_THAT(Do(open).committed(), ElementsAre(0u, 1u));
}

TEST_F(ShardSnapshotsTest, AClosedJobLeavesNothing) {
  Take();
  Do(Load(5, 22));
  queue.RunAll();
  EXPECT_EQ(shard.snapshots()->counters().noted, 3u);
  Do(Cut(2));
  for (const uint32_t job : {1u, 7u}) {
    Do(Closing(job));
  }
  EXPECT_EQ(shard.snapshots()->counters().noted, 0u);
  queue.RunAll();
  EXPECT_EQ(shard.snapshots()->counters().noted, 0u) << "files that were under way";
}

TEST_F(ShardSnapshotsTest, LoadsWhereverTheKeysLieNow) {
  Take();
  const v1::ChangeReply waits = Do(Load(5, 22));
  EXPECT_THAT(waits.committed(), IsEmpty());
  EXPECT_THAT(waits.waits(0), HasSubstr("being loaded"));
  Do(Load(5, 22));
  EXPECT_THAT(queue.tasks, SizeIs(1)) << "asked again, begun once";
  queue.RunAll();
  EXPECT_THAT(Do(Load(5, 22)).committed(), ElementsAre(0u, 1u));
  EXPECT_THAT(RowOf(22, KeyIn(0)), ElementsAre(1, 2));
  EXPECT_THAT(RowOf(22, KeyIn(1)), ElementsAre(3, 4));
  v1::BeatRequest beat;
  shard.Describe([&](v1::BeatRequest described) { beat = std::move(described); });
  for (const v1::JobClock& job : beat.jobs()) {
    EXPECT_EQ(job.min_clock(), job.job() == 7 ? 12u : 0u);
  }
}

TEST_F(ShardSnapshotsTest, DamageAndAnotherSchemaAreNamed) {
  Take();
  auto& folder = queue.files.folders["ctr-1-00000001"];
  std::string& file = folder.lower_bound("segment-1")->second;
  const std::string whole = file;
  file[file.size() - 3] ^= 1;
  Do(Load(5, 21));
  queue.RunAll();
  const v1::ChangeReply damaged = Do(Load(5, 21));
  ASSERT_EQ(damaged.failures_size(), 1);
  EXPECT_THAT(damaged.failures(0).why(), HasSubstr("ctr-1-00000001/segment-1"));
  file = whole;
  Do(Load(6, 23, /*dim=*/3));
  queue.RunAll();
  const v1::ChangeReply other = Do(Load(6, 23, 3));
  ASSERT_EQ(other.failures_size(), 1);
  EXPECT_THAT(other.failures(0).why(), HasSubstr("2 floats a row; its schema has 3"));
}

TEST_F(ShardTest, WithoutADirectoryTheFlagIsNamed) {
  v1::Change change = OfJob(1);
  change.mutable_cut()->set_id(1);
  change.mutable_cut()->set_snapshot("x");
  const v1::ChangeReply out = Make(change);
  ASSERT_EQ(out.failures_size(), 1);
  EXPECT_THAT(out.failures(0).why(), HasSubstr("--snapshot-dir"));
}

}  // namespace
}  // namespace paceline::shard
