// Packed tables: each is a whole number of entries or refused, and what was read is what would be written.
#include "libs/wire/packed.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

template <class Entry>
std::string Pack(const std::vector<Entry>& entries) {
  std::string out;
  for (const Entry& entry : entries) wire::Append(entry, out);
  return out;
}

template <class Parse>
void RoundTrip(absl::string_view bytes, size_t entry_bytes, Parse parse) {
  const auto entries = parse(bytes);
  if (bytes.size() % entry_bytes != 0) FUZZ_CHECK(!entries.ok(), "a cut entry is refused");
  if (!entries.ok()) {
    FUZZ_CHECK(absl::IsInvalidArgument(entries.status()), "refusals are INVALID_ARGUMENT");
    return;
  }
  FUZZ_CHECK(entries->size() == bytes.size() / entry_bytes, "every entry is read");
  const auto again = parse(Pack(*entries));
  FUZZ_CHECK(again.ok() && *again == *entries, "entries survive a round trip");
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  using wire::Certificate;
  using wire::Mark;
  using wire::PartEntry;
  using wire::Seal;
  return {{"parts", Pack<PartEntry>({{SegmentId(1), 2, Epoch(3), 4}, {SegmentId(63), 0, Epoch(1), 5}})},
          {"seals", Pack<Seal>({{.segment = SegmentId(0), .run = 64, .line = Line::kArrival, .number = 9}})},
          {"marks", Pack<Mark>({{.segment = SegmentId(7), .line = Line::kAggregated, .number = 1}})},
          {"certificates", Pack<Certificate>({{SegmentId(9), true, Epoch(1), Lsn(2), Lsn(3), 4, 5}})},
          {"segments", Pack<SegmentId>({SegmentId(1), SegmentId(2), SegmentId(3)})}};
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  RoundTrip(bytes, wire::kPartEntryBytes, wire::ParseParts);
  RoundTrip(bytes, wire::kSealBytes, wire::ParseSeals);
  RoundTrip(bytes, wire::kMarkBytes, wire::ParseMarks);
  RoundTrip(bytes, wire::kCertificateBytes, wire::ParseCertificates);
  RoundTrip(bytes, 4, wire::ParseSegments);
  return 0;
}
