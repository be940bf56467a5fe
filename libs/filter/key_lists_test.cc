#include "libs/filter/key_lists.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/crc32c.h"
#include "libs/base/little_endian.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/base/varint.h"
#include "libs/world/random.h"

namespace paceline::filter {
namespace {

using paceline::testing::IsOk;
using ::testing::HasSubstr;

std::string KeysOf(std::initializer_list<uint64_t> keys) {
  std::string bytes(keys.size() * 8, '\0');
  char* to = bytes.data();
  for (const uint64_t key : keys) {
    StoreU64(key, to);
    to += 8;
  }
  return bytes;
}

// One stream: what is sent comes out.
struct Stream {
  explicit Stream(uint64_t bytes_max) : sender(bytes_max), receiver(bytes_max) {}

  // The bytes on the link.
  size_t Send(absl::string_view keys, const LastingMemory& lasting = {}) {
    std::string coded;
    if (!sender.Begin(keys, coded, lasting)) coded.append(keys.data(), keys.size());
    std::string_view in = coded;
    const auto begun = receiver.Begin(in);
    EXPECT_THAT(begun, IsOk());
    if (!begun.ok()) return 0;
    if (begun->named != nullptr) {
      EXPECT_EQ(*begun->named, keys);
      return coded.size();
    }
    EXPECT_EQ(absl::string_view(in.data(), in.size()), keys);
    if (begun->index.has_value()) {
      EXPECT_THAT(receiver.Keep(*begun->index, std::make_shared<const std::string>(in)), IsOk());
    }
    return coded.size();
  }

  KeyListSender sender;
  KeyListReceiver receiver;
};

TEST(KeyListsTest, AListIsNamedFromTheSecondTimeOn) {
  Stream stream(1 << 20);
  const std::string keys(8000, 'k');
  EXPECT_GE(stream.Send(keys), 8000u);
  EXPECT_LE(stream.Send(keys), 10u);
  EXPECT_LE(stream.Send(keys), 10u);
  EXPECT_EQ(stream.receiver.lists(), 1u);
}

LastingMemory Lasting(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {.bytes = *owner, .owner = owner};
}

TEST(KeyListsTest, AListInLastingMemoryIsFoundWithoutALookAtIt) {
  Stream stream(1 << 20);
  LastingMemory memory = Lasting(std::string(8000, 'k'));
  const auto found = [&](absl::string_view keys, const LastingMemory& lasting) {
    const uint64_t before = stream.sender.found_by_place();
    EXPECT_LE(stream.Send(keys, lasting), 10u);
    return stream.sender.found_by_place() > before;
  };
  EXPECT_GE(stream.Send(memory.bytes, memory), 8000u);
  EXPECT_TRUE(found(memory.bytes, memory));
  // Another part of the memory is another list.
  EXPECT_GE(stream.Send(memory.bytes.substr(800, 1600), memory), 1600u);
  EXPECT_TRUE(found(memory.bytes.substr(800, 1600), memory));
  // Also if it begins in the same place, which the stream knows for one of them only.
  EXPECT_GE(stream.Send(memory.bytes.substr(0, 800), memory), 800u);
  EXPECT_TRUE(found(memory.bytes.substr(0, 800), memory));
  EXPECT_FALSE(found(memory.bytes, memory));
  EXPECT_TRUE(found(memory.bytes, memory));
  // Memory that does not last, or does not hold all of the keys.
  EXPECT_FALSE(found(std::string(8000, 'k'), {}));
  EXPECT_FALSE(found(memory.bytes, {.bytes = memory.bytes.substr(8), .owner = memory.owner}));
  // The same keys in other memory, which is known by its place from then on.
  const LastingMemory other = Lasting(std::string(8000, 'k'));
  EXPECT_FALSE(found(other.bytes, other));
  EXPECT_TRUE(found(other.bytes, other));
  EXPECT_EQ(stream.receiver.lists(), 3u);
  const std::weak_ptr<const void> alive = memory.owner;
  memory = {};
  EXPECT_TRUE(alive.expired()) << "whose list it is need not keep it for the stream";
}

// The same address, another owner: what lies there now is not what lay there.
TEST(KeyListsTest, KeysThatTookTheMemoryOfOthersAreNotTakenForThem) {
  Stream stream(1 << 20);
  std::string memory(800, 'a');
  const auto owned = [&] { return LastingMemory{.bytes = memory, .owner = std::make_shared<const int>(0)}; };
  LastingMemory lasting = owned();
  stream.Send(memory, lasting);
  stream.Send(memory, lasting);
  EXPECT_EQ(stream.sender.found_by_place(), 1u);
  lasting = {};
  memory.assign(800, 'b');
  const LastingMemory later = owned();
  EXPECT_GE(stream.Send(memory, later), 800u);  // and Send compares what comes out
  EXPECT_EQ(stream.sender.found_by_place(), 1u);
}

TEST(KeyListsTest, AListThatWentIsNotFoundInItsPlace) {
  Stream stream(4 * ListCost(80));
  world::SplitMix64 random(1);
  std::vector<LastingMemory> lists(8);
  for (LastingMemory& list : lists) {
    std::string keys(80, '\0');
    for (char& byte : keys) byte = static_cast<char>(random.Next());
    list = Lasting(std::move(keys));
  }
  for (int i = 0; i < 2000; ++i) {
    const LastingMemory& list = lists[random.Next() % lists.size()];
    stream.Send(list.bytes, list);
    ASSERT_EQ(stream.receiver.bytes(), stream.sender.bytes());
  }
  EXPECT_GT(stream.sender.found_by_place(), 200u);
}

TEST(KeyListsTest, ANoteIsOfOneListAndItsFirstUse) {
  Stream stream(1 << 20);
  const std::string one = KeysOf({1, 2}), other = KeysOf({3, 4});
  const auto notes_of = [&](const std::string& keys) {
    std::string coded;
    EXPECT_TRUE(stream.sender.Begin(keys, coded));
    std::string_view in = coded;
    return stream.receiver.Begin(in)->notes;
  };
  stream.Send(one);
  stream.Send(other);
  EXPECT_FALSE(notes_of(one)->has_use());
  EXPECT_FALSE(notes_of(one)->GoodFor(""));
  notes_of(one)->Note("a", /*good=*/true);
  EXPECT_TRUE(notes_of(one)->GoodFor("a"));
  EXPECT_FALSE(notes_of(one)->GoodFor("b"));
  EXPECT_FALSE(notes_of(other)->has_use());
  notes_of(other)->Note("a", /*good=*/false);
  EXPECT_FALSE(notes_of(other)->GoodFor("a"));
}

TEST(KeyListsTest, EachStreamBeginsWithoutLists) {
  Stream first(1 << 20);
  const std::string keys(800, 'k');
  first.Send(keys);
  Stream second(1 << 20);
  EXPECT_GE(second.Send(keys), 800u);
}

TEST(KeyListsTest, BothSidesKeepTheSameListsWithinTheBound) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    world::SplitMix64 random(seed);
    const uint64_t bound = 1000 + random.Next() % 20'000;
    Stream stream(bound);
    std::vector<std::string> lists;
    for (int i = 0; i < 40; ++i) {
      std::string keys(8 * (1 + random.Next() % 200), '\0');
      for (size_t at = 0; at < keys.size(); at += 8) StoreU64(random.Next(), keys.data() + at);
      lists.push_back(std::move(keys));
    }
    for (int i = 0; i < 500; ++i) {
      stream.Send(lists[random.Next() % lists.size()]);
      ASSERT_LE(stream.receiver.bytes(), bound);
      ASSERT_EQ(stream.receiver.bytes(), stream.sender.bytes());
      ASSERT_EQ(stream.receiver.lists(), stream.sender.lists());
    }
  }
}

