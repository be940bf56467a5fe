#include "libs/engine/synced_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "libs/base/crc32c.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::engine {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

SyncedMark SomeMark(uint64_t count) {
  return {.count = count,
          .position = 10 * count,
          .current = true,
          .files = {{.name = "000012.log", .bytes = 4711 + count, .crc32c = 0x01020304},
                    {.name = "MANIFEST-000011", .bytes = 300, .crc32c = 7}}};
}

std::string Slot(std::string bytes) {
  bytes.resize(kMarkSlotBytes, '\0');
  return bytes;
}

std::string Slot(const SyncedMark& mark) {
  return Slot(EncodeMark(mark).value());
}

TEST(SyncedMarkTest, TheNewerOfTwoCounts) {
  for (const auto& file : {Slot(SomeMark(7)) + Slot(SomeMark(8)), Slot(SomeMark(8)) + Slot(SomeMark(7))}) {
    const auto found = NewestMark(file);
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->mark, SomeMark(8));
    EXPECT_EQ(found->slot, file == Slot(SomeMark(8)) + Slot(SomeMark(7)) ? 0 : 1);
    EXPECT_TRUE(found->other_whole);
  }
}

TEST(SyncedMarkTest, TheFirstIsAlone) {
  const auto found = NewestMark(Slot(SomeMark(1)) + Slot(""));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->mark, SomeMark(1));
  EXPECT_TRUE(found->other_empty);
}

TEST(SyncedMarkTest, AnyBitThatIsWrongLeavesTheOtherOne) {
  const std::string bytes = EncodeMark(SomeMark(8)).value();
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto found = NewestMark(Slot(SomeMark(7)) + Slot(damaged));
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->mark, SomeMark(7)) << bit;
    EXPECT_FALSE(found->other_whole);
    EXPECT_FALSE(found->other_empty);
    EXPECT_THAT(NewestMark(Slot(damaged) + Slot("")), StatusIs(StatusCode::kDataLoss)) << bit;
  }
}

TEST(SyncedMarkTest, TornAnywhereItLeavesTheOtherOne) {
  const std::string bytes = EncodeMark(SomeMark(9)).value();
  for (size_t torn = 0; torn < bytes.size(); ++torn) {
    std::string slot = Slot(SomeMark(7));
    slot.replace(0, torn, bytes, 0, torn);
    const auto found = NewestMark(slot + Slot(SomeMark(8)));
    ASSERT_THAT(found, IsOk());
    EXPECT_TRUE(found->mark == SomeMark(8) || found->mark == SomeMark(9)) << torn;
  }
}

