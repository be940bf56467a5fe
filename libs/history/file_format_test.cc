#include "libs/history/file_format.h"

#include <vector>

#include "gtest/gtest.h"
#include "libs/history/codec.h"
#include "libs/history/test_util/random_events.h"

namespace paceline::history {
namespace {

using Ending = Reader::Ending;

struct Whole {
  std::vector<Event> events;
  Reader::Ended end;
};

Whole Read(std::string_view bytes) {
  Reader reader(bytes);
  Whole whole;
  while (auto item = reader.Next()) whole.events.push_back(std::move(item->event));
  whole.end = reader.end();
  return whole;
}

// A file of random events in blocks of random sizes, and its events.
struct File {
  std::string bytes;
  std::vector<Event> events;
  std::vector<size_t> ends;           // of its blocks in `bytes`; the first: of the magic
  std::vector<size_t> events_before;  // events up to each of `ends`
};

File RandomFile(uint64_t seed) {
  world::SplitMix64 random(seed);
  File file;
  file.bytes = kMagic;
  const auto mark = [&] {
    file.ends.push_back(file.bytes.size());
    file.events_before.push_back(file.events.size());
  };
  mark();
  const uint64_t blocks = 1 + world::Uniform(random, 6);
  for (uint64_t block = 1; block <= blocks; ++block) {
    std::string payload;
    for (uint64_t i = 1 + world::Uniform(random, 20); i > 0; --i) {
      Event event = testing::RandomEvent(random);
      if (std::holds_alternative<End>(event)) continue;
      Append(event, payload);
      file.events.push_back(std::move(event));
    }
    if (block == blocks) {
      Append(End{}, payload);
      file.events.push_back(End{});
    }
    AppendBlock(block, payload, file.bytes);
    mark();
  }
  return file;
}

TEST(FileFormatTest, ReadsBackWrittenEvents) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    const File file = RandomFile(seed);
    const Whole read = Read(file.bytes);
    EXPECT_TRUE(read.events == file.events);
    EXPECT_EQ(read.end.ending, Ending::kClean);
    EXPECT_EQ(read.end.offset, file.bytes.size());
  }
}

TEST(FileFormatTest, AFileThatIsTornAnywhereIsReadUpToItsLastWholeBlock) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    const File file = RandomFile(seed);
    size_t whole = 0;  // blocks
    for (size_t size = 0; size < file.bytes.size(); ++size) {
      SCOPED_TRACE(size);
      while (whole + 1 < file.ends.size() && file.ends[whole + 1] <= size) ++whole;
      const Whole read = Read(std::string_view(file.bytes).substr(0, size));
      const size_t expected = size < file.ends[0] ? 0 : file.events_before[whole];
      ASSERT_EQ(read.events.size(), expected);
      ASSERT_TRUE(std::equal(read.events.begin(), read.events.end(), file.events.begin()));
      ASSERT_EQ(read.end.ending, size == file.ends[whole] ? Ending::kEarly : Ending::kTorn);
      if (size >= file.ends[0]) {
        ASSERT_EQ(read.end.offset, file.ends[whole]);
      }
    }
  }
}

TEST(FileFormatTest, AFlippedBitIsNeverReadAsAnEventAfterIt) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    const File file = RandomFile(seed);
    world::SplitMix64 random(seed + 1000);
    for (int flip = 0; flip < 100; ++flip) {
      std::string bytes = file.bytes;
      const size_t at = world::Uniform(random, bytes.size());
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << world::Uniform(random, 8));
      const Whole read = Read(bytes);
      ASSERT_LT(read.events.size(), file.events.size());
      ASSERT_TRUE(std::equal(read.events.begin(), read.events.end(), file.events.begin())) << at;
      ASSERT_NE(read.end.ending, Ending::kClean);
    }
  }
}

TEST(FileFormatTest, BytesThatAreNoRecordFileAreNotOne) {
  EXPECT_EQ(Read("hello, world").end.ending, Ending::kBroken);
  EXPECT_EQ(Read("").end.ending, Ending::kTorn);
}

TEST(FileFormatTest, ABlockThatIsMissingIsNoticed) {
  std::string events;
  Append(Ticked{.clock = 1}, events);
  std::string bytes(kMagic);
  AppendBlock(1, events, bytes);
  AppendBlock(3, events, bytes);
  const Whole read = Read(bytes);
  EXPECT_EQ(read.events.size(), 1);
  EXPECT_EQ(read.end.ending, Ending::kBroken);
  EXPECT_EQ(read.end.why, "block 3 follows block 1");
}

}  // namespace
}  // namespace paceline::history
