// The contract of every store, run over the embedded ones, and tests of RocksDB's store alone.
#include "services/coordinator/store/store_contract_test.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>

#include "services/coordinator/store/memory_store.h"
#include "services/coordinator/store/rocksdb_store.h"

namespace paceline::coordinator {
namespace {

// A directory of its own for each test.
class TempDir {
 public:
  TempDir() {
    std::string name = ::testing::TempDir() + "/paceline_store_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Opener MemoryOpener() {
  auto disk = std::make_shared<MemoryStore::Disk>();
  return [disk] { return absl::StatusOr<std::unique_ptr<Store>>(MemoryStore::Open(disk)); };
}

Opener SharedMemoryOpener() {
  auto disk = std::make_shared<MemoryStore::Disk>();
  disk->shared = true;
  return [disk] { return absl::StatusOr<std::unique_ptr<Store>>(MemoryStore::Open(disk)); };
}

Opener RocksDbOpener() {
  auto dir = std::make_shared<TempDir>();
  return [dir] { return OpenRocksDbStore(dir->path() + "/new/store"); };
}

INSTANTIATE_TEST_SUITE_P(
    All, StoreContract,
    ::testing::Values(Kind{.name = "Memory", .opener = MemoryOpener},
                      Kind{.name = "SharedMemory", .opener = SharedMemoryOpener, .shared = true},
                      Kind{.name = "RocksDb", .opener = RocksDbOpener}),
    [](const auto& param) { return param.param.name; });

// -- what needs a second process: this program again, see main --

std::string RunAgain(const std::string& what, const std::string& dir) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  FILE* pipe = popen(("'" + self + "' " + what + " '" + dir + "'").c_str(), "r");
  if (pipe == nullptr) return "(cannot run)";
  std::string words(4096, '\0');
  words.resize(fread(words.data(), 1, words.size(), pipe));
  pclose(pipe);
  return words;
}

std::string OpenHere(const std::string& dir) {
  return OpenRocksDbStore(dir).status().ToString();
}

std::string WriteHereAndDie(const std::string& dir) {
  auto store = OpenRocksDbStore(dir);
  const absl::Status status = store.ok() ? (*store)->Commit({}, {Write::Put("a", "1")}) : store.status();
  std::cout << status.ToString() << std::flush;
  _exit(0);  // the store is never closed
}

TEST(RocksDbStoreTest, ASecondProcessIsToldThatTheDirectoryIsInUse) {
  const TempDir dir;
  const auto store = OpenRocksDbStore(dir.path());
  ASSERT_THAT(store, IsOk());
  const std::string words = RunAgain("open", dir.path());
  EXPECT_THAT(words, HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(words, HasSubstr(dir.path() + " is in use by another coordinator"));
}

TEST(RocksDbStoreTest, ACommitSurvivesTheEndOfItsProcess) {
  const TempDir dir;
  ASSERT_EQ(RunAgain("write", dir.path()), "OK");
  const auto store = OpenRocksDbStore(dir.path());
  ASSERT_THAT(store, IsOk());
  const auto entry = (*store)->Get("a");
  ASSERT_THAT(entry, IsOk());
  ASSERT_TRUE(entry->has_value());
  EXPECT_EQ((*entry)->value, "1");
}

TEST(RocksDbStoreTest, SaysWhichDirectoryCannotBeMade) {
  EXPECT_THAT(OpenRocksDbStore("/dev/null/store"),
              StatusIs(StatusCode::kUnavailable, HasSubstr("/dev/null/store")));
}

}  // namespace
}  // namespace paceline::coordinator

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "open") {
    std::cout << paceline::coordinator::OpenHere(argv[2]);
    return 0;
  }
  if (argc == 3 && std::string(argv[1]) == "write") paceline::coordinator::WriteHereAndDie(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
