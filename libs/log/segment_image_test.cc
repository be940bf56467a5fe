#include "libs/log/segment_image.h"

#include <deque>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/log/record_codec.h"
#include "libs/log/test_util/random_history.h"
#include "libs/log/testing.h"
#include "libs/world/random.h"

namespace paceline::log {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

constexpr SegmentId kSegment = RandomHistory::kSegment;
constexpr int kRingBits = RandomHistory::kRingBits;

absl::StatusOr<Segment> Copy(const Segment& segment) {
  v1::SegmentImage image;  // as it comes off the wire
  EXPECT_TRUE(image.ParseFromString(ImageOf(segment).SerializeAsString()));
  return SegmentFromImage(image, segment.id(), segment.ring_bits());
}

// Installs all pages of a segment that stands still.
void InstallAll(const Segment& from, Segment& to, size_t bytes_max = 1 << 20) {
  PageWalk walk(from);
  std::vector<v1::PageImage> pages;
  while (walk.Next(from, bytes_max, &pages)) {
  }
  for (const v1::PageImage& page : pages) ASSERT_THAT(InstallPage(to, page), IsOk());
}

// A learner on its way: pages and records come to it through one stream, where pages may overtake records.
class Learner {
 public:
  Learner(const Segment& primary, uint64_t seed)
      : random_(seed), segment_(Copy(primary).value()), walk_(primary), handed_(primary.version()) {}

  // The primary makes some more of its pages. False: there are none.
  bool MakePages(const Segment& primary) {
    std::vector<v1::PageImage> pages;
    if (!walk_.Next(primary, size_t{1} << (10 + world::Uniform(random_, 9)), &pages)) return false;
    for (v1::PageImage& page : pages) {
      EXPECT_EQ(page.version(), primary.version().v);
      EXPECT_TRUE(delivered_.emplace(page.table(), page.start()).second) << "a page came twice";
      last_page_ = Lsn(page.version());
      pages_.push_back(std::move(page));
    }
    return true;
  }

  // One message arrives: the next page, or the next record. Records do not overtake pages that are older.
  bool Receive(const std::vector<Record>& log) {
    const bool record = handed_.v < log.size() && (pages_.empty() || pages_.front().version() > handed_.v);
    if (!pages_.empty() && (!record || world::Chance(random_, 0.5))) {
      const uint64_t before = segment_.bytes();
      EXPECT_THAT(InstallPage(segment_, pages_.front()), IsOk());
      bytes_ += segment_.bytes() - before;
      pages_.pop_front();
      ++installed;
      return true;
    }
    if (!record) return false;
    Apply(log[handed_.v]);
    return true;
  }

  void Apply(const Record& record) {
    bytes_ += segment_.Apply(DecodeRecord(EncodeRecord(record)).value()).bytes_grown;
    handed_.v += 1;
  }

  const Segment& segment() const { return segment_; }
  Lsn last_page() const { return last_page_; }
  uint64_t bytes() const { return bytes_; }
  size_t installed = 0;

 private:
  world::SplitMix64 random_;
  Segment segment_;
  PageWalk walk_;
  Lsn handed_;
  uint64_t bytes_ = segment_.bytes();
  Lsn last_page_;
  std::deque<v1::PageImage> pages_;
  std::set<std::pair<uint32_t, uint64_t>> delivered_;
};

TEST(SegmentImageTest, AnImageAndAllPagesMakeAnEqualSegment) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomHistory history(seed);
    for (uint64_t records = seed * 25; records > 0; --records) history.Next();
    auto copy = Copy(history.segment());
    ASSERT_THAT(copy, IsOk());
    EXPECT_EQ(copy->version(), history.segment().version());
    EXPECT_EQ(copy->epoch(), history.segment().epoch());
    InstallAll(history.segment(), *copy);
    EXPECT_EQ(copy->Hash(), history.segment().Hash());
    EXPECT_EQ(copy->rows(), history.segment().rows());
    EXPECT_EQ(ImageOf(*copy).SerializeAsString(), ImageOf(history.segment()).SerializeAsString());
  }
}

