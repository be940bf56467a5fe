// The notes in a shard's folder while the shard runs.
#include "services/shard/disk/folder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/memory_engine.h"
#include "libs/wire/replicate_frame.h"
#include "libs/world/real_clock.h"
#include "services/shard/disk/disk_contents.h"
#include "services/shard/shard.h"

namespace paceline::shard {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

constexpr uint64_t kCluster = 77;
constexpr uint32_t kSelf = 3;
constexpr uint32_t kOther = 4;

// Writes and syncs at once.
class EngineDisk final : public Disk {
 public:
  explicit EngineDisk(std::shared_ptr<engine::MemoryEngine::Disk> disk)
      : engine_(*engine::MemoryEngine::Open(std::move(disk))) {
    EXPECT_THAT(LoadDisk(*engine_), IsOk());
  }
  void Write(engine::Batch batch, Synced synced) override {
    EXPECT_THAT(engine_->Write(batch), IsOk());
    EXPECT_THAT(engine_->Sync(), IsOk());
    if (synced) synced();
  }
  uint64_t pending_bytes() const override { return 0; }

 private:
  const std::unique_ptr<engine::Engine> engine_;
};

// The other shard's end of a Replicate stream.
class Peer : public world::StreamPort {
 public:
  explicit Peer(std::shared_ptr<world::AcceptedStream> stream) : stream_(std::move(stream)) {
    stream_->Attach(std::shared_ptr<world::StreamPort>(std::shared_ptr<void>(), this));
    wire::ReplicateFrame hello;
    hello.head.mutable_hello()->set_cluster(kCluster);
    for (const auto& [member, shard] : {std::pair(hello.head.mutable_hello()->mutable_from(), kOther),
                                        std::pair(hello.head.mutable_hello()->mutable_target(), kSelf)}) {
      member->set_shard(shard);
      member->set_incarnation(5);
    }
    stream_->OnFrame(wire::Encode(hello));
  }
  void Kick() override {
    absl::Cord bytes;
    while (stream_->NextFrame(&bytes)) {
      v1::ReplicateReply reply;
      ASSERT_TRUE(reply.ParseFromString(std::string(bytes)));
      if (!reply.refused().empty()) refused = reply.refused();
      acks += reply.acks_size();
    }
  }
  void Close(absl::Status) override {}
  // As the primary of segment 0: whether the shard has anything of it.
  void Ask(uint64_t epoch) {
    v1::ReplicateRequest::Segment head;
    head.set_segment(0);
    head.set_epoch(epoch);
    head.set_transfer(++transfers_);
    wire::ReplicateFrame frame;
    frame.Add(std::move(head), absl::Cord());
    stream_->OnFrame(wire::Encode(frame));
  }

  std::string refused;
  int acks = 0;

 private:
  std::shared_ptr<world::AcceptedStream> stream_;
  uint64_t transfers_ = 0;
};

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() { shard_.Identify({.shard = ShardId(kSelf), .incarnation = Incarnation(5)}, kCluster); }

  absl::Status Install(uint64_t version, uint32_t primary, uint64_t catalogue = 1) {
    v1::InstallRequest request;
    request.mutable_map()->set_version(version);
    request.mutable_map()->set_cluster(kCluster);
    v1::SegmentConfig* segment = request.mutable_map()->add_segments();
    segment->set_epoch(version);
    segment->mutable_primary()->set_shard(primary);
    segment->mutable_primary()->set_incarnation(5);
    for (const uint32_t id : {kSelf, kOther}) {
      v1::ShardInfo* info = request.mutable_map()->add_shards();
      info->set_shard(id);
      info->set_name(absl::StrCat("shard-", id));
      info->set_address("127.0.0.1:1");
      info->set_incarnation(5);
    }
    request.mutable_catalogue()->set_version(catalogue);
    return shard_.Install(request).status();
  }
  absl::Status Empty() {
    v1::EmptyFolderRequest request;
    request.set_cluster(kCluster);
    request.mutable_target()->set_shard(kSelf);
    request.mutable_target()->set_incarnation(5);
    absl::Status answer = absl::UnknownError("no answer");
    shard_.EmptyFolder(request, [&](const auto& reply) { answer = reply.status(); });
    return answer;
  }
  bool SaysEmptied() {
    v1::BeatRequest said;
    shard_.Describe([&](v1::BeatRequest beat) { said = std::move(beat); });
    return said.emptied();
  }
  // The contents that a start finds there.
  DiskContents Found() {
    return LoadDisk(**engine::MemoryEngine::Open(engine::MemoryEngine::Disk::CopyOf(*folder_))).value();
  }

