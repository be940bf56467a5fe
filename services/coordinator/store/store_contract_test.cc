// What every store must do, run over each of them.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/store/memory_store.h"
#include "services/coordinator/store/rocksdb_store.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

// Opens the same contents again and again.
using Opener = std::function<absl::StatusOr<std::unique_ptr<Store>>()>;

Opener MemoryOpener() {
  auto disk = std::make_shared<MemoryStore::Disk>();
  return [disk] { return absl::StatusOr<std::unique_ptr<Store>>(MemoryStore::Open(disk)); };
}

Opener RocksDbOpener() {
  auto dir = std::make_shared<TempDir>();
  return [dir] { return OpenRocksDbStore(dir->path() + "/new/store"); };
}

struct Kind {
  std::string name;
  std::function<Opener()> opener;
};

class StoreContract : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    open_ = GetParam().opener();
    Reopen();
  }
  void Reopen() {
    store_.reset();
    absl::StatusOr<std::unique_ptr<Store>> opened = open_();
    ASSERT_THAT(opened, IsOk());
    store_ = *std::move(opened);
  }
  absl::Status Put(const std::string& key, const std::string& value) {
    return store_->Commit({}, {Write::Put(key, value)});
  }
  // The value, or "(absent)".
  std::string ValueOf(const std::string& key) const {
    const auto entry = store_->Get(key);
    EXPECT_THAT(entry, IsOk());
    return entry.ok() && entry->has_value() ? (*entry)->value : "(absent)";
  }
  uint64_t VersionOf(const std::string& key) const {
    const auto entry = store_->Get(key);
    EXPECT_THAT(entry, IsOk());
    return entry.ok() && entry->has_value() ? (*entry)->version : 0;
  }
  std::vector<std::string> KeysOf(const std::string& prefix) const {
    std::vector<std::string> keys;
    const auto entries = store_->List(prefix);
    EXPECT_THAT(entries, IsOk());
    for (const auto& [key, entry] : *entries) keys.push_back(key);
    return keys;
  }

  Opener open_;
  std::unique_ptr<Store> store_;
};

TEST_P(StoreContract, StartsEmpty) {
  EXPECT_EQ(ValueOf("a"), "(absent)");
  EXPECT_THAT(KeysOf(""), IsEmpty());
}

TEST_P(StoreContract, ReadsWhatWasWritten) {
  ASSERT_THAT(store_->Commit({}, {Write::Put("a", "1"), Write::Put("b", "")}), IsOk());
  EXPECT_EQ(ValueOf("a"), "1");
  EXPECT_EQ(ValueOf("b"), "");
}

TEST_P(StoreContract, KeepsAnyBytes) {
  const std::string binary("\0\xff!\n\0", 5);
  ASSERT_THAT(Put(binary, binary), IsOk());
  EXPECT_EQ(ValueOf(binary), binary);
  EXPECT_THAT(KeysOf(binary.substr(0, 2)), ::testing::ElementsAre(binary));
}

TEST_P(StoreContract, DeletesAndDeletesAgain) {
  ASSERT_THAT(Put("a", "1"), IsOk());
  ASSERT_THAT(store_->Commit({}, {Write::Delete("a")}), IsOk());
  EXPECT_EQ(ValueOf("a"), "(absent)");
  EXPECT_THAT(store_->Commit({}, {Write::Delete("a")}), IsOk());
}

TEST_P(StoreContract, ListsOnePrefixInOrder) {
  ASSERT_THAT(store_->Commit({}, {Write::Put("s/2", ""), Write::Put("s/10", ""), Write::Put("s", ""),
                                  Write::Put("s0", ""), Write::Put("r/1", "")}),
              IsOk());
  EXPECT_THAT(KeysOf("s/"), ::testing::ElementsAre("s/10", "s/2"));
  EXPECT_THAT(KeysOf(""), ::testing::SizeIs(5));
  EXPECT_THAT(KeysOf("t"), IsEmpty());
}