// Random histories, a learner that is fed while they go on, in random pieces.
TEST(SegmentImageTest, ALearnerBecomesEqualWhileTheSegmentChanges) {
  size_t changed_meanwhile = 0;
  size_t pages = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    world::SplitMix64 random(seed + 1000);
    RandomHistory history(seed);
    for (uint64_t records = world::Uniform(random, 250); records > 0; --records) history.Next();
    Learner learner(history.segment(), seed);
    const Lsn began = history.segment().version();
    const uint64_t of_pages = 1 + world::Uniform(random, 4);
    for (bool more = true; more;) {
      if (world::Uniform(random, 5) < of_pages) {
        more = learner.MakePages(history.segment());
      } else {
        history.Next();
      }
      while (world::Chance(random, 0.6) && learner.Receive(history.log())) {
      }
    }
    while (learner.Receive(history.log())) {
    }
    ASSERT_GE(learner.segment().version(), learner.last_page());
    ASSERT_EQ(learner.segment().version(), history.segment().version());
    ASSERT_EQ(learner.segment().Hash(), history.segment().Hash());
    for (int more = 0; more < 50; ++more) learner.Apply(history.Next());
    ASSERT_EQ(learner.segment().Hash(), history.segment().Hash()) << "and stays equal";
    ASSERT_EQ(learner.segment().rows(), history.segment().rows());
    // The way to the pages may have grown in other steps.
    ASSERT_NEAR(static_cast<double>(learner.segment().bytes()),
                static_cast<double>(history.segment().bytes()), 1024);
    ASSERT_EQ(learner.segment().bytes(), learner.bytes()) << "as whoever keeps books on it has it";
    ASSERT_EQ(ImageOf(learner.segment()).SerializeAsString(), ImageOf(history.segment()).SerializeAsString());
    changed_meanwhile += learner.last_page() > began ? 1 : 0;
    pages += learner.installed;
  }
  EXPECT_GT(changed_meanwhile, 100u);
  EXPECT_GT(pages, 2000u);
}

// The reference for the test above: it would notice one update that was left out.
TEST(SegmentImageTest, ALearnerThatMissedAnUpdateIsNotEqual) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RandomHistory history(seed);
    for (int records = 0; records < 200; ++records) history.Next();
    Learner learner(history.segment(), seed);
    while (learner.MakePages(history.segment())) {
    }
    while (learner.Receive(history.log())) {
    }
    ASSERT_EQ(learner.segment().Hash(), history.segment().Hash());
    const Update* missed = nullptr;
    while (missed == nullptr) {
      const Record& record = history.Next();
      missed = std::get_if<Update>(&record);
      if (missed != nullptr && missed->count == 0) missed = nullptr;
      if (missed == nullptr) learner.Apply(record);
    }
    // One of zeros in its place: it takes the number, and the sessions and clocks are alike.
    const std::string zeros(missed->values.size(), '\0');
    Update nothing = *missed;
    nothing.values = zeros;
    learner.Apply(nothing);
    ASSERT_NE(learner.segment().Hash(), history.segment().Hash()) << seed;
  }
}

class SumTest : public ::testing::Test {
 protected:
  static constexpr JobId kJob{1};
  static constexpr SessionId kSession{7};

  SumTest() {
    primary.Apply(OpenTable{SumTable(kJob)});
    primary.Apply(OpenSession{.session = kSession, .job = kJob, .closed_floor = SessionId(3)});
    primary.Apply(MakeUpdate(kSession, 1, {{5, 1.0f}}));
  }
  std::vector<v1::PageImage> Pages() {
    std::vector<v1::PageImage> pages;
    PageWalk(primary).Next(primary, 1 << 20, &pages);
    return pages;
  }
  static float Value(const Segment& segment, uint64_t key) {
    float value = -1;
    segment.FindTable(kSumTable)->rows.Read(absl::MakeConstSpan(&key, 1), &value);
    return value;
  }

  Segment primary{SegmentId(0), 0};
};

// A record gave birth to a row that the primary had long had; the page that comes after it, as of that very
// record, has it whole.
TEST_F(SumTest, APageOfTheLastRecordReplacesItsRows) {
  Segment learner = Copy(primary).value();
  const Record update = MakeUpdate(kSession, 2, {{5, 2.0f}});
  primary.Apply(update);
  learner.Apply(update);
  EXPECT_EQ(Value(learner, 5), 2.0f) << "as yet";
  for (const v1::PageImage& page : Pages()) ASSERT_THAT(InstallPage(learner, page), IsOk());
  EXPECT_EQ(Value(learner, 5), 3.0f);
  EXPECT_EQ(learner.Hash(), primary.Hash());
}

