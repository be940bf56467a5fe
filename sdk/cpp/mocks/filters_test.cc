// Filters of the link between the real client and real shards: what arrives is what was sent, in fewer bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libs/base/test_util/status_matchers.h"
#include "paceline/mocks/in_process_cluster.h"

namespace paceline {
namespace {

using ::paceline::mocks::InProcessCluster;
using ::paceline::testing::IsOk;
using ::paceline::testing::IsOkAndHolds;
using ::paceline::testing::StatusIs;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr uint32_t kDim = 2;

class FiltersTest : public ::testing::Test {
 protected:
  FiltersTest() {
    auto cluster = InProcessCluster::Start({.shards = 2});
    EXPECT_THAT(cluster, IsOk());
    cluster_ = *std::move(cluster);
    for (uint64_t i = 0; i < 4000; ++i) keys_.push_back(i * 7);
  }

  std::unique_ptr<Client> NewClient() {
    auto client = cluster_->Connect({.job = "filters", .cache_bytes_max = 0});
    EXPECT_THAT(client, IsOk());
    return *std::move(client);
  }
  Table Open(Client& client, const std::string& name, const std::string& filters) {
    const auto parsed = ParseLinkFilters(filters);
    EXPECT_THAT(parsed, IsOk());
    const auto table = client.OpenOrCreate(
        name, Sparse{.dim = kDim, .rule = Add{}, .consistency = Asp{}, .link_filters = *parsed});
    EXPECT_THAT(table, IsOk());
    return *table;
  }
  std::vector<float> Values(float scale) const {
    std::vector<float> values(keys_.size() * kDim);
    for (size_t i = 0; i < values.size(); ++i) values[i] = scale * static_cast<float>(i % 113);
    return values;
  }

