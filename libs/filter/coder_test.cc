#include "libs/filter/coder.h"

#include <map>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/little_endian.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/world/random.h"

namespace paceline::filter {
namespace {

using paceline::testing::IsOk;

// A clock that goes on by a microsecond whenever somebody looks.
class CountingClock final : public world::Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + absl::Microseconds(++looks_); }

 private:
  mutable int64_t looks_ = 0;
};

class Sums final : public Observer {
 public:
  void Filtered(Filter filter, uint64_t plain, uint64_t coded, absl::Duration took) override {
    EXPECT_GT(took, absl::ZeroDuration());
    plain_bytes[filter] += plain;
    coded_bytes[filter] += coded;
  }
  std::map<Filter, uint64_t> plain_bytes, coded_bytes;
};

// Every combination that a table may ask for.
std::vector<FilterSet> AllSets() {
  std::vector<FilterSet> sets;
  for (uint32_t bits = 0; bits < 1u << kFilters; ++bits) {
    FilterSet set;
    for (uint32_t i = 0; i < kFilters; ++i) {
      if ((bits >> i & 1) != 0) set.Add(static_cast<Filter>(i + 1));
    }
    if (set.Check().ok()) sets.push_back(set);
  }
  return sets;
}

absl::Cord KeysOf(uint64_t seed, size_t words) {
  world::SplitMix64 random(seed);
  std::string bytes(words * 8, '\0');
  for (size_t at = 0; at < bytes.size(); at += 8) StoreU64(random.Next() % 100'000, bytes.data() + at);
  absl::Cord keys(bytes.substr(0, bytes.size() / 2));
  keys.Append(absl::Cord(bytes.substr(bytes.size() / 2)));
  return keys;
}

TEST(CoderTest, FramesComeOutAsTheyWentInWhateverTheFilters) {
  CountingClock clock;
  for (const FilterSet wanted : AllSets()) {
    Sums sent, received;
    KeyEncoder encoder(clock, sent);
    KeyDecoder decoder(clock, received);
    encoder.Begin(20'000);
    decoder.Begin(20'000);
    for (int frame = 0; frame < 30; ++frame) {
      const size_t stride = 1 + frame % 2;
      const absl::Cord plain = KeysOf(static_cast<uint64_t>(frame % 7), (1 + frame % 7) * 20);
      absl::Cord keys = plain;
      const FilterSet applied = encoder.Encode(wanted, stride, keys);
      EXPECT_EQ(applied & wanted & FilterSet::OfKeys(), applied);
      ASSERT_THAT(AppliedOf(applied.Numbers(), wanted), IsOk());
      ASSERT_THAT(decoder.Decode(applied, stride, plain.size(), keys), IsOk());
      ASSERT_EQ(keys, plain);

      std::string bytes(240, '\0');
      for (size_t i = 0; i < bytes.size(); i += 4) {
        StoreF32(static_cast<float>(i % 9) / static_cast<float>(1 + frame % 3), bytes.data() + i);
      }
      absl::Cord values(bytes);
      const FilterSet of_values = EncodeValues(wanted, 3, values, clock, sent);
      EXPECT_EQ(of_values & wanted & FilterSet::OfValues(), of_values);
      ASSERT_THAT(DecodeValues(of_values, bytes.size(), values, clock, received), IsOk());
      ASSERT_EQ(values, bytes);
    }
    if (wanted.Has(Filter::kKeys)) {
      EXPECT_LT(sent.coded_bytes[Filter::kKeys], sent.plain_bytes[Filter::kKeys] / 2);
      EXPECT_LT(received.coded_bytes[Filter::kKeys], received.plain_bytes[Filter::kKeys]);
    }
  }
}

TEST(CoderTest, ANewStreamKnowsNoList) {
  CountingClock clock;
  Sums sums;
  KeyEncoder encoder(clock, sums);
  for (int stream = 0; stream < 3; ++stream) {
    encoder.Begin(1 << 20);
    KeyDecoder decoder(clock, sums);
    decoder.Begin(1 << 20);
    for (int again = 0; again < 3; ++again) {
      absl::Cord keys = KeysOf(1, 100);
      const FilterSet applied = encoder.Encode({Filter::kKeys}, 1, keys);
      EXPECT_EQ(keys.size() > 800, again == 0);
      ASSERT_THAT(decoder.Decode(applied, 1, 800, keys), IsOk());
      ASSERT_EQ(keys, KeysOf(1, 100));
    }
  }
}

TEST(CoderTest, KeysThatDoNotGetShorterGoAsTheyAre) {
  CountingClock clock;
  Sums sums;
  KeyEncoder encoder(clock, sums);
  encoder.Begin(0);
  std::string bytes(800, '\0');
  world::SplitMix64 random(3);
  for (size_t at = 0; at < bytes.size(); at += 8) StoreU64(random.Next(), bytes.data() + at);
  absl::Cord keys(bytes);
  EXPECT_TRUE(encoder.Encode({Filter::kDelta}, 1, keys).empty());
  EXPECT_EQ(keys, bytes);
}

std::string Hex(const absl::Cord& bytes) {
  return absl::BytesToHexString(std::string(bytes));
}

// Those of docs/wire.md.
TEST(CoderTest, TheBytesOfTheWire) {
  CountingClock clock;
  Sums sums;
  std::string plain(24, '\0');
  StoreU64(300, plain.data());
  StoreU64(293, plain.data() + 8);
  StoreU64(293, plain.data() + 16);
  KeyEncoder encoder(clock, sums);
  encoder.Begin(1 << 20);
  const auto keys = [&](FilterSet filters) {
    absl::Cord coded(plain);
    EXPECT_EQ(encoder.Encode(filters, 1, coded) & FilterSet({Filter::kKeys}),
              filters & FilterSet({Filter::kKeys}));
    return Hex(coded);
  };
  EXPECT_EQ(keys({Filter::kDelta}), "d8040d00");
  EXPECT_EQ(keys({Filter::kKeys, Filter::kDelta}), "010000d8040d00");
  EXPECT_EQ(keys({Filter::kKeys, Filter::kDelta}), "02003f87beaf");
  const auto values = [&](Filter filter) {
    std::string row(8, '\0');
    StoreF32(1, row.data());
    StoreF32(-2, row.data() + 4);
    absl::Cord coded(row);
    EXPECT_EQ(EncodeValues({filter}, 2, coded, clock, sums), FilterSet({filter}));
    return Hex(coded);
  };
  EXPECT_EQ(values(Filter::kF16), "020100003c00c0");
  EXPECT_EQ(values(Filter::kInt8), "0201008120c0");
}

TEST(CoderTest, BothSidesCountAFrameAlike) {
  EXPECT_EQ(Weight(1000, 300, 800), 1500u);
  EXPECT_EQ(Weight(1000, 300, 300), 1000u);
  EXPECT_EQ(Weight(1000, 310, 300), 1000u);
}

TEST(CoderTest, AnyBytesGiveAStatus) {
  CountingClock clock;
  Sums sums;
  const std::vector<FilterSet> sets = AllSets();
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    world::SplitMix64 random(seed);
    std::string bytes(random.Next() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.Next() % (seed % 2 == 0 ? 4 : 256));
    const FilterSet applied = sets[seed % sets.size()];
    KeyDecoder decoder(clock, sums);
    decoder.Begin(500);
    for (int again = 0; again < 2; ++again) {
      absl::Cord keys(bytes);
      if (decoder.Decode(applied & FilterSet::OfKeys(), 1, 1000, keys).ok() &&
          !(applied & FilterSet::OfKeys()).empty()) {
        EXPECT_LE(keys.size(), 1000u);
      }
    }
    absl::Cord values(bytes);
    if (DecodeValues(applied, 1000, values, clock, sums).ok()) {
      EXPECT_LE(values.size(), 1000u);
    }
  }
}

}  // namespace
}  // namespace paceline::filter