TEST(SyncedMarkTest, AFileThatIsCutOrEmptyIsRefused) {
  const std::string file = Slot(SomeMark(7)) + Slot(SomeMark(8));
  EXPECT_THAT(NewestMark(""), StatusIs(StatusCode::kDataLoss, HasSubstr("it has 0 bytes")));
  EXPECT_THAT(NewestMark(file.substr(0, kMarkSlotBytes)), StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(NewestMark(Slot("") + Slot("")), StatusIs(StatusCode::kDataLoss));
}

TEST(SyncedMarkTest, MoreFilesThanThereIsRoomForAreRefused) {
  SyncedMark mark;
  for (int i = 0; i < 1000; ++i) mark.files.push_back({.name = "000012.log"});
  EXPECT_THAT(EncodeMark(mark), StatusIs(StatusCode::kResourceExhausted, HasSubstr("1000 files")));
}

// -- files against it --

class CheckFilesTest : public ::testing::Test {
 protected:
  CheckFilesTest() {
    for (const auto& [name, bytes] : files_) {
      mark_.files.push_back({.name = name, .bytes = 6, .crc32c = Crc32c(bytes.substr(0, 6))});
    }
  }
  absl::Status Check() const {
    return CheckFiles(
        mark_, [this](const std::string& name, uint64_t bytes) -> absl::StatusOr<SyncedMark::File> {
          const auto file = files_.find(name);
          if (file == files_.end()) return absl::NotFoundError(name);
          const std::string prefix = file->second.substr(0, bytes);
          return SyncedMark::File{.name = name, .bytes = prefix.size(), .crc32c = Crc32c(prefix)};
        });
  }
  std::map<std::string, std::string> files_ = {{"1.log", "synced"}, {"2.log", "synced up to here"}};
  SyncedMark mark_;
};

TEST_F(CheckFilesTest, BytesBeyondTheMarkMayBeAnything) {
  EXPECT_THAT(Check(), IsOk());
  files_["2.log"] = "synced";
  EXPECT_THAT(Check(), IsOk());
  files_["2.log"] = "synced ?? ##";
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(CheckFilesTest, DamageBeforeTheMarkIsNamed) {
  for (const std::string name : {"1.log", "2.log"}) {
    const std::string good = files_[name];
    files_[name][3] ^= 4;
    EXPECT_THAT(Check(), StatusIs(StatusCode::kDataLoss, HasSubstr(name + " is damaged")));
    files_[name] = "sync";
    EXPECT_THAT(Check(), StatusIs(StatusCode::kDataLoss, HasSubstr(name + " was cut: it has 4 bytes; 6")));
    files_[name] = "";
    EXPECT_THAT(Check(), StatusIs(StatusCode::kDataLoss, HasSubstr(name + " was cut: it has 0 bytes")));
    files_.erase(name);
    EXPECT_THAT(Check(), StatusIs(StatusCode::kDataLoss, HasSubstr(name + " is missing")));
    files_[name] = good;
  }
}

// -- when it is written --

SyncedMark::File Log(uint64_t bytes) {
  return {.name = "1.log", .bytes = bytes, .crc32c = static_cast<uint32_t>(bytes)};
}

TEST(MarkKeeperTest, IsDueSomeTimeAfterTheFirstSync) {
  MarkKeeper keeper({.count = 4, .files = {}});
  EXPECT_EQ(keeper.Due(), absl::InfiniteFuture());
  keeper.Synced(Log(10), kStart);
  keeper.Synced(Log(20), kStart + absl::Milliseconds(90));
  keeper.Reached(3, kStart + absl::Milliseconds(95));
  EXPECT_EQ(keeper.Due(), kStart + MarkKeeper::kEvery);
  const SyncedMark mark = keeper.Take();
  EXPECT_EQ(mark, (SyncedMark{.count = 5, .position = 3, .files = {Log(20)}}));
  EXPECT_EQ(keeper.Due(), absl::InfiniteFuture());
  keeper.Written(mark);
  EXPECT_EQ(keeper.Take().count, 6u);
}

TEST(MarkKeeperTest, IsDueAtOnceAfterMuch) {
  MarkKeeper keeper({});
  keeper.Synced(Log(MarkKeeper::kEveryBytes - 1), kStart);
  EXPECT_EQ(keeper.Due(), kStart + MarkKeeper::kEvery);
  keeper.Synced(Log(MarkKeeper::kEveryBytes), kStart);
  EXPECT_EQ(keeper.Due(), absl::InfinitePast());
  keeper.Written(keeper.Take());
  keeper.Synced(Log(MarkKeeper::kEveryBytes + 1), kStart);
  EXPECT_EQ(keeper.Due(), kStart + MarkKeeper::kEvery);
}

TEST(MarkKeeperTest, AnUnchangedMarkIsNotWritten) {
  MarkKeeper keeper({});
  keeper.Synced(Log(10), kStart);
  keeper.Reached(1, kStart);
  keeper.HasCurrent(kStart);
  keeper.Written(keeper.Take());
  keeper.Synced(Log(10), kStart);
  keeper.Synced(Log(9), kStart);
  keeper.Reached(1, kStart);
  keeper.HasCurrent(kStart);
  EXPECT_EQ(keeper.Due(), absl::InfiniteFuture());
}

TEST(MarkKeeperTest, ChangesDuringAWriteAreInTheNextMark) {
  MarkKeeper keeper({});
  keeper.Synced(Log(10), kStart);
  const SyncedMark first = keeper.Take();
  keeper.Synced(Log(20), kStart + absl::Milliseconds(1));
  keeper.Written(first);
  EXPECT_EQ(keeper.Due(), kStart + absl::Milliseconds(1) + MarkKeeper::kEvery);
  EXPECT_EQ(keeper.Take().files[0], Log(20));
}

TEST(MarkKeeperTest, AMarkThatCouldNotBeWrittenIsDueAgain) {
  MarkKeeper keeper({.count = 4, .files = {}});
  keeper.Synced(Log(10), kStart);
  EXPECT_EQ(keeper.Take().count, 5u);
  keeper.Failed(kStart + absl::Seconds(1));
  EXPECT_EQ(keeper.Due(), kStart + absl::Seconds(1) + MarkKeeper::kEvery);
  EXPECT_EQ(keeper.Take(), (SyncedMark{.count = 5, .files = {Log(10)}}));
}

// A file may only be deleted once no mark has it, also where one that has it is being written.
TEST(MarkKeeperTest, AFileIsForgottenBeforeItGoes) {
  MarkKeeper keeper({});
  EXPECT_FALSE(keeper.Forget("1.log", kStart));
  EXPECT_EQ(keeper.Due(), absl::InfiniteFuture());
  keeper.Synced(Log(10), kStart);
  const SyncedMark with = keeper.Take();
  EXPECT_TRUE(keeper.Forget("1.log", kStart));
  keeper.Written(with);
  EXPECT_EQ(keeper.Due(), kStart + MarkKeeper::kEvery);
  EXPECT_TRUE(keeper.Take().files.empty());
  keeper.Failed(kStart);
  EXPECT_TRUE(keeper.Forget("1.log", kStart)) << "the disk still has a mark that has it";
  keeper.Written(keeper.Take());
  EXPECT_FALSE(keeper.Forget("1.log", kStart));
}

}  // namespace
}  // namespace paceline::engine
