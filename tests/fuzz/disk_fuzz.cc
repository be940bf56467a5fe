// The data that a shard finds on its disk: arbitrary bytes behind valid checksums are taken whole, as a state
// that survives a round trip, or refused. So is the mark beside the database.
#include <memory>
#include <optional>

#include "libs/base/crc32c.h"
#include "libs/base/little_endian.h"
#include "libs/base/status.h"
#include "libs/engine/format.h"
#include "libs/engine/synced_mark.h"
#include "libs/log/record_codec.h"
#include "libs/log/segment_image.h"
#include "services/shard/disk/disk_contents.h"
#include "services/shard/disk/folder.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

// The first byte of a frame; then, without checksums, for those are right:
constexpr char kOwner = 'o';   // a note of whose the disk is
constexpr char kStamps = 's';  // … of the stamps of its starts
constexpr char kKnown = 'k';   // … of what its shard was told
constexpr char kHead = 'h';    // a segment (4), and its head
constexpr char kPage = 'p';    // the key of a page (17), and the page
constexpr char kRecord = 'r';  // segment (4), epoch (8), LSN (8), and the record
constexpr char kGroup = 'g';   // a group as it is, checksums included
constexpr char kMark[] =
    "m";  // the first frame: the others are slots of the mark, without magic, checksum, length
constexpr SegmentId kSegment{1};
constexpr int kRingBits = 1;

// Reads the frames as the RocksDB engine reads its families.
class FramesEngine final : public engine::Engine {
 public:
  explicit FramesEngine(std::vector<std::string> frames) : frames_(std::move(frames)) {}

  absl::Status Load(engine::Reader& reader) override {
    for (const char kind : {kHead, kPage, kRecord, kGroup}) {
      for (const std::string& frame : frames_) {
        if (!frame.empty() && frame[0] == kind) ABSL_RETURN_IF_ERROR(Give(frame, reader));
      }
    }
    return absl::OkStatus();
  }
  absl::Status Write(const engine::Batch&) override { return absl::UnavailableError("read only"); }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::StatusOr<std::string> Note(absl::string_view name) const override {
    const char kind = name == shard::NoteOf({}).name       ? kOwner
                      : name == shard::StampsNote({}).name ? kStamps
                      : name == shard::KnownNote({}).name  ? kKnown
                                                           : '\0';
    for (const std::string& frame : frames_) {
      if (kind == '\0' || frame.empty() || frame[0] != kind) continue;
      const std::string checked = engine::Checked(frame.substr(1));  // `note` is a part of it
      ABSL_ASSIGN_OR_RETURN(const absl::string_view note, engine::Unchecked(checked, "note"));
      return std::string(note);
    }
    return absl::NotFoundError("no note");
  }
  absl::StatusOr<engine::Usage> usage() const override { return engine::Usage(); }

 private:
  static absl::Status Give(const std::string& frame, engine::Reader& reader) {
    const absl::string_view bytes = absl::string_view(frame).substr(1);
    switch (frame[0]) {
      case kHead: {
        const auto segment = engine::ParseSegmentKey(bytes.substr(0, std::min<size_t>(4, bytes.size())));
        if (!segment.ok()) return segment.status();
        ABSL_ASSIGN_OR_RETURN(const engine::SegmentHead head,
                              engine::DecodeSegmentHead(engine::Checked(bytes.substr(4))));
        return head.has_base ? reader.OnBase(*segment, head.lsn, head.base) : absl::OkStatus();
      }
      case kPage: {
        const size_t key_bytes = std::min<size_t>(17, bytes.size());
        const auto key = engine::ParsePageKey(bytes.substr(0, key_bytes));
        if (!key.ok()) return key.status();
        return reader.OnPage(key->first, key->second, bytes.substr(key_bytes));
      }
      case kRecord: {
        if (bytes.size() < 20) return absl::OkStatus();
        const engine::LogEntry entry{.segment = SegmentId(LoadU32(bytes.data())),
                                     .epoch = Epoch(LoadU64(&bytes[4])),
                                     .lsn = Lsn(LoadU64(&bytes[12])),
                                     .record = absl::Cord(bytes.substr(20))};
        return engine::ParseGroup(engine::EntryHead(entry) + std::string(entry.record),
                                  [&](engine::LogEntry read) { return reader.OnRecord(std::move(read)); });
      }
      default:
        return engine::ParseGroup(bytes,
                                  [&](engine::LogEntry read) { return reader.OnRecord(std::move(read)); });
    }
  }

  const std::vector<std::string> frames_;
};

std::shared_ptr<const log::TableInfo> SomeTable(uint32_t id, table::Kind kind) {
  log::TableInfo info;
  info.id = TableId(id);
  info.job = JobId(1);
  info.name = "table";
  info.schema.kind = kind;
  info.schema.rows = kind == table::Kind::kRanged ? 40 : 0;
  info.schema.dim = 2;
  info.schema.rule = table::Adagrad{};
  return std::make_shared<const log::TableInfo>(std::move(info));
}

std::string RecordFrame(const log::Segment& segment, const log::Record& record) {
  std::string head(20, '\0');
  StoreU32(segment.id().v, head.data());
  StoreU64(1, &head[4]);
  StoreU64(segment.version().v, &head[12]);
  return kRecord + head + std::string(log::EncodeRecord(record));
}

