// Whole folders as an earlier release has left them: they are read, go on, and are marked from then on.
#include <unistd.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/store/marked_folder.h"
#include "libs/engine/store/rocksdb_engine.h"
#include "services/coordinator/store/rocksdb_store.h"
#include "services/shard/disk/disk_contents.h"

namespace paceline {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class FoldersTest : public ::testing::Test {
 protected:
  FoldersTest() {
    std::string name = ::testing::TempDir() + "/paceline_golden_XXXXXX";
    folder_ = mkdtemp(name.data());
    fs::copy(fs::path(PACELINE_GOLDEN) / "folders-1", folder_, fs::copy_options::recursive);
  }
  ~FoldersTest() override { fs::remove_all(folder_); }

  // Rows of all tables that hold 5, as all do that paceline-count has counted in.
  void ExpectAllCounts() const {
    auto engine = engine::OpenRocksDbEngine(folder_ / "shard-0");
    ASSERT_THAT(engine, IsOk());
    const auto contents = shard::LoadDisk(**engine);
    ASSERT_THAT(contents, IsOk());
    EXPECT_EQ(contents->owner.shard, ShardId(0));
    EXPECT_GT(contents->folder.position(), 0u) << "a start that says less than the store knows is refused";
    size_t fives = 0;
    for (const auto& [id, segment] : contents->segments) {
      ASSERT_TRUE(segment.state.has_value());
      for (uint32_t table = 1; table < 10; ++table) {
        const auto* found = segment.state->FindTable(TableId(table));
        if (found == nullptr) continue;
        for (uint64_t key = 0; key < 20; ++key) {
          if (found->placement.Of(key) != id) continue;
          std::vector<float> row(found->info->schema.dim);
          found->rows.Read(table::KeyView(absl::MakeConstSpan(&key, 1)), row.data());
          fives += row[0] == 5 ? 1 : 0;
        }
      }
    }
    EXPECT_EQ(fives, 42u) << "of two jobs 20 rows each, and the one in which its workers meet";
    engine::Batch batch;
    batch.Add(engine::Batch::PutNote{.name = "more", .bytes = "of it"});
    ASSERT_THAT((*engine)->Write(batch), IsOk());
    ASSERT_THAT((*engine)->Sync(), IsOk());
  }

  fs::path folder_;
};

TEST_F(FoldersTest, AShardsFolderOfFormat1IsRead) {
  ASSERT_FALSE(fs::exists(folder_ / "shard-0" / engine::kMarkFile));
  ASSERT_NO_FATAL_FAILURE(ExpectAllCounts());
  ASSERT_NO_FATAL_FAILURE(ExpectAllCounts());
  fs::remove(folder_ / "shard-0" / engine::kMarkFile);
  EXPECT_THAT(engine::OpenRocksDbEngine(folder_ / "shard-0"),
              StatusIs(StatusCode::kDataLoss, HasSubstr("shard-0/SYNCED is missing")));
}

TEST_F(FoldersTest, ACoordinatorsFolderOfFormat1IsRead) {
  size_t entries = 0;
  for (int life = 0; life < 2; ++life) {
    const auto store = coordinator::OpenRocksDbStore(folder_ / "coordinator");
    ASSERT_THAT(store, IsOk());
    const auto all = (*store)->List("");
    ASSERT_THAT(all, IsOk());
    EXPECT_TRUE(life == 0 || all->size() == entries);
    entries = all->size();
    EXPECT_GT(entries, 5u);
  }
  fs::remove(folder_ / "coordinator" / engine::kMarkFile);
  EXPECT_THAT(coordinator::OpenRocksDbStore(folder_ / "coordinator"),
              StatusIs(StatusCode::kDataLoss, HasSubstr("coordinator/SYNCED is missing")));
}

// A folder that never had a mark tells less: but that there is no CURRENT beside its tables.
TEST_F(FoldersTest, WithoutCurrentTheyAreRefused) {
  fs::remove(folder_ / "shard-0/CURRENT");
  EXPECT_THAT(engine::OpenRocksDbEngine(folder_ / "shard-0"),
              StatusIs(StatusCode::kDataLoss, HasSubstr("shard-0/CURRENT is missing")));
}

}  // namespace
}  // namespace paceline
