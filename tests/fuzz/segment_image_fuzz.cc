// Segments on their way: an image, then pages and records in any order. What is taken makes a segment that
// can be used, hashed and made an image of again.
#include <cstring>

#include "libs/log/record_check.h"
#include "libs/log/record_codec.h"
#include "libs/log/segment_image.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

constexpr SegmentId kSegment{1};
constexpr int kRingBits = 1;

// The first byte of each frame after the image says what it is.
constexpr char kPage = 'p';
constexpr char kRecord = 'r';

void CheckImageOf(const log::Segment& segment) {
  const v1::SegmentImage image = log::ImageOf(segment);
  const auto again = log::SegmentFromImage(image, kSegment, kRingBits);
  FUZZ_CHECK(again.ok(), "an image that was made is taken");
  FUZZ_CHECK(log::ImageOf(*again).SerializeAsString() == image.SerializeAsString(),
             "images survive a round trip");
}

// All pages of a segment make an equal one.
void CheckPagesOf(const log::Segment& segment) {
  auto copy = log::SegmentFromImage(log::ImageOf(segment), kSegment, kRingBits);
  log::PageWalk walk(segment);
  std::vector<v1::PageImage> pages;
  while (walk.Next(segment, 1000, &pages)) {
  }
  for (const v1::PageImage& page : pages) {
    FUZZ_CHECK(log::InstallPage(*copy, page).ok(), "a page that was made is taken");
  }
  FUZZ_CHECK(copy->Hash() == segment.Hash(), "pages survive a round trip");
}

void Take(log::Segment& segment, absl::string_view frame) {
  if (frame.empty()) return;
  const absl::string_view bytes = frame.substr(1);
  if (frame[0] == kPage) {
    v1::PageImage page;
    if (!page.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    const uint64_t before = segment.Hash();
    if (!log::InstallPage(segment, page).ok()) {
      FUZZ_CHECK(segment.Hash() == before, "a page that is refused changes nothing");
    }
    return;
  }
  const auto record = log::DecodeRecord(absl::Cord(bytes));
  if (!record.ok() || !log::CheckApplies(segment, *record).ok()) return;
  segment.Apply(*record);
}

log::Update SomeUpdate(const log::Segment& segment, TableId table, PartNumber number) {
  struct Memory {
    std::vector<uint64_t> keys;
    std::vector<float> values;
  };
  auto memory = std::make_shared<Memory>();
  for (uint64_t key = 0; memory->keys.size() < 3; ++key) {
    if (segment.FindTable(table)->placement.Of(key) == kSegment) memory->keys.push_back(key);
  }
  memory->values.resize(3 * segment.FindTable(table)->info->schema.dim, 0.5f);
  log::Update update;
  update.session = SessionId(7);
  update.number = number;
  update.table = table;
  update.clock = 1;
  update.count = 3;
  update.keys = {reinterpret_cast<const char*>(memory->keys.data()), 3 * sizeof(uint64_t)};
  update.values = {reinterpret_cast<const char*>(memory->values.data()),
                   memory->values.size() * sizeof(float)};
  update.owner = memory;
  return update;
}

std::shared_ptr<const log::TableInfo> SomeTable(uint32_t id, table::Kind kind, uint32_t dim) {
  log::TableInfo info;
  info.id = TableId(id);
  info.job = JobId(1);
  info.name = "table";
  info.schema.kind = kind;
  info.schema.rows = kind == table::Kind::kRanged ? 64 : 0;
  info.schema.dim = dim;
  info.schema.rule = table::Adagrad{};
  return std::make_shared<const log::TableInfo>(std::move(info));
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  log::Segment segment(kSegment, kRingBits);
  segment.Apply(log::BeginEpoch{Epoch(2)});
  segment.Apply(log::OpenTable{SomeTable(4, table::Kind::kSparse, 2)});
  segment.Apply(log::OpenTable{SomeTable(5, table::Kind::kRanged, 16)});
  segment.Apply(log::OpenSession{.session = SessionId(7), .job = JobId(1), .closed_floor = SessionId(3)});
  segment.Apply(log::OpenSession{.session = SessionId(9), .job = JobId(1), .closed_floor = SessionId(3)});
  segment.Apply(log::Join{.session = SessionId(7), .start = 0, .rank = 1});
  segment.Apply(log::Join{.session = SessionId(9), .start = 0, .rank = 2});
  segment.Apply(log::Finish{.session = SessionId(9), .clock = 4});
  segment.Apply(log::Evict{.session = SessionId(12)});
  segment.Apply(log::DropTable{TableId(2)});
  segment.Apply(log::ChangeRule{.table = segment.FindTable(TableId(4))->info,
                                .number = 1,
                                .rule = table::Adagrad{.lr = 0.5f},
                                .clock = 2});
  std::vector<std::string> stream = {log::ImageOf(segment).SerializeAsString()};
  PartNumber number = 0;
  const auto record = [&](const log::Record& of) {
    FUZZ_CHECK(log::CheckApplies(segment, of).ok(), "seeds are valid");
    segment.Apply(of);
    stream.push_back(kRecord + std::string(log::EncodeRecord(of)));
  };
  record(SomeUpdate(segment, TableId(4), ++number));
  std::vector<v1::PageImage> pages;
  log::PageWalk(segment).Next(segment, 1 << 20, &pages);
  for (const v1::PageImage& page : pages) stream.push_back(kPage + page.SerializeAsString());
  std::vector<Seed> seeds = {{"image", JoinFrames({stream[0]})}, {"pages", JoinFrames(stream)}};
  record(log::Advance{.job = JobId(1), .min_clock = 1});
  record(SomeUpdate(segment, TableId(4), ++number));
  record(log::DropTable{TableId(4)});
  seeds.push_back({"stream", JoinFrames(stream)});
  log::Segment other(kSegment, kRingBits);
  other.Apply(log::OpenTable{SomeTable(5, table::Kind::kRanged, 16)});
  other.Apply(log::OpenSession{.session = SessionId(7), .job = JobId(1), .closed_floor = {}});
  std::vector<std::string> blocks = {log::ImageOf(other).SerializeAsString()};
  log::Update update = SomeUpdate(other, TableId(5), 1);
  blocks.push_back(kRecord + std::string(log::EncodeRecord(update)));
  other.Apply(update);
  pages.clear();
  log::PageWalk(other).Next(other, 1 << 20, &pages);
  for (const v1::PageImage& page : pages) blocks.push_back(kPage + page.SerializeAsString());
  seeds.push_back({"blocks", JoinFrames(blocks)});
  return seeds;
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const std::vector<std::string> frames = fuzz::SplitFrames({reinterpret_cast<const char*>(data), size});
  v1::SegmentImage image;
  if (frames.empty() || !image.ParseFromString(frames[0])) return 0;
  auto segment = log::SegmentFromImage(image, kSegment, kRingBits);
  if (!segment.ok()) return 0;
  CheckImageOf(*segment);
  for (size_t i = 1; i < frames.size(); ++i) Take(*segment, frames[i]);
  CheckImageOf(*segment);
  CheckPagesOf(*segment);
  return 0;
}
