#include "libs/engine/store/rocksdb_common.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "libs/base/test_util/status_matchers.h"

namespace paceline::engine {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

TEST(FolderLock, IsOneProcesssUntilItIsDestroyed) {
  std::string name = ::testing::TempDir() + "/paceline_lock_XXXXXX";
  const std::string folder = mkdtemp(name.data());
  const auto take = [&] {
    return FolderLock::Take(rocksdb::Env::Default(), folder + "/a/b", "disk", "shard");
  };
  {
    const auto lock = take();
    ASSERT_THAT(lock, IsOk());
    EXPECT_THAT(take(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("a/b is in use by another shard; exactly one may run on it")));
  }
  EXPECT_THAT(take(), IsOk());
  std::filesystem::remove_all(folder);
}

TEST(Translated, SaysWhoWhatAndWhy) {
  EXPECT_THAT(Translated(rocksdb::Status::OK(), "disk", "writing"), IsOk());
  EXPECT_THAT(Translated(rocksdb::Status::NoSpace(), "disk", "writing"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk: writing: ")));
  EXPECT_THAT(Translated(rocksdb::Status::Corruption("page"), "store", "reading"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("store: reading: ")));
  EXPECT_THAT(Translated(rocksdb::Status::IOError("cable"), "store", "reading"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cable")));
}

}  // namespace
}  // namespace paceline::engine