TEST_F(SumTest, APageThatRecordsHaveOvertakenIsRefused) {
  Segment learner = Copy(primary).value();
  const std::vector<v1::PageImage> pages = Pages();
  learner.Apply(MakeUpdate(kSession, 2, {{5, 2.0f}}));
  const uint64_t before = learner.Hash();
  EXPECT_THAT(InstallPage(learner, pages.front()),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("has applied record 4")));
  EXPECT_EQ(learner.Hash(), before);
}

// The page knows of a table whose opening the learner has not heard of yet: its rows come by the log.
TEST_F(SumTest, PagesOfTablesThatAreNotHereAreSkipped) {
  Segment learner(SegmentId(0), 0);
  for (const v1::PageImage& page : Pages()) EXPECT_THAT(InstallPage(learner, page), IsOk());
  EXPECT_EQ(learner.rows(), 0u);
  primary.Apply(DropTable{kSumTable});
  EXPECT_TRUE(Pages().empty());
}

TEST_F(SumTest, TablesOpenedWhileTheWalkIsUnderWayAreNotWalked) {
  Segment segment(SegmentId(0), 0);
  PageWalk walk(segment);
  segment.Apply(OpenTable{SumTable(kJob)});
  segment.Apply(OpenSession{.session = kSession, .job = kJob, .closed_floor = {}});
  segment.Apply(MakeUpdate(kSession, 1, {{5, 1.0f}}));
  std::vector<v1::PageImage> pages;
  EXPECT_FALSE(walk.Next(segment, 1 << 20, &pages));
}

TEST_F(SumTest, EachCallMakesAtLeastOnePage) {
  for (uint64_t key = 0; key < 30'000; ++key) {
    primary.Apply(MakeUpdate(kSession, 2 + key, {{key, 1.0f}}));
  }
  PageWalk one_by_one(primary);
  std::vector<v1::PageImage> pages;
  size_t calls = 0;
  for (; one_by_one.Next(primary, 0, &pages); ++calls) EXPECT_EQ(pages.size(), calls + 1);
  EXPECT_GE(pages.size(), 6u);
  PageWalk all_at_once(primary);
  std::vector<v1::PageImage> together;
  EXPECT_TRUE(all_at_once.Next(primary, 1 << 30, &together));
  EXPECT_EQ(together.size(), pages.size());
  EXPECT_FALSE(all_at_once.Next(primary, 1 << 30, &together));
  PageWalk by_two(primary);
  const size_t bytes =
      pages[0].keys().size() + pages[0].rows().size() + pages[1].keys().size() + pages[1].rows().size();
  std::vector<v1::PageImage> two;
  EXPECT_TRUE(by_two.Next(primary, bytes, &two));
  EXPECT_EQ(two.size(), 2u);
}

TEST_F(SumTest, ParsesAPageAsTheMessageDoes) {
  for (const v1::PageImage& page : Pages()) {
    const std::string bytes = page.SerializeAsString();
    const absl::StatusOr<PackedPage> parsed = ParsePage(bytes);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(parsed->table.v, page.table());
    EXPECT_EQ(parsed->start, page.start());
    EXPECT_EQ(parsed->depth, page.depth());
    EXPECT_EQ(parsed->version.v, page.version());
    EXPECT_EQ(parsed->keys, page.keys());
    EXPECT_EQ(parsed->rows, page.rows());
    // Cut anywhere: an error, or a field less, as in the message.
    for (size_t size = 0; size < bytes.size(); size += size < 64 ? 1 : 997) {
      const absl::string_view cut = absl::string_view(bytes).substr(0, size);
      v1::PageImage message;
      EXPECT_EQ(ParsePage(cut).ok(), message.ParseFromArray(cut.data(), static_cast<int>(cut.size())));
    }
  }
}

