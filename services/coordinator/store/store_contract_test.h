#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "services/coordinator/store/store.h"

// The contract of every store: a test program includes this file and instantiates it for its kinds of store.
namespace paceline::coordinator {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Opens the same content again and again.
using Opener = std::function<absl::StatusOr<std::unique_ptr<Store>>()>;

struct Kind {
  std::string name;
  std::function<Opener()> opener;  // of content that no other store has
  bool shared = false;             // several may be open at a time
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

TEST_P(StoreContract, ReadsItsWrites) {
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

TEST_P(StoreContract, AFailedConditionStopsAllWrites) {
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

TEST_P(StoreContract, RefusesCommitsThatAreTooLargeOrContradictory) {
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
  if (GetParam().shared) GTEST_SKIP() << "it may be open more than once";
  EXPECT_THAT(open_(), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("in use by another coordinator")));
  ASSERT_THAT(Put("a", "1"), IsOk()) << "the first is not disturbed";
  Reopen();
}

TEST_P(StoreContract, SharedOnesSeeEachOthersCommits) {
  if (!GetParam().shared) GTEST_SKIP() << "it is open once at a time";
  const auto other = open_();
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT(Put("a", "1"), IsOk());
  const auto entry = (*other)->Get("a");
  ASSERT_THAT(entry, IsOk());
  ASSERT_TRUE(entry->has_value());
  EXPECT_EQ((*entry)->version, VersionOf("a"));
  ASSERT_THAT((*other)->Commit({Condition::VersionIs("a", VersionOf("a"))}, {Write::Put("a", "2")}), IsOk());
  EXPECT_EQ(ValueOf("a"), "2");
  EXPECT_THAT(store_->Commit({Condition::ValueIs("a", "1")}, {Write::Put("a", "3")}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("key a")));
}

TEST_P(StoreContract, TakesManyWritesAtOnce) {
  std::vector<Write> writes;
  for (int i = 0; i < 5000; ++i) writes.push_back(Write::Put("k/" + std::to_string(i), std::to_string(i)));
  ASSERT_THAT(store_->Commit({Condition::Absent("k/0")}, writes), IsOk());
  EXPECT_THAT(KeysOf("k/"), ::testing::SizeIs(5000));
  EXPECT_EQ(ValueOf("k/4999"), "4999");
  EXPECT_EQ(VersionOf("k/0"), VersionOf("k/4999")) << "one commit, one version";
  EXPECT_THAT(store_->Commit({Condition::Absent("k/0")}, writes),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("key k/0")));
  for (Write& write : writes) write.value.reset();
  writes.pop_back();
  ASSERT_THAT(store_->Commit({}, writes), IsOk());
  EXPECT_THAT(KeysOf("k/"), ::testing::ElementsAre("k/4999"));
}

TEST_P(StoreContract, TakesAValueAsLargeAsAllowed) {
  const std::string large(Store::kValueBytesMax, 'v');
  ASSERT_THAT(Put("large", large), IsOk());
  EXPECT_EQ(ValueOf("large"), large);
}

}  // namespace
}  // namespace paceline::coordinator
