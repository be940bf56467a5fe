#include "sdk/cpp/src/range_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "libs/table/admission.h"

namespace paceline::sdk {
namespace {

constexpr uint32_t kDim = 3;
constexpr uint64_t kMostAlone = kCheckedAloneBytes / (kDim * sizeof(float));  // rows

table::Schema Ranged(uint64_t rows) {
  return {.kind = table::Kind::kRanged, .dim = kDim, .rows = rows};
}

// At an odd address, as `rows` rows of values that are all finite.
class Rows {
 public:
  explicit Rows(uint64_t rows) : bytes_(rows * kDim * sizeof(float) + 1) {
    for (uint64_t i = 0; i < rows * kDim; ++i) Set(i, std::numeric_limits<float>::max());
  }
  void Set(uint64_t i, float value) {
    std::memcpy(bytes_.data() + 1 + i * sizeof(float), &value, sizeof(value));
  }
  table::ValueView view() const { return {bytes_.data() + 1, bytes_.size() / sizeof(float)}; }

 private:
  std::vector<char> bytes_;
};

// The same outcome as one thread has, which is handed back.
absl::Status Check(const table::Schema& schema, uint64_t first, uint64_t count, table::ValueView values) {
  const absl::Status status = CheckLargeRange(schema, first, count, values);
  EXPECT_EQ(status, table::CheckRangeUpdate(schema, first, count, values));
  return status;
}

TEST(RangeCheck, TakesFiniteValuesOfAnySize) {
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, kMostAlone, kMostAlone + 1, kMostAlone + 8}) {
    EXPECT_TRUE(Check(Ranged(count + 5), 5, count, Rows(count).view()).ok()) << count;
  }
}

TEST(RangeCheck, FindsValuesThatAreNotFinite) {
  for (const uint64_t count : {kMostAlone, kMostAlone + 1, kMostAlone + 8}) {
    const uint64_t values = count * kDim;
    const uint64_t middle = count / 2 * kDim;
    Rows rows(count);
    for (const uint64_t at :
         {uint64_t{0}, uint64_t{7}, middle - 1, middle, middle + 1, values - 9, values - 2, values - 1}) {
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()}) {
        rows.Set(at, bad);
        const absl::Status status = Check(Ranged(count), 0, count, rows.view());
        EXPECT_NE(std::string(status.message()).find("in row " + std::to_string(at / kDim) + ", column"),
                  std::string::npos)
            << status;
      }
      rows.Set(at, 1.0f);
    }
  }
}

TEST(RangeCheck, NamesTheFirstOfSeveral) {
  Rows rows(kMostAlone + 2);
  rows.Set(1, std::numeric_limits<float>::infinity());
  rows.Set((kMostAlone + 1) * kDim, std::numeric_limits<float>::infinity());
  const absl::Status status = Check(Ranged(kMostAlone + 2), 0, kMostAlone + 2, rows.view());
  EXPECT_NE(std::string(status.message()).find("in row 0, column 1"), std::string::npos) << status;
}

TEST(RangeCheck, RefusesRangesBeyondTheTableOrOfTheWrongWidth) {
  constexpr uint64_t kCount = kMostAlone + 3;
  const Rows rows(kCount);
  EXPECT_TRUE(absl::IsOutOfRange(Check(Ranged(kCount), 1, kCount, rows.view())));
  EXPECT_TRUE(absl::IsOutOfRange(Check(Ranged(kCount), kCount + 1, kCount, rows.view())));
  EXPECT_TRUE(absl::IsOutOfRange(Check(Ranged(kCount), ~uint64_t{0} - kCount / 2, kCount, rows.view())));
  EXPECT_TRUE(absl::IsInvalidArgument(Check(Ranged(2 * kCount), 0, kCount + 1, rows.view())));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Check(Ranged(kCount), 0, kCount, rows.view().subview(0, rows.view().size() - 1))));
}

TEST(RangeCheck, TakesValuesThatAreNotFiniteWhereAllowed) {
  table::Schema schema = Ranged(kMostAlone + 1);
  schema.accept_non_finite = true;
  Rows rows(kMostAlone + 1);
  rows.Set(2, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(Check(schema, 0, kMostAlone + 1, rows.view()).ok());
}

}  // namespace
}  // namespace paceline::sdk