  const std::shared_ptr<engine::MemoryEngine::Disk> folder_ = std::make_shared<engine::MemoryEngine::Disk>();
  const world::RealClock clock_;
  Probe probe_;
  EngineDisk disk_{folder_};
  Shard shard_{{.executors = 1}, clock_, probe_, nullptr, &disk_};
};

TEST_F(FolderTest, AnEmptiedFolderStaysWithoutAnOwner) {
  ASSERT_THAT(Empty(), IsOk());
  ASSERT_THAT(Install(1, kOther), IsOk()) << "the first map comes only now";
  EXPECT_EQ(Found().owner.cluster, 0u);
  EXPECT_TRUE(SaysEmptied());
}

TEST_F(FolderTest, AMembersFolderIsNotEmptied) {
  ASSERT_THAT(Install(1, kSelf), IsOk());
  EXPECT_THAT(Empty(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("member of segment 0")));
  EXPECT_FALSE(SaysEmptied());
  EXPECT_EQ(Found().owner.cluster, kCluster);
  ASSERT_THAT(Install(2, kOther), IsOk());
  EXPECT_THAT(Empty(), IsOk());
  EXPECT_EQ(Found().owner.cluster, 0u);
}

// The call was sent before the drain was cancelled. By now the shard is given segments again, and the map
// that names it may be on its way.
TEST_F(FolderTest, AFolderIsNotEmptiedWhileAPrimarySendsACopy) {
  ASSERT_THAT(Install(1, kOther), IsOk());
  Peer primary(shard_.NewReplicaStream());
  primary.Ask(1);
  ASSERT_EQ(primary.acks, 1) << primary.refused;
  EXPECT_THAT(Empty(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("segment 0, or becomes one")));
  EXPECT_FALSE(SaysEmptied());
  primary.Ask(1);
  EXPECT_EQ(primary.acks, 2) << "it goes on: " << primary.refused;
}

TEST_F(FolderTest, AShardWhoseFolderIsEmptiedTakesNoCopy) {
  ASSERT_THAT(Install(1, kOther), IsOk());
  Peer primary(shard_.NewReplicaStream());
  ASSERT_THAT(Empty(), IsOk());
  primary.Ask(1);
  EXPECT_EQ(primary.acks, 0);
  v1::FenceRequest fence;
  fence.set_cluster(kCluster);
  fence.mutable_target()->set_shard(kSelf);
  fence.mutable_target()->set_incarnation(5);
  fence.add_segments()->set_epoch(2);
  fence.mutable_segments(0)->set_restored(true);
  absl::StatusOr<v1::FenceReply> promise = absl::UnknownError("no answer");
  shard_.Fence(fence, [&](const auto& reply) { promise = reply; });
  ASSERT_THAT(promise, IsOk());
  ASSERT_EQ(promise->segments_size(), 1);
  EXPECT_FALSE(promise->segments(0).fenced()) << "it would be named primary of what it has not";
  EXPECT_THAT(primary.refused, HasSubstr("has marked its folder as emptied"));
}

// No segment says which rates a table has by the coordinator's list.
TEST_F(FolderTest, TheNewestListOfTablesIsNoted) {
  ASSERT_THAT(Install(1, kSelf, /*catalogue=*/4), IsOk());
  EXPECT_EQ(Found().known.catalogue_version(), 4u);
  v1::InstallRequest tables;
  tables.mutable_catalogue()->set_version(5);
  ASSERT_THAT(shard_.Install(tables), IsOk());
  EXPECT_EQ(Found().known.catalogue_version(), 5u);
}

TEST(KnownTest, ASegmentTellsTheLastCutOrLoadOfItsJobs) {
  log::Segment segment(SegmentId(0), 0);
  for (const uint32_t job : {1, 2}) segment.ClockOf(JobId(job));
  v1::Known known;
  segment.Apply(log::Cut{.id = 9, .job = JobId(1), .clock = 0});
  LearnFrom(segment, known);
  EXPECT_EQ(known.cut(), 9u);
  segment.Apply(log::EndLoad{.id = 12, .job = JobId(2)});
  LearnFrom(segment, known);
  EXPECT_EQ(known.cut(), 12u);
}

}  // namespace
}  // namespace paceline::shard
