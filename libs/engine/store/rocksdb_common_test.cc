#include "libs/engine/store/rocksdb_common.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/file_checksum.h>
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

TEST(RocksDbChecksums, AreOurs) {
  // RocksDB's library calls the function that the loader finds first.
  void* const found = dlsym(RTLD_DEFAULT, "_ZN7rocksdb6crc32c6ExtendEjPKcm");
  Dl_info of_found = {};
  Dl_info of_us = {};
  ASSERT_NE(dladdr(found, &of_found), 0);
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&Translated), &of_us), 0);
  EXPECT_EQ(of_found.dli_fbase, of_us.dli_fbase) << of_found.dli_fname;

  const auto checksum = rocksdb::GetFileChecksumGenCrc32cFactory()->CreateFileChecksumGenerator({});
  checksum->Update("1234", 4);
  checksum->Update("56789", 5);
  checksum->Finalize();
  EXPECT_EQ(checksum->GetChecksum(), std::string("\xe3\x06\x92\x83", 4))
      << "RFC 3720, the highest byte first";
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
