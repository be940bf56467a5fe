#include "libs/history_file/history_file.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/history/file_format.h"

namespace paceline::history {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

class HistoryFileTest : public ::testing::Test {
 protected:
  HistoryFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "file-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~HistoryFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name = "record") const { return (folder_ / name).string(); }

  std::unique_ptr<HistoryFile> Create() const {
    auto file = HistoryFile::Create(Path(), Program::kClient, "w0");
    EXPECT_THAT(file, IsOk());
    return *std::move(file);
  }

  struct Whole {
    std::vector<Event> events;
    Reader::Ended end;
  };
  static Whole Read(const std::string& path) {
    std::ifstream file(path);
    std::stringstream bytes;
    bytes << file.rdbuf();
    const std::string content = bytes.str();
    Reader reader(content);
    Whole whole;
    while (auto item = reader.Next()) whole.events.push_back(std::move(item->event));
    whole.end = reader.end();
    return whole;
  }

  std::filesystem::path folder_;
};

TEST_F(HistoryFileTest, WritesEventsInOrderBetweenStartAndEnd) {
  Create()->Record(Ticked{.clock = 7});
  const Whole read = Read(Path());
  ASSERT_EQ(read.events.size(), 3);
  EXPECT_EQ(std::get<Start>(read.events[0]).name, "w0");
  EXPECT_TRUE(read.events[1] == Event(Ticked{.clock = 7}));
  EXPECT_TRUE(read.events[2] == Event(End{}));
  EXPECT_EQ(read.end.ending, Reader::Ending::kClean);
}

TEST_F(HistoryFileTest, FlushedEventsAreInTheFileWhileWritingGoesOn) {
  const auto history = Create();
  history->Record(Ticked{.clock = 7});
  history->Flush();
  const Whole read = Read(Path());
  EXPECT_EQ(read.events.size(), 2);
  EXPECT_EQ(read.end.ending, Reader::Ending::kEarly);
}

TEST_F(HistoryFileTest, EachStartHasAFileOfItsOwn) {
  const auto first = Create();
  const auto second = Create();
  EXPECT_EQ(first->path(), Path());
  EXPECT_EQ(second->path(), Path() + ".1");
}

TEST_F(HistoryFileTest, AFolderThatIsNotThereIsNamed) {
  EXPECT_THAT(HistoryFile::Create(Path("nowhere/record"), Program::kShard, "s"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere/record")));
}

TEST_F(HistoryFileTest, ThreadsRecordSideBySide) {
  constexpr int kThreads = 4;
  constexpr uint64_t kEach = 20'000;
  {
    const auto history = Create();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 1; i <= kEach; ++i)
          history->Record(Acknowledged{.segment = SegmentId(static_cast<uint32_t>(t)), .number = i});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<PartNumber> last(kThreads);
  for (const Event& event : Read(Path()).events) {
    const auto* ack = std::get_if<Acknowledged>(&event);
    if (ack == nullptr) continue;
    EXPECT_EQ(ack->number, last[ack->segment.v] + 1);
    last[ack->segment.v] = ack->number;
  }
  EXPECT_EQ(last, std::vector<PartNumber>(kThreads, kEach));
}

TEST_F(HistoryFileTest, ACallerThatIsFasterThanTheDiskWaits) {
  const std::string text(1000, 'x');
  constexpr uint64_t kEvents = 20'000;  // 20 MB, five times what is kept
  size_t largest = 0;
  std::atomic<bool> all_recorded = false;
  {
    const auto history = Create();
    history->Flush();
    history->WriteBy([&, first = true](int file, const char* data, size_t size) mutable {
      // The disk stands still until somebody waits for it; all of it is recorded first if nobody does.
      while (first && !history->HoldsUp() && !all_recorded) std::this_thread::yield();
      first = false;
      largest = std::max(largest, size);
      return write(file, data, size);
    });
    for (uint64_t i = 0; i < kEvents; ++i) history->Record(Failed{.code = 0, .why = text});
    all_recorded = true;
  }
  // The events not yet written never exceeded their bound.
  EXPECT_GT(largest, HistoryFile::kBlockBytes);
  EXPECT_LT(largest, HistoryFile::kBufferBytesMax + 2 * text.size());
  EXPECT_EQ(Read(Path()).events.size(), 1 + kEvents + 1);
}

TEST_F(HistoryFileTest, EventsThatAFullDiskRefusesLeaveAGap) {
  {
    const auto history = Create();
    history->Flush();
    history->WriteBy([](int file, const char* data, size_t size) -> ssize_t {
      if (size > 3) return write(file, data, 3);
      errno = ENOSPC;
      return -1;
    });
    history->Record(Ticked{.clock = 1});
    history->Record(Ticked{.clock = 2});
    history->Flush();
    EXPECT_THAT(history->status(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(Path())));
    history->WriteBy([](int file, const char* data, size_t size) { return write(file, data, size); });
    history->Record(Ticked{.clock = 3});
  }
  const Whole read = Read(Path());
  ASSERT_EQ(read.events.size(), 4);
  EXPECT_EQ(std::get<Gap>(read.events[1]).events, 2);
  EXPECT_THAT(std::get<Gap>(read.events[1]).why, HasSubstr("No space left"));
  EXPECT_TRUE(read.events[2] == Event(Ticked{.clock = 3}));
  EXPECT_EQ(read.end.ending, Reader::Ending::kClean);
}

}  // namespace
}  // namespace paceline::history
