// The coordinator's store with one file damaged: all that was committed is there, or the folder is refused
// and the message names the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/world/random.h"
#include "services/coordinator/store/rocksdb_store.h"

namespace paceline::coordinator {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class RocksDbStoreDamage : public ::testing::Test {
 protected:
  RocksDbStoreDamage() {
    std::string name = ::testing::TempDir() + "/paceline_store_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~RocksDbStoreDamage() override { fs::remove_all(folder_); }

  fs::path Dir(const std::string& name = "store") const { return folder_ / name; }

  static void Commit(const fs::path& dir, int first, int commits) {
    auto store = OpenRocksDbStore(dir);
    ASSERT_THAT(store, IsOk());
    for (int i = first; i < first + commits; ++i) {
      ASSERT_THAT(
          (*store)->Commit({}, {Write::Put(absl::StrCat("key", i % 50), absl::StrCat(dir.string(), i))}),
          IsOk());
    }
  }
  // All that a copy of `dir` has.
  absl::StatusOr<std::vector<std::pair<std::string, Entry>>> Find(const fs::path& dir) const {
    fs::remove_all(Dir("copy"));
    fs::copy(dir, Dir("copy"), fs::copy_options::recursive);
    const auto store = OpenRocksDbStore(Dir("copy"));
    if (!store.ok()) return store.status();
    return (*store)->List("");
  }
  // The same as `whole`, or a refusal. True: refused.
  bool HarmlessOrNamed(const std::string& name,
                       const std::vector<std::pair<std::string, Entry>>& whole) const {
    const auto found = Find(Dir());
    if (!found.ok()) {
      EXPECT_THAT(found, StatusIs(StatusCode::kDataLoss, HasSubstr(name)));
      EXPECT_THAT(found, StatusIs(StatusCode::kDataLoss, HasSubstr("begin a cluster anew")));
      return true;
    }
    EXPECT_EQ(found->size(), whole.size()) << name;
    for (size_t i = 0; i < std::min(found->size(), whole.size()); ++i) {
      EXPECT_EQ((*found)[i].first, whole[i].first) << name;
      EXPECT_EQ((*found)[i].second.value, whole[i].second.value) << name;
      EXPECT_EQ((*found)[i].second.version, whole[i].second.version) << name;
    }
    return false;
  }

  fs::path folder_;
};

TEST_F(RocksDbStoreDamage, DamageToAnyFileIsHarmlessOrNamed) {
  ASSERT_NO_FATAL_FAILURE(Commit(Dir(), 0, 100));
  ASSERT_NO_FATAL_FAILURE(Commit(Dir(), 100, 100));
  const auto whole = Find(Dir());
  ASSERT_THAT(whole, IsOk());
  ASSERT_EQ(whole->size(), 50u);
  world::SplitMix64 random(1);
  int refused = 0;
  for (const auto& entry : fs::directory_iterator(Dir())) {
    const fs::path path = entry.path();
    const std::string good = ReadAll(path);
    if (good.empty()) continue;
    std::vector<std::string> damaged = {"", good.substr(0, good.size() / 2), good.substr(0, good.size() - 1)};
    for (int i = 0; i < 10; ++i) {
      damaged.push_back(good);
      damaged.back()[world::Uniform(random, good.size())] ^=
          static_cast<char>(1 << world::Uniform(random, 8));
    }
    for (const std::string& bytes : damaged) {
      WriteAll(path, bytes);
      refused += HarmlessOrNamed(path.filename(), *whole) ? 1 : 0;
    }
    fs::remove(path);
    refused += HarmlessOrNamed(path.filename(), *whole) ? 1 : 0;
    WriteAll(path, good);
  }
  EXPECT_GT(refused, 30);
}

TEST_F(RocksDbStoreDamage, FilesOfAnotherOrOfBeforeAreHarmlessOrNamed) {
  ASSERT_NO_FATAL_FAILURE(Commit(Dir("other"), 0, 100));
  ASSERT_NO_FATAL_FAILURE(Commit(Dir("other"), 100, 100));
  ASSERT_NO_FATAL_FAILURE(Commit(Dir(), 0, 100));
  fs::copy(Dir(), Dir("old"));
  ASSERT_NO_FATAL_FAILURE(Commit(Dir(), 100, 100));
  const auto whole = Find(Dir());
  ASSERT_THAT(whole, IsOk());
  int refused = 0;
  for (const char* from : {"other", "old"}) {
    for (const auto& entry : fs::directory_iterator(Dir(from))) {
      const fs::path path = Dir() / entry.path().filename();
      const bool there = fs::exists(path);
      const std::string good = ReadAll(path);
      WriteAll(path, ReadAll(entry.path()));
      refused += HarmlessOrNamed(path.filename(), *whole) ? 1 : 0;
      there ? WriteAll(path, good) : static_cast<void>(fs::remove(path));
    }
  }
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace paceline::coordinator