// As a slot has it, whole.
std::string SlotOf(const std::string& body) {
  std::string checked(4, '\0');
  StoreU32(static_cast<uint32_t>(body.size()), checked.data());
  checked += body;
  std::string slot = "PLMARK1\n";
  slot.resize(slot.size() + 4);
  StoreU32(Crc32c(checked), &slot[8]);
  slot += checked;
  slot.resize(engine::kMarkSlotBytes, '\0');
  return slot;
}

void RunMarks(const std::vector<std::string>& frames) {
  std::string file;
  for (size_t i = 1; i < frames.size(); ++i) file += SlotOf(frames[i]);
  const auto found = engine::NewestMark(file);
  if (!found.ok()) return;
  const auto again = engine::EncodeMark(found->mark);
  if (!again.ok()) return;  // more than a slot has
  std::string same = *again;
  same.resize(2 * engine::kMarkSlotBytes, '\0');
  const auto read = engine::NewestMark(same);
  FUZZ_CHECK(read.ok() && read->mark == found->mark, "a mark that was taken survives a round trip");
}

std::string MarkBody(uint64_t count) {
  const engine::SyncedMark mark = {.count = count,
                                   .position = 4,
                                   .current = true,
                                   .files = {{.name = "000012.log", .bytes = 4711, .crc32c = 1},
                                             {.name = "MANIFEST-000011", .bytes = 300, .crc32c = 7}}};
  return engine::EncodeMark(mark).value().substr(16);
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  log::Segment segment(kSegment, kRingBits);
  std::vector<std::string> frames = {
      kOwner + shard::NoteOf({.cluster = 7, .shard = ShardId(2), .ring_bits = kRingBits}).bytes};
  const auto apply = [&](const log::Record& record) {
    segment.Apply(record);
    frames.push_back(RecordFrame(segment, record));
  };
  apply(log::BeginEpoch{Epoch(1)});
  const auto sparse = SomeTable(4, table::Kind::kSparse);
  apply(log::OpenTable{sparse});
  apply(log::OpenTable{SomeTable(5, table::Kind::kRanged)});
  apply(log::OpenSession{.session = SessionId(7), .job = JobId(1), .closed_floor = {}});
  apply(log::Join{.session = SessionId(7), .start = 0, .rank = 1});
  uint64_t key = 0;
  while (segment.FindTable(TableId(4))->placement.Of(key) != kSegment) ++key;
  apply(log::Load{.table = TableId(4), .keys = {key}, .rows = {1, 2, 3, 4}});
  apply(log::Cut{.id = 3, .job = JobId(1), .clock = 0});
  apply(log::EndLoad{.id = 4, .job = JobId(1), .clock = 5});
  std::vector<Seed> seeds = {{"log", JoinFrames(frames)}};

  std::vector<std::string> based = {frames[0]};
  const engine::SegmentHead head = {.first_group = 1,
                                    .has_base = true,
                                    .lsn = segment.version(),
                                    .base = log::ImageOf(segment).SerializeAsString()};
  based.push_back(kHead + engine::SegmentKey(kSegment) + engine::EncodeSegmentHead(head).substr(4));
  std::vector<v1::PageImage> pages;
  log::PageWalk(segment).Next(segment, 1 << 20, &pages);
  for (const v1::PageImage& page : pages) {
    based.push_back(
        kPage +
        engine::PageKeyBytes(kSegment,
                             {.table = TableId(page.table()), .start = page.start(), .depth = page.depth()}) +
        page.SerializeAsString());
  }
  segment.Apply(log::Advance{.job = JobId(1), .min_clock = 6});
  based.push_back(RecordFrame(segment, log::Advance{.job = JobId(1), .min_clock = 6}));
  v1::DataFolder stamps;
  stamps.mutable_previous()->set_count(3);
  stamps.mutable_newest()->set_count(4);
  v1::Known known;
  known.set_incarnation(4);
  based.push_back(kStamps + shard::StampsNote(stamps).bytes);
  based.push_back(kKnown + shard::KnownNote(known).bytes);
  seeds.push_back({"base", JoinFrames(based)});

  const engine::LogEntry entry{.segment = kSegment,
                               .epoch = Epoch(1),
                               .lsn = Lsn(1),
                               .record = log::EncodeRecord(log::BeginEpoch{Epoch(1)})};
  seeds.push_back(
      {"group", JoinFrames({frames[0], kGroup + engine::EntryHead(entry) + std::string(entry.record)})});
  for (const Seed& seed : seeds) {
    FramesEngine engine(SplitFrames(seed.bytes));
    const auto contents = shard::LoadDisk(engine);
    FUZZ_CHECK(contents.ok() && contents->segments.at(kSegment).found.usable, "seeds are valid");
  }
  seeds.push_back({"mark", JoinFrames({kMark, MarkBody(7), MarkBody(8)})});
  return seeds;
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const std::vector<std::string> frames = fuzz::SplitFrames({reinterpret_cast<const char*>(data), size});
  if (!frames.empty() && frames[0] == kMark) {
    RunMarks(frames);
    return 0;
  }
  FramesEngine engine(frames);
  const auto contents = shard::LoadDisk(engine);
  if (!contents.ok()) return 0;
  for (const auto& [id, segment] : contents->segments) {
    FUZZ_CHECK(segment.state.has_value() == segment.found.usable, "a state is usable");
    if (!segment.state.has_value()) continue;
    const auto again = log::SegmentFromImage(log::ImageOf(*segment.state), id, contents->owner.ring_bits);
    FUZZ_CHECK(again.ok(), "a state that was taken survives a round trip");
  }
  return 0;
}