TEST_P(StoreContract, VersionsOnlyGrow) {
  ASSERT_THAT(store_->Commit({}, {Write::Put("a", "1"), Write::Put("b", "1")}), IsOk());
  const uint64_t first = VersionOf("a");
  EXPECT_GT(first, 0u);
  EXPECT_EQ(VersionOf("b"), first) << "one commit, one version";
  ASSERT_THAT(Put("a", "1"), IsOk());
  const uint64_t second = VersionOf("a");
  EXPECT_GT(second, first);
  EXPECT_EQ(VersionOf("b"), first);
  ASSERT_THAT(store_->Commit({}, {Write::Delete("a")}), IsOk());
  ASSERT_THAT(Put("a", "1"), IsOk());
  EXPECT_GT(VersionOf("a"), second) << "a key that comes back is not what it was";
}

TEST_P(StoreContract, ConditionsThatHoldLetTheWritesThrough) {
  ASSERT_THAT(Put("term", "3"), IsOk());
  ASSERT_THAT(Put("a", "1"), IsOk());
  EXPECT_THAT(store_->Commit({Condition::ValueIs("term", "3"), Condition::VersionIs("a", VersionOf("a")),
                              Condition::Absent("b")},
                             {Write::Put("b", "2")}),
              IsOk());
  EXPECT_EQ(ValueOf("b"), "2");
}

TEST_P(StoreContract, OneConditionThatFailsStopsAllWrites) {
  ASSERT_THAT(Put("term", "3"), IsOk());
  const std::vector<Write> writes = {Write::Put("x", "1"), Write::Delete("term")};
  for (const Condition& failing :
       {Condition::ValueIs("term", "2"), Condition::Absent("term"), Condition::VersionIs("term", 99)}) {
    EXPECT_THAT(store_->Commit({Condition::Absent("x"), failing}, writes),
                StatusIs(StatusCode::kFailedPrecondition, HasSubstr("key term")));
  }
  EXPECT_THAT(store_->Commit({Condition::ValueIs("missing", "")}, writes),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("key missing")))
      << "an absent key has no value, not even an empty one";
  EXPECT_EQ(ValueOf("x"), "(absent)");
  EXPECT_EQ(ValueOf("term"), "3");
}

TEST_P(StoreContract, OfTwoCommitsUnderTheSameConditionOneWins) {
  ASSERT_THAT(Put("term", "1"), IsOk());
  const Condition mine = Condition::ValueIs("term", "1");
  EXPECT_THAT(store_->Commit({mine}, {Write::Put("term", "2")}), IsOk());
  EXPECT_THAT(store_->Commit({mine}, {Write::Put("term", "2b")}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("key term")));
  EXPECT_EQ(ValueOf("term"), "2");
}

TEST_P(StoreContract, RefusesWhatIsTooLargeOrContradictsItself) {
  EXPECT_THAT(Put("", "1"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Put(std::string(Store::kKeyBytesMax + 1, 'k'), "1"), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Put("a", std::string(Store::kValueBytesMax + 1, 'v')),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("key a")));
  EXPECT_THAT(store_->Commit({}, {Write::Put("a", "1"), Write::Delete("a")}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("twice")));
  std::vector<Write> many;
  for (int i = 0; i < 5; ++i) {
    many.push_back(Write::Put("key" + std::to_string(i), std::string(Store::kValueBytesMax, 'v')));
  }
  EXPECT_THAT(store_->Commit({}, many), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(KeysOf(""), IsEmpty());
}

TEST_P(StoreContract, KeepsEverythingWhenReopened) {
  ASSERT_THAT(store_->Commit({}, {Write::Put("a", "1"), Write::Put("b", "2")}), IsOk());
  ASSERT_THAT(store_->Commit({}, {Write::Delete("b")}), IsOk());
  const uint64_t version = VersionOf("a");
  Reopen();
  EXPECT_EQ(ValueOf("a"), "1");
  EXPECT_EQ(VersionOf("a"), version);
  EXPECT_THAT(KeysOf(""), ::testing::ElementsAre("a"));
  ASSERT_THAT(Put("c", "3"), IsOk());
  EXPECT_GT(VersionOf("c"), version + 1) << "versions go on where they were";
}

TEST_P(StoreContract, IsOpenOnceAtATime) {
  EXPECT_THAT(open_(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("in use by another coordinator")));
  ASSERT_THAT(Put("a", "1"), IsOk()) << "the first is not disturbed";
  Reopen();
}

INSTANTIATE_TEST_SUITE_P(All, StoreContract,
                         ::testing::Values(Kind{"Memory", MemoryOpener}, Kind{"RocksDb", RocksDbOpener}),
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