  std::unique_ptr<InProcessCluster> cluster_;
  std::vector<uint64_t> keys_;
};

TEST_F(FiltersTest, WhatIsPushedAndPulledIsTheSameWhateverTheFilters) {
  for (const char* text : {"", "keys", "delta", "lz4", "zstd", "push:f16", "push:bf16", "push:int8",
                           "keys,delta,zstd,push:int8", "keys,delta,lz4,push:f16"}) {
    const auto client = NewClient();
    Table table = Open(*client, std::string("t-") + std::to_string(std::hash<std::string>()(text)), text);
    std::vector<float> expected(keys_.size() * kDim);
    for (const float scale : {1.0f, 0.3f, 0.5f}) {  // integers; rows that lose in fewer bits; halves
      const std::vector<float> values = Values(scale);
      ASSERT_THAT(table.Push(keys_, values), IsOk()) << text;
      for (size_t i = 0; i < values.size(); ++i) expected[i] += values[i];
      EXPECT_THAT(table.Pull(keys_), IsOkAndHolds(ElementsAreArray(expected))) << text;
    }
    const auto both = table.PushPull(keys_, Values(1));
    ASSERT_THAT(both, IsOk());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += Values(1)[i];
    EXPECT_THAT(*both, ElementsAreArray(expected)) << text;
  }
}

// The same calls, with lists that are made once; pushes of one list and pulls of the other share their rows.
TEST_F(FiltersTest, KeyListsDoWhatTheirKeysDo) {
  const std::vector<uint64_t> few = {keys_[5], keys_[3], keys_[5]};
  for (const char* text : {"", "keys", "keys,delta,zstd,push:f16"}) {
    const auto client = NewClient();
    Table table = Open(*client, std::string("l-") + std::to_string(std::hash<std::string>()(text)), text);
    const auto all = table.MakeKeyList(keys_);
    const auto some = table.MakeKeyList(few);
    ASSERT_THAT(all, IsOk());
    ASSERT_THAT(some, IsOk());
    EXPECT_EQ(all->size(), keys_.size());
    std::vector<float> expected(keys_.size() * kDim);
    const auto add = [&](const std::vector<float>& values) {
      for (size_t i = 0; i < values.size(); ++i) expected[i] += values[i];
    };
    for (int again = 0; again < 3; ++again) {
      ASSERT_THAT(table.Push(*all, Values(1)), IsOk()) << text;
      ASSERT_THAT(table.PushAsync(*all, Values(2)).Get(), IsOk());
      add(Values(1));
      add(Values(2));
      EXPECT_THAT(table.Pull(*all), IsOkAndHolds(ElementsAreArray(expected))) << text;
      EXPECT_THAT(table.PullAsync(keys_).Get(), IsOkAndHolds(ElementsAreArray(expected)));
      ASSERT_THAT(table.Push(*some, std::vector<float>(few.size() * kDim, 1)), IsOk());
      for (uint32_t c = 0; c < kDim; ++c) {
        expected[5 * kDim + c] += 2;
        expected[3 * kDim + c] += 1;
      }
      std::vector<float> out(few.size() * kDim);
      ASSERT_THAT(table.Pull(*some, absl::MakeSpan(out)), IsOk());
      EXPECT_EQ(out[2], expected[3 * kDim]);
      EXPECT_EQ(out[5], expected[5 * kDim + 1]);
      add(Values(1));
      EXPECT_THAT(table.PushPull(*all, Values(1)), IsOkAndHolds(ElementsAreArray(expected))) << text;
    }
    const Future<void> before = table.PushAsync(*all, Values(1));
    add(Values(1));
    const auto later = table.PullAsync(*all, PullOptions{.after = before});
    EXPECT_THAT(later.Get(), IsOkAndHolds(ElementsAreArray(expected)));
  }
}

TEST_F(FiltersTest, KeyListsAreOfOneTable) {
  const auto client = NewClient();
  Table one = Open(*client, "one", "keys"), other = Open(*client, "other", "keys");
  const auto list = one.MakeKeyList(keys_);
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(other.Pull(*list), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another table")));
  EXPECT_THAT(other.Push(*list, Values(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'other'")));
  KeyList moved = *list;
  const KeyList taken = std::move(moved);
  EXPECT_THAT(one.PushPull(moved, Values(1)), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(taken.size(), keys_.size());
  EXPECT_THAT(one.Push({0}, {1.0f, 2.0f}), IsOk()) << "keys in braces are keys";
  EXPECT_THAT(one.PushAsync({0, 0}, std::vector<float>(4)).Get(), IsOk());
  EXPECT_THAT(one.Pull({0}), IsOkAndHolds(::testing::ElementsAre(1.0f, 2.0f)));
  EXPECT_THAT(one.Pull({}), IsOk());
  const auto none = one.MakeKeyList({});
  ASSERT_THAT(none, IsOk());
  EXPECT_TRUE(none->empty());
  EXPECT_THAT(one.Push(*none, {}), IsOk());
  EXPECT_THAT(one.Pull(*none), IsOk());
  EXPECT_THAT(one.PushPull(*none, {}), IsOk());
  EXPECT_THAT(one.Push(*list, std::vector<float>(3)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("there are 3 for 4000 keys")));
  std::vector<float> out(3);
  EXPECT_THAT(one.Pull(*list, absl::MakeSpan(out)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("room for 3 floats")));
  const auto opened_again = client->Open("one");
  ASSERT_THAT(opened_again, IsOk());
  EXPECT_THAT(Table(*opened_again).Pull(*list), IsOk()) << "of any handle";
  const auto ranged = client->OpenOrCreate("ranged", Ranged{.rows = 10});
  ASSERT_THAT(ranged, IsOk());
  EXPECT_THAT(ranged->MakeKeyList(std::vector<uint64_t>{3, 10}), StatusIs(absl::StatusCode::kOutOfRange));
}

// Whether a stream finds the list by its place or by its checksum.
TEST_F(FiltersTest, PullsOfAListThatIsKnownSendNoKeys) {
  const auto client = NewClient();
  Table table = Open(*client, "known", "keys");
  const auto list = table.MakeKeyList(keys_);
  ASSERT_THAT(list, IsOk());
  ASSERT_THAT(table.Pull(*list), IsOk());
  const uint64_t before = client->stats().link_bytes_pulled;
  ASSERT_THAT(table.Pull(*list), IsOk());
  EXPECT_LE(client->stats().link_bytes_pulled - before, keys_.size() * kDim * 4 + keys_.size());
}

TEST_F(FiltersTest, NamedListsSaveNearlyHalfOfTheBytesOfRowsOfTwo) {
  const auto bytes_of_later_pushes = [&](const std::string& filters) {
    const auto client = NewClient();
    Table table = Open(*client, "saved", filters);
    EXPECT_THAT(table.Push(keys_, Values(1)), IsOk());
    const uint64_t before = client->stats().link_bytes_pushed;
    for (int i = 0; i < 5; ++i) EXPECT_THAT(table.Push(keys_, Values(1)), IsOk());
    return static_cast<double>(client->stats().link_bytes_pushed - before);
  };
  const double plain = bytes_of_later_pushes("");
  EXPECT_LE(bytes_of_later_pushes("keys") / plain, 0.55);
}

TEST_F(FiltersTest, StatsTellWhatEachFilterDid) {
  const auto client = NewClient();
  Table table = Open(*client, "told", "keys,delta,push:int8");
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(table.Push(keys_, Values(1)), IsOk());
    ASSERT_THAT(table.Pull(keys_), IsOk());
  }
  const Stats stats = client->stats();
  for (const char* name : {"keys", "delta", "int8"}) {
    ASSERT_TRUE(stats.link_push_filters.contains(name)) << name;
    EXPECT_LT(stats.link_push_filters.at(name).bytes_coded, stats.link_push_filters.at(name).bytes_plain)
        << name;
  }
  EXPECT_GE(stats.link_push_filters.at("keys").bytes_plain, 3 * keys_.size() * sizeof(uint64_t));
  EXPECT_TRUE(stats.link_pull_filters.contains("keys"));
  EXPECT_FALSE(stats.link_pull_filters.contains("int8"));
}

TEST_F(FiltersTest, AReaderThatAsksForFewerBitsGetsRoundedValues) {
  const auto client = NewClient();
  Table exact = Open(*client, "rounded", "");
  ASSERT_THAT(exact.Push(keys_, Values(0.3f)), IsOk());
  const std::vector<float> values = *exact.Pull(keys_);
  for (const char* text : {"pull:f16", "pull:bf16", "pull:int8,pull:lz4"}) {
    const auto reader = NewClient();
    const auto rounded = Open(*reader, "rounded", text).Pull(keys_);
    ASSERT_THAT(rounded, IsOk());
    size_t differ = 0;
    for (size_t i = 0; i < values.size(); i += kDim) {
      const float largest = std::max(std::fabs(values[i]), std::fabs(values[i + 1]));
      for (size_t j = i; j < i + kDim; ++j) {
        EXPECT_LE(std::fabs((*rounded)[j] - values[j]), largest / 100) << text;
        differ += (*rounded)[j] != values[j] ? 1 : 0;
      }
    }
    EXPECT_GT(differ, values.size() / 4) << text;
    EXPECT_LT(reader->stats().link_bytes_pulled, 2 * values.size() * sizeof(float)) << text;
  }
  EXPECT_THAT(exact.Pull(keys_),
              IsOkAndHolds(ElementsAreArray(values)));  // the shard's rows are as they were
}

TEST_F(FiltersTest, RangesAreFilteredToo) {
  const auto client = NewClient();
  const auto table =
      client->OpenOrCreate("ranged", Ranged{.rows = 5000,
                                            .dim = kDim,
                                            .rule = Add{},
                                            .consistency = Asp{},
                                            .link_filters = *ParseLinkFilters("keys,delta,zstd")});
  ASSERT_THAT(table, IsOk());
  std::vector<float> values(5000 * kDim, 0.25f);
  for (int i = 0; i < 3; ++i) ASSERT_THAT(Table(*table).PushRange(0, values), IsOk());
  std::vector<float> out(values.size());
  ASSERT_THAT(Table(*table).PullRange(0, absl::MakeSpan(out)), IsOk());
  for (float& value : values) value *= 3;
  EXPECT_EQ(out, values);
}

TEST_F(FiltersTest, AWrongTextIsRefused) {
  EXPECT_THAT(ParseLinkFilters("keys,gzip"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'gzip'")));
}

}  // namespace
}  // namespace paceline
