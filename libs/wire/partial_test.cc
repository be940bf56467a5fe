#include "libs/wire/partial.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace paceline::wire {
namespace {

using table::Partial;
using table::ReduceOp;
using table::ReduceQuery;
using table::SliceEnd;

std::string Written(const ReduceQuery& query, const Partial& partial, const SliceEnd& end) {
  std::string bytes(PartialBytes(query), '?');
  WritePartial(query, partial, end, bytes.data());
  return bytes;
}

std::string Why(const ReduceQuery& query, const std::string& bytes) {
  return std::string(ReadPartial(query, bytes).status().message());
}

TEST(Partial, ComesBackAsItWas) {
  const ReduceQuery query{.op = ReduceOp::kTopAbs, .k = 3};
  Partial partial;
  const std::vector<float> row = {1.5f, -7, 0, std::numeric_limits<float>::quiet_NaN(), 2};
  partial.AddRow(query, 99, row);
  const auto read = ReadPartial(query, Written(query, partial, {.more = true, .cursor = 12}));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->end, (SliceEnd{.more = true, .cursor = 12}));
  EXPECT_EQ(read->partial.rows, 1u);
  EXPECT_EQ(read->partial.values, 5u);
  EXPECT_EQ(read->partial.nans, 1u);
  EXPECT_EQ(read->partial.Ordered(query.op), partial.Ordered(query.op));
  EXPECT_EQ(read->partial.Ordered(query.op).front(), (table::TopEntry{.key = 99, .column = 1, .value = -7}));

  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kL2Norm, ReduceOp::kMax, ReduceOp::kMin}) {
    const ReduceQuery other{.op = op};
    Partial of_other;
    of_other.AddRow(other, 1, std::vector<float>{0.1f, -3, 1e-30f, 4e30f});
    const auto back = ReadPartial(other, Written(other, of_other, {}));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->partial.Value(op), of_other.Value(op));
    EXPECT_FALSE(back->end.more);
  }
}

// The test vector of docs/wire.md.
TEST(Partial, HasTheDocumentedLayout) {
  const ReduceQuery query{.op = ReduceOp::kTop, .k = 1};
  Partial partial;
  partial.AddRow(query, 5, std::vector<float>{2});
  const std::string bytes = Written(query, partial, {.more = true, .cursor = 3});
  ASSERT_EQ(bytes.size(), 272u);
  EXPECT_EQ(bytes.substr(0, 4), std::string("\1\0\0\0", 4));
  EXPECT_EQ(bytes.substr(4, 4), std::string("\1\0\0\0", 4));
  EXPECT_EQ(bytes.substr(8, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(16, 16), std::string("\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16)) << "rows, values";
  EXPECT_EQ(bytes.substr(256, 16), std::string("\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40", 16));

  const ReduceQuery sum{.op = ReduceOp::kSum};
  Partial of_sum;
  of_sum.AddRow(sum, 5, std::vector<float>{2});
  const std::string limbs = Written(sum, of_sum, {}).substr(80);
  ASSERT_EQ(limbs.size(), 22u * 8);
  // 2 = 2 * 2^(32 * 11 - 352).
  EXPECT_EQ(limbs.substr(11 * 8, 8), std::string("\2\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(limbs.substr(0, 11 * 8), std::string(11 * 8, '\0'));
}

TEST(Partial, WrongBytesAreRefused) {
  const ReduceQuery query{.op = ReduceOp::kTop, .k = 1};
  Partial partial;
  partial.AddRow(query, 5, std::vector<float>{2});
  const std::string good = Written(query, partial, {});
  const auto with = [&](size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    return bytes;
  };
  EXPECT_EQ(Why(query, good), "");
  EXPECT_EQ(Why(query, good.substr(1)), "partial result: 271 bytes; expected 272");
  EXPECT_EQ(Why({.op = ReduceOp::kSum}, good), "partial result: 272 bytes; expected 256");
  EXPECT_EQ(Why(query, with(0, 2)), "partial result: more: 2; expected 0 or 1");
  EXPECT_EQ(Why(query, with(4, 2)), "partial result: 2 entries; more than asked for");
  EXPECT_EQ(Why(query, with(75, 1)), "partial result: bytes 72 to 79 are not 0");
  EXPECT_EQ(Why(query, with(84, 1)), "partial result: a limb of the sum is out of its range");
  std::string nan = good;
  nan.replace(268, 4, std::string("\0\0\xc0\x7f", 4));
  EXPECT_EQ(Why(query, nan), "partial result: NaN among the entries");
  nan = good;
  nan.replace(64, 4, std::string("\0\0\xc0\x7f", 4));
  EXPECT_EQ(Why(query, nan), "partial result: NaN for a maximum or minimum");
}

TEST(Partial, TheQueryComesBackToo) {
  const ReduceQuery query{
      .op = ReduceOp::kTopAbs, .first = 3, .last = 9, .column = 0, .k = 5, .slice_values = 77};
  const ReduceQuery back = QueryFromProto(ToProto(query));
  EXPECT_EQ(back.op, query.op);
  EXPECT_EQ(back.first, 3u);
  EXPECT_EQ(back.last, 9u);
  EXPECT_EQ(back.column, 0u);
  EXPECT_EQ(back.k, 5u);
  EXPECT_EQ(back.slice_values, 77u);
  EXPECT_FALSE(QueryFromProto(ToProto({})).column.has_value());
  v1::Reduction large;
  large.set_slice_values(UINT32_MAX);
  EXPECT_EQ(QueryFromProto(large).slice_values, ReduceQuery::kSliceValues);
  v1::Reduction unknown;
  unknown.set_op(static_cast<v1::Reduction::Op>(257));
  EXPECT_FALSE(table::CheckQuery({}, QueryFromProto(unknown)).ok());
}

}  // namespace
}  // namespace paceline::wire
