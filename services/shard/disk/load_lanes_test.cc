#include "services/shard/disk/load_lanes.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"

namespace paceline::shard {
namespace {

using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::HasSubstr;

// Writes down its calls; fails at a record of that LSN.
class Notes final : public engine::Reader {
 public:
  absl::Status OnBase(SegmentId segment, Lsn lsn, absl::string_view bytes) override {
    of[segment].push_back(absl::StrCat("base ", lsn.v, " ", bytes));
    return absl::OkStatus();
  }
  absl::Status OnPage(SegmentId segment, const engine::PageKey& key, absl::string_view bytes) override {
    of[segment].push_back(absl::StrCat("page ", key.start, " ", bytes));
    return absl::OkStatus();
  }
  absl::Status OnRecord(engine::LogEntry entry) override {
    if (entry.lsn == fails_at) return absl::DataLossError("damaged");
    of[entry.segment].push_back(absl::StrCat("record ", entry.lsn.v, " of ", entry.record.size()));
    return absl::OkStatus();
  }

  std::map<SegmentId, std::vector<std::string>> of;
  Lsn fails_at;
};

engine::LogEntry Entry(uint32_t segment, uint64_t lsn, size_t bytes) {
  return {.segment = SegmentId(segment),
          .epoch = Epoch(1),
          .lsn = Lsn(lsn),
          .record = absl::Cord(std::string(bytes, 'r'))};
}

// More than may wait, so that the reading thread waits for the others.
absl::Status Feed(engine::Reader& to) {
  for (uint32_t s = 0; s < 10; ++s) {
    if (auto taken = to.OnBase(SegmentId(s), Lsn(s), absl::StrCat("base of ", s)); !taken.ok()) return taken;
  }
  for (uint64_t p = 0; p < 20; ++p) {
    for (uint32_t s = 0; s < 10; ++s) {
      auto taken = to.OnPage(SegmentId(s), {.table = TableId(1), .start = p}, std::string(1 << 10, 'p'));
      if (!taken.ok()) return taken;
    }
  }
  for (uint64_t lsn = 1; lsn <= 100; ++lsn) {
    for (uint32_t s = 0; s < 10; ++s) {
      auto taken = to.OnRecord(Entry(s, lsn, LoadLanes::kWaitingMax / 64 + s));
      if (!taken.ok()) return taken;
    }
  }
  return absl::OkStatus();
}

TEST(LoadLanesTest, EachSegmentIsLoadedByOneThreadInOrder) {
  Notes alone;
  ASSERT_THAT(Feed(alone), IsOk());
  std::vector<Notes> notes(3);
  LoadLanes lanes({&notes[0], &notes[1], &notes[2]});
  ASSERT_THAT(Feed(lanes), IsOk());
  ASSERT_THAT(lanes.Finish(), IsOk());
  std::map<SegmentId, std::vector<std::string>> all;
  for (Notes& one : notes) {
    EXPECT_FALSE(one.of.empty());
    all.merge(one.of);
    EXPECT_TRUE(one.of.empty()) << "a segment was given to two";
  }
  EXPECT_EQ(all, alone.of);
}

TEST(LoadLanesTest, AnErrorEndsTheReading) {
  std::vector<Notes> notes(2);
  notes[1].fails_at = Lsn(3);
  LoadLanes lanes({&notes[0], &notes[1]});
  // Many more than may wait: somebody who never heard of the error would wait for ever.
  absl::Status fed;
  for (uint64_t lsn = 1; lsn <= 10'000 && fed.ok(); ++lsn) fed = lanes.OnRecord(Entry(1, lsn, 1 << 20));
  EXPECT_THAT(fed, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
  EXPECT_THAT(lanes.Finish(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
  EXPECT_EQ(notes[1].of[SegmentId(1)].size(), 2u);
}

TEST(LoadLanesTest, AnErrorOfTheLastIsFoundAtTheEnd) {
  Notes notes;
  notes.fails_at = Lsn(1);
  LoadLanes lanes({&notes});
  EXPECT_THAT(lanes.OnRecord(Entry(0, 1, 10)), IsOk());
  EXPECT_THAT(lanes.Finish(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
}

}  // namespace
}  // namespace paceline::shard
