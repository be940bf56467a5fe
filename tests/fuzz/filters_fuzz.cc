// Filters of the link: whatever a peer sends is refused or becomes no more than the bound; and what is
// encoded comes out as it went in.
#include <algorithm>

#include "libs/filter/coder.h"
#include "libs/filter/filter.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

using filter::Filter;
using filter::FilterSet;

constexpr size_t kBytesMax = 4096;

struct NoClock final : world::Clock {
  absl::Time Now() const override { return absl::UnixEpoch(); }
};
struct NoObserver final : filter::Observer {
  void Filtered(Filter, uint64_t, uint64_t, absl::Duration) override {}
};
const NoClock no_clock;
NoObserver no_observer;

// The first byte has a bit for each filter; FilterSet::Check knows which go together.
FilterSet SetOf(uint8_t bits) {
  FilterSet set;
  for (uint32_t i = 0; i < filter::kFilters; ++i) {
    if ((bits >> i & 1) != 0) set.Add(static_cast<Filter>(i + 1));
  }
  return set;
}

void CheckDecoders(FilterSet filters, size_t stride, absl::string_view frames) {
  filter::KeyDecoder decoder(no_clock, no_observer);
  decoder.Begin(1000);
  for (const std::string& frame : fuzz::SplitFrames({frames.data(), frames.size()})) {
    absl::Cord keys(frame);
    const bool coded = !(filters & FilterSet::OfKeys()).empty();
    if (decoder.Decode(filters, stride, kBytesMax, keys).ok() && coded) {
      FUZZ_CHECK(keys.size() <= std::max(kBytesMax, frame.size()), "keys stay within the bound");
    }
    absl::Cord values(frame);
    if (filter::DecodeValues(filters, kBytesMax, values, no_clock, no_observer).ok()) {
      FUZZ_CHECK(values.size() <= std::max(kBytesMax, frame.size()), "values stay within the bound");
    }
  }
}

void CheckRoundTrip(FilterSet filters, size_t stride, absl::string_view frames) {
  filter::KeyEncoder encoder(no_clock, no_observer);
  filter::KeyDecoder decoder(no_clock, no_observer);
  encoder.Begin(1000);
  decoder.Begin(1000);
  for (std::string frame : fuzz::SplitFrames({frames.data(), frames.size()})) {
    frame.resize(frame.size() / 16 * 16);
    absl::Cord keys(frame), values(frame);
    const FilterSet of_keys = encoder.Encode(filters, stride, keys);
    FUZZ_CHECK(decoder.Decode(of_keys, stride, frame.size(), keys).ok(), "what was encoded is decoded");
    FUZZ_CHECK(keys == frame, "keys survive a round trip");
    const FilterSet of_values = filter::EncodeValues(filters, 4, values, no_clock, no_observer);
    FUZZ_CHECK(filter::DecodeValues(of_values, frame.size(), values, no_clock, no_observer).ok(),
               "what was encoded is decoded");
    FUZZ_CHECK(values == frame, "values survive a round trip");
  }
}

std::string Encoded(FilterSet filters) {
  filter::KeyEncoder encoder(no_clock, no_observer);
  encoder.Begin(1000);
  std::vector<std::string> frames;
  for (int i = 0; i < 3; ++i) {
    absl::Cord keys(std::string(96, static_cast<char>(i / 2)));
    encoder.Encode(filters, 1, keys);
    frames.emplace_back(std::string(keys));
    absl::Cord values(std::string(160, static_cast<char>(i)));
    filter::EncodeValues(filters, 4, values, no_clock, no_observer);
    frames.emplace_back(std::string(values));
  }
  return fuzz::JoinFrames(frames);
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  std::vector<fuzz::Seed> seeds;
  for (const absl::string_view text :
       {"keys", "delta", "lz4", "zstd", "f16", "bf16", "int8", "keys,delta,int8,zstd"}) {
    const FilterSet filters = filter::ParseFilters(text)->push;
    uint8_t bits = 0;
    for (const uint32_t number : filters.Numbers()) bits = static_cast<uint8_t>(bits | 1 << (number - 1));
    seeds.push_back({std::string(text), std::string(1, static_cast<char>(bits)) + Encoded(filters)});
  }
  return seeds;
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  if (size == 0) return 0;
  const FilterSet filters = SetOf(data[0] & 0x7f);
  if (!filters.Check().ok()) return 0;
  const size_t stride = 1 + (data[0] >> 7);
  const absl::string_view frames(reinterpret_cast<const char*>(data) + 1, size - 1);
  CheckDecoders(filters, stride, frames);
  CheckRoundTrip(filters, stride, frames);
  return 0;
}
