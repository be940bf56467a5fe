// History files: whatever the bytes are, they are read up to somewhere, and what was read is what would be
// written.
#include "libs/history/codec.h"
#include "libs/history/file_format.h"
#include "libs/history/test_util/random_events.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {

std::vector<fuzz::Seed> fuzz::Seeds() {
  std::vector<fuzz::Seed> seeds;
  world::SplitMix64 random(1);
  std::string file(history::kMagic);
  std::string all;
  for (size_t i = 0; i < std::variant_size_v<history::Event>; ++i) {
    history::Append(history::testing::RandomEventOf(i, random), all);
    if (i % 5 != 4) continue;
    history::AppendBlock(i / 5 + 1, all, file);
    all.clear();
  }
  seeds.push_back({"file", file});
  std::string events;
  history::Append(history::Pushed{.segment = SegmentId(1), .number = 1}, events);
  history::Append(history::Logged{.numbers = {{SessionId(1), 2}}}, events);
  seeds.push_back({"events", events});
  return seeds;
}

namespace {

// Also what no checksum lets through: the bytes as the events of a block.
void ReadEvents(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t before = bytes.size();
    const auto event = history::TakeEvent(bytes);
    if (!event.ok()) {
      FUZZ_CHECK(absl::IsInvalidArgument(event.status()), "refusals are INVALID_ARGUMENT");
      FUZZ_CHECK(bytes.size() == before, "what is refused is left where it was");
      return;
    }
    FUZZ_CHECK(bytes.size() < before, "every event takes some bytes");
    if (!event->has_value()) continue;
    std::string again;
    history::Append(**event, again);
    std::string_view in = again;
    const auto read = history::TakeEvent(in);
    FUZZ_CHECK(read.ok() && read->has_value() && **read == **event && in.empty(),
               "events survive a round trip");
  }
}

}  // namespace
}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  history::Reader reader(bytes);
  uint64_t last = 0;
  while (const auto item = reader.Next()) {
    FUZZ_CHECK(item->offset > last && item->offset < size, "events lie behind each other in the file");
    last = item->offset;
  }
  FUZZ_CHECK(reader.end().offset <= size, "a file ends where it ends");
  ReadEvents(bytes);
  return 0;
}