TEST_F(SumTest, RefusesPagesThatAreNotOfTheTable) {
  Segment learner = Copy(primary).value();
  const v1::PageImage good = Pages().front();
  const uint64_t before = learner.Hash();
  const auto lost = [&](absl::string_view what, auto change) {
    v1::PageImage page = good;
    change(page);
    EXPECT_THAT(InstallPage(learner, page), StatusIs(StatusCode::kDataLoss, HasSubstr(what)));
    EXPECT_EQ(learner.Hash(), before);
  };
  lost("keys", [](v1::PageImage& page) { page.mutable_keys()->pop_back(); });
  lost("rows", [](v1::PageImage& page) { page.mutable_rows()->pop_back(); });
  lost("floats", [](v1::PageImage& page) { page.mutable_rows()->append(4, '\0'); });
  lost("64 bits", [](v1::PageImage& page) { page.set_depth(~uint32_t{0}); });
  lost("range", [](v1::PageImage& page) { page.set_start(1); });
  Segment half(SegmentId(0), 1);
  half.Apply(OpenTable{SumTable(kJob)});
  bool elsewhere = false;
  for (uint64_t key = 0; key < 64; ++key) {
    v1::PageImage page = good;
    page.set_keys(&key, sizeof(key));
    elsewhere = elsewhere || InstallPage(half, page).code() == StatusCode::kDataLoss;
  }
  EXPECT_TRUE(elsewhere) << "some of the keys are of segment 1";
}

TEST_F(SumTest, AnImageIsRefusedByTheFieldThatIsWrong) {
  primary.Apply(Join{.session = kSession, .start = 0, .rank = 0});
  primary.Apply(DropTable{TableId(9)});
  const v1::SegmentImage good = ImageOf(primary);
  ASSERT_THAT(SegmentFromImage(good, SegmentId(0), 0), IsOk());
  EXPECT_THAT(SegmentFromImage(good, SegmentId(1), 0),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("segment")));
  EXPECT_THAT(SegmentFromImage(good, SegmentId(0), 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("ring_bits")));
  const auto wrong = [&](absl::string_view what, auto change) {
    v1::SegmentImage image = good;
    change(image);
    EXPECT_THAT(SegmentFromImage(image, SegmentId(0), 0),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(std::string(what))));
  };
  wrong("ring_bits", [](auto& image) { image.set_ring_bits(77); });
  wrong("sessions", [](auto& image) { *image.add_sessions() = image.sessions(0); });
  wrong("closed", [](auto& image) { image.add_closed(7); });
  wrong("closed", [](auto& image) { image.add_closed(2); });
  wrong("worker", [](auto& image) { image.mutable_jobs(0)->mutable_workers(0)->set_session(99); });
  wrong("worker", [](auto& image) { image.mutable_sessions(0)->set_job(2); });
  wrong("worker", [](auto& image) { image.mutable_sessions(0)->set_finished(true); });
  wrong("jobs", [](auto& image) { *image.add_jobs() = image.jobs(0); });
  wrong("tables", [](auto& image) { *image.add_tables() = image.tables(0); });
  wrong("tables", [](auto& image) { image.mutable_tables(0)->mutable_table()->set_id(9); });
  wrong("rates", [](auto& image) { image.mutable_tables(0)->clear_rules(); });
  wrong("rates", [](auto& image) { *image.mutable_tables(0)->add_rules() = image.tables(0).rules(0); });
  wrong("rule", [](auto& image) {
    image.mutable_tables(0)->mutable_rules(0)->mutable_rule()->mutable_sgd()->set_learning_rate(1);
  });
  wrong("dim", [](auto& image) { image.mutable_tables(0)->mutable_table()->mutable_schema()->set_dim(0); });
  wrong("dropped", [](auto& image) { image.mutable_dropped(0)->set_first(10); });
  wrong("dropped", [](auto& image) { *image.add_dropped() = image.dropped(0); });
  wrong("dropped", [](auto& image) { image.mutable_dropped(0)->set_last(uint64_t{1} << 32); });
}

// Only the primary knows of ticks.
TEST_F(SumTest, TicksAreNotInAnImage) {
  primary.Apply(Join{.session = kSession, .start = 0, .rank = 0});
  const std::string before = ImageOf(primary).SerializeAsString();
  primary.ClockOf(kJob).Tick(kSession, 5, {{1, 0}}, {{1, 0}});
  EXPECT_EQ(ImageOf(primary).SerializeAsString(), before);
  Segment learner = Copy(primary).value();
  EXPECT_EQ(learner.ClockOf(kJob).workers().at(kSession).counted, 0u);
  EXPECT_EQ(primary.ClockOf(kJob).workers().at(kSession).counted, 5u);
}

}  // namespace
}  // namespace paceline::log
