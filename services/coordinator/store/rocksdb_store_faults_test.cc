// The coordinator's store on a disk that fills up and fails: what was committed is there, and once the disk
// works again so does the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/engine/store/test_util/failing_files.h"
#include "libs/world/random.h"
#include "services/coordinator/store/rocksdb_store.h"

namespace paceline::coordinator {
namespace {

using engine::testing::Platter;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::AnyOf;

struct Meeting {
  std::string name;
  Platter::Fault fault;
  absl::StatusCode code;
};

class RocksDbStoreFaults : public ::testing::TestWithParam<Meeting> {
 protected:
  RocksDbStoreFaults() {
    std::string name = ::testing::TempDir() + "/paceline_store_XXXXXX";
    folder_ = mkdtemp(name.data());
    Open();
  }
  ~RocksDbStoreFaults() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open() {
    store_.reset();
    auto store = OpenRocksDbStore(folder_ + "/store", env_.get());
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }
  // The next number, as the value of one key.
  absl::Status Commit() {
    const absl::Status done =
        store_->Commit({}, {Write::Put("number", absl::StrCat(++given_, std::string(500, ' ')))});
    if (done.ok()) committed_ = given_;
    return done;
  }
  // Is there no older than what was committed, with a version that was never given to an older one.
  void ExpectIsThere() {
    const auto found = store_->Get("number");
    ASSERT_THAT(found, IsOk());
    const uint64_t number = found->has_value() ? std::stoull((*found)->value) : 0;
    EXPECT_GE(number, committed_);
    EXPECT_LE(number, given_);
    if (!found->has_value()) return;
    EXPECT_GE((*found)->version, version_);
    if ((*found)->version == version_) {
      EXPECT_EQ(number, versions_number_);
    }
    version_ = (*found)->version;
    versions_number_ = number;
  }

  std::string folder_;
  Platter platter_;
  const std::unique_ptr<rocksdb::Env> env_ = engine::testing::FailingEnv(platter_);
  world::SplitMix64 random_{11};
  std::unique_ptr<Store> store_;
  uint64_t given_ = 0;
  uint64_t committed_ = 0;
  uint64_t version_ = 0;
  uint64_t versions_number_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    All, RocksDbStoreFaults,
    ::testing::Values(Meeting{"Full", Platter::Fault::kFull, absl::StatusCode::kResourceExhausted},
                      Meeting{"WritesFail", Platter::Fault::kWritesFail, absl::StatusCode::kUnavailable},
                      Meeting{"SyncsFail", Platter::Fault::kSyncsFail, absl::StatusCode::kUnavailable}),
    [](const auto& meeting) { return meeting.param.name; });

TEST_P(RocksDbStoreFaults, WorksAgainWhenTheDiskDoes) {
  for (int round = 0; round < 30; ++round) {
    // In the first round with nothing in memory that a flush could write.
    platter_.MeetAfter(1 + world::Uniform(random_, round == 0 ? 1 : 20), GetParam().fault);
    absl::Status failed;
    while (failed.ok()) failed = Commit();
    EXPECT_THAT(failed, StatusIs(GetParam().code));
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(Commit(), AnyOf(StatusIs(GetParam().code), StatusIs(absl::StatusCode::kUnavailable)));
    }
    platter_.Meet(Platter::Fault::kNone);
    ASSERT_NO_FATAL_FAILURE(ExpectIsThere());
    ASSERT_THAT(Commit(), IsOk());
    ASSERT_NO_FATAL_FAILURE(ExpectIsThere());
    if (round % 10 != 9) continue;
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_NO_FATAL_FAILURE(ExpectIsThere());
  }
}

TEST_P(RocksDbStoreFaults, KeepsItsFolderWhileItCannotBeOpened) {
  platter_.Meet(GetParam().fault);
  ASSERT_FALSE(Commit().ok());
  ASSERT_FALSE(Commit().ok());
  platter_.Meet(Platter::Fault::kNone);
  EXPECT_THAT(OpenRocksDbStore(folder_ + "/store"), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(Commit(), IsOk());
}

// … and when power is lost, whatever it tears, the mark of the folder too.
TEST_P(RocksDbStoreFaults, PowerTakesNothingThatWasCommitted) {
  for (int life = 0; life < 8; ++life) {
    for (uint64_t commits = 1 + world::Uniform(random_, 40); commits > 0; --commits) {
      ASSERT_THAT(Commit(), IsOk());
    }
    if (life % 2 == 1) {  // it is lost while the disk fails
      platter_.Meet(GetParam().fault);
      ASSERT_FALSE(Commit().ok());
    }
    platter_.LosePower(folder_ + "/store", folder_ + "/left", random_);
    platter_.Meet(Platter::Fault::kNone);
    store_.reset();
    std::filesystem::remove_all(folder_ + "/store");
    std::filesystem::rename(folder_ + "/left", folder_ + "/store");
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_NO_FATAL_FAILURE(ExpectIsThere());
  }
}

}  // namespace
}  // namespace paceline::coordinator