TEST(KeyListsTest, SomeListsOfALongCircleAreFound) {
  constexpr int kLists = 20;
  Stream stream(kLists / 2 * ListCost(800) / 1);
  size_t named = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < kLists; ++i)
      named += stream.Send(std::string(800, static_cast<char>(i))) < 100 ? 1 : 0;
  }
  EXPECT_GE(named, 40u);  // of 400
}

TEST(KeyListsTest, ListsOfOneChecksumAreNeverMixed) {
  // Two keys of one CRC-32C, by the birthdays of some hundred thousand.
  std::map<uint32_t, uint64_t> seen;
  std::string one, other;
  for (uint64_t key = 0; one.empty(); ++key) {
    const uint64_t drawn = key * 0x9e3779b97f4a7c15;
    const auto [place, is_new] = seen.emplace(Crc32c(KeysOf({drawn})), drawn);
    if (is_new) continue;
    one = KeysOf({place->second});
    other = KeysOf({drawn});
  }
  ASSERT_NE(one, other);
  Stream stream(1 << 20);
  for (int i = 0; i < 3; ++i) {
    stream.Send(one);
    stream.Send(other);
  }
  EXPECT_EQ(stream.receiver.lists(), 1u);
}

std::string Varints(std::initializer_list<uint64_t> numbers) {
  std::string out;
  for (const uint64_t number : numbers) AppendVarint(number, out);
  return out;
}

TEST(KeyListsTest, WhatDoesNotFitIsRefused) {
  const auto keys = std::make_shared<const std::string>(KeysOf({1, 2}));
  KeyListReceiver receiver(2 * ListCost(16));
  ASSERT_THAT(receiver.Keep(5, keys), IsOk());
  const auto refused = [&](const std::string& coded) {
    std::string_view in = coded;
    const auto begun = receiver.Begin(in);
    EXPECT_FALSE(begun.ok());
    return std::string(begun.status().message());
  };
  EXPECT_THAT(receiver.Keep(5, keys).message(), HasSubstr("index 5 after 5"));
  EXPECT_THAT(refused(Varints({2, 4}) + "crc!"), HasSubstr("index 4 is not kept"));
  EXPECT_THAT(refused(Varints({2, 5}) + "crc!"), HasSubstr("the checksum differs"));
  EXPECT_THAT(refused(Varints({2, 5}) + "longer"), HasSubstr("nothing follows"));
  EXPECT_THAT(refused(Varints({3})), HasSubstr("form 3"));
  EXPECT_THAT(refused(Varints({0, 1, 6})), HasSubstr("index 6 is dropped, but is not kept"));
  EXPECT_THAT(refused(Varints({1, 65})), HasSubstr("65 are dropped at once"));
  refused("");
  refused(Varints({1, 0}));
  ASSERT_THAT(receiver.Keep(7, keys), IsOk());
  EXPECT_THAT(receiver.Keep(8, keys).message(), HasSubstr("drop others"));
  EXPECT_EQ(receiver.lists(), 2u);
}

TEST(KeyListsTest, ALargeListDoesNotDriveOutTheOthers) {
  Stream stream(4 * ListCost(800));
  stream.Send(std::string(800, 'a'));
  stream.Send(std::string(2000, 'b'));
  EXPECT_LE(stream.Send(std::string(800, 'a')), 10u);
  EXPECT_GE(stream.Send(std::string(2000, 'b')), 2000u);
}

}  // namespace
}  // namespace paceline::filter
