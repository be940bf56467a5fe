#include "bench/soak/journal.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::bench {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

class JournalTest : public ::testing::Test {
 protected:
  JournalTest() {
    std::string name = (std::filesystem::temp_directory_path() / "journal-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~JournalTest() override { std::filesystem::remove_all(folder_); }
  std::string Path() const { return (folder_ / "journal").string(); }

  std::filesystem::path folder_;
};

TEST_F(JournalTest, SumsUpAcknowledgedAndUnacknowledgedPushes) {
  const auto journal = Journal::Create(Path());
  ASSERT_THAT(journal, IsOk());
  const uint64_t first = (*journal)->Begin(5);
  (*journal)->Begin(70);
  const uint64_t third = (*journal)->Begin(900);
  (*journal)->Acknowledged(third);
  (*journal)->Acknowledged(first);
  const auto sums = SumsOf(Path());  // while it is open: as after a kill
  ASSERT_THAT(sums, IsOk());
  EXPECT_EQ(sums->acknowledged, 905);
  EXPECT_EQ(sums->unacknowledged, 70);
  EXPECT_EQ(sums->pushes, 3);
}

TEST_F(JournalTest, ALineWithoutItsEndCountsForNothing) {
  std::ofstream(Path()) << "push 1 5\nack 1\npush 2 6\nack 2";
  const auto sums = SumsOf(Path());
  ASSERT_THAT(sums, IsOk());
  EXPECT_EQ(sums->acknowledged, 5);
  EXPECT_EQ(sums->unacknowledged, 6);
}

TEST_F(JournalTest, LinesThatNoWorkerWritesAreErrors) {
  for (const char* line : {"push 1 5\npush 1 5\n", "ack 1\n", "push 1 5\nack 1\nack 1\n", "push 1\n", "\n"}) {
    std::ofstream(Path(), std::ios::trunc) << line;
    EXPECT_THAT(SumsOf(Path()), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("line"))) << line;
  }
}

TEST_F(JournalTest, EachStartWritesItsOwnJournal) {
  const auto first = Journal::Create(Path());
  EXPECT_FALSE(Journal::Create(Path()).ok());
}

}  // namespace
}  // namespace paceline::bench
