#include "libs/table/reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "libs/table/test_util.h"
#include "libs/world/random.h"

namespace paceline::table {
namespace {

constexpr TableId kTable(3);
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kL1Norm, ReduceOp::kL2Norm,   ReduceOp::kMaxNorm,
                             ReduceOp::kMax, ReduceOp::kMin,    ReduceOp::kNonZeros, ReduceOp::kRows};

// Values of a table by key, and the answers by going through them one by one, in long double.
class Reference {
 public:
  explicit Reference(uint32_t dim) : dim_(dim) {}
  void Put(uint64_t key, const std::vector<float>& row) { rows_[key] = row; }

  std::vector<TopEntry> All(const ReduceQuery& query) const {
    std::vector<TopEntry> all;
    for (const auto& [key, row] : rows_) {
      if (key < query.first || key > query.last) continue;
      for (uint32_t c = 0; c < dim_; ++c) {
        if (query.column.has_value() && *query.column != c) continue;
        all.push_back({.key = key, .column = c, .value = row[c]});
      }
    }
    return all;
  }
  uint64_t Rows(const ReduceQuery& query) const {
    return static_cast<uint64_t>(std::count_if(rows_.begin(), rows_.end(), [&](const auto& row) {
      return row.first >= query.first && row.first <= query.last;
    }));
  }
  double Value(const ReduceQuery& query) const {
    long double sum = 0;
    long double abs = 0;
    long double squares = 0;
    double max = -kInfinity;
    double min = kInfinity;
    double non_zeros = 0;
    for (const TopEntry& entry : All(query)) {
      sum += entry.value;
      abs += std::fabs(entry.value);
      squares += static_cast<long double>(entry.value) * entry.value;
      max = std::max<double>(max, entry.value);
      min = std::min<double>(min, entry.value);
      non_zeros += entry.value != 0 ? 1 : 0;
    }
    switch (query.op) {
      case ReduceOp::kSum:
        return static_cast<double>(sum);
      case ReduceOp::kL1Norm:
        return static_cast<double>(abs);
      case ReduceOp::kL2Norm:
        return std::sqrt(static_cast<double>(squares));
      case ReduceOp::kMaxNorm:
        return std::max(0.0, std::max(max, -min));
      case ReduceOp::kMax:
        return max;
      case ReduceOp::kMin:
        return min;
      case ReduceOp::kNonZeros:
        return non_zeros;
      default:
        return static_cast<double>(Rows(query));
    }
  }
  std::vector<TopEntry> Top(const ReduceQuery& query) const {
    std::vector<TopEntry> all = All(query);
    std::stable_sort(all.begin(), all.end(), [&](const TopEntry& a, const TopEntry& b) {
      if (query.op == ReduceOp::kTop) return a.value > b.value;
      return std::fabs(a.value) > std::fabs(b.value);
    });
    all.resize(std::min<size_t>(all.size(), query.k));
    return all;
  }

 private:
  uint32_t dim_;
  std::map<uint64_t, std::vector<float>> rows_;
};

// A table's segments.
struct Ring {
  ring::Placement placement;
  std::vector<std::unique_ptr<TableStore>> stores;

  Ring(const Schema& schema, int bits)
      : placement(schema.rows == 0 ? ring::Placement::Sparse(kTable, bits).value()
                                   : ring::Placement::Ranged(kTable, bits, schema.rows, schema.dim).value()) {
    for (uint32_t s = 0; s < placement.SegmentCount(); ++s) {
      stores.push_back(std::make_unique<TableStore>(kTable, schema, bits));
    }
  }
  void Push(uint64_t key, const std::vector<float>& row, uint64_t version) {
    stores[placement.Of(key).v]->Update(std::vector<uint64_t>{key}, row, Lsn(version));
  }
  // All slices of all segments; `amid` is called between slices.
  template <class Amid>
  Partial Reduce(const ReduceQuery& query, Amid amid) const {
    Partial whole;
    for (uint32_t s = 0; s < stores.size(); ++s) {
      SliceEnd end;
      do {
        Partial partial;
        end = ReduceSlice(*stores[s], placement, SegmentId(s), query, end.cursor, &partial);
        whole.Merge(query, partial);
        amid();
      } while (end.more);
    }
    return whole;
  }
  Partial Reduce(const ReduceQuery& query) const {
    return Reduce(query, [] {});
  }
};

void ExpectAnswers(const Ring& ring, const Reference& reference, ReduceQuery query) {
  for (const ReduceOp op : kOps) {
    query.op = op;
    const Partial partial = ring.Reduce(query);
    EXPECT_EQ(partial.rows, reference.Rows(query));
    EXPECT_EQ(partial.values, reference.All(query).size());
    EXPECT_DOUBLE_EQ(partial.Value(op), reference.Value(query)) << "op " << static_cast<int>(op);
  }
  for (const ReduceOp op : {ReduceOp::kTop, ReduceOp::kTopAbs}) {
    for (const uint32_t k : {1u, 7u, 1000u}) {
      query.op = op;
      query.k = k;
      EXPECT_EQ(ring.Reduce(query).Ordered(op), reference.Top(query)) << "k " << k;
    }
  }
}

// Whole eighths: sums of them are exact in the reference too. Some of equal value, some 0.
std::vector<float> SomeRow(world::Random& random, uint32_t dim) {
  std::vector<float> row(dim);
  for (float& value : row) value = (static_cast<float>(world::Uniform(random, 65)) - 32) / 8;
  return row;
}

TEST(Reduction, OfSparseTablesEqualsTheReference) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    world::SplitMix64 random(seed);
    const Schema schema{.dim = static_cast<uint32_t>(1 + world::Uniform(random, 20)), .rule = Assign{}};
    Ring ring(schema, static_cast<int>(world::Uniform(random, 4)));
    Reference reference(schema.dim);
    for (uint64_t i = 1; i <= 3'000; ++i) {
      const uint64_t key = world::Uniform(random, 5'000);
      const std::vector<float> row = SomeRow(random, schema.dim);
      ring.Push(key, row, i);
      reference.Put(key, row);
    }
    for (const uint32_t slice : {1u, 5'000u, ReduceQuery::kSliceValues}) {
      ExpectAnswers(ring, reference, {.slice_values = slice});
      ExpectAnswers(ring, reference, {.first = 100, .last = 999, .slice_values = slice});
      ExpectAnswers(ring, reference, {.column = schema.dim - 1, .slice_values = slice});
    }
  }
}

// With rows that nobody has pushed to: they have their initial values.
TEST(Reduction, OfRangedTablesEqualsTheReference) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    world::SplitMix64 random(seed);
    const Schema schema{.kind = Kind::kRanged,
                        .dim = static_cast<uint32_t>(1 + world::Uniform(random, 100)),
                        .rows = 1 + world::Uniform(random, 700),
                        .init = Constant{0.25f},
                        .rule = Assign{}};
    Ring ring(schema, static_cast<int>(world::Uniform(random, 4)));
    Reference reference(schema.dim);
    for (uint64_t key = 0; key < schema.rows; ++key)
      reference.Put(key, std::vector<float>(schema.dim, 0.25f));
    for (uint64_t i = 1; i <= 20; ++i) {
      const uint64_t key = world::Uniform(random, schema.rows);
      const std::vector<float> row = SomeRow(random, schema.dim);
      ring.Push(key, row, i);
      reference.Put(key, row);
    }
    const uint64_t first = world::Uniform(random, schema.rows);
    const uint64_t last = first + world::Uniform(random, schema.rows - first);
    for (const uint32_t slice : {1u, 5'000u, ReduceQuery::kSliceValues}) {
      ExpectAnswers(ring, reference, {.slice_values = slice});
      ExpectAnswers(ring, reference, {.first = first, .last = last, .slice_values = slice});
      ExpectAnswers(ring, reference, {.column = 0, .slice_values = slice});
    }
  }
}

// Another member has the same rows in other pages and in another order, if it was installed page by page.
TEST(Reduction, IsTheSameToTheBitInACopyOfTheStore) {
  world::SplitMix64 random(5);
  const Schema schema{.dim = 3, .rule = Assign{}};
  Ring ring(schema, 0);
  for (uint64_t i = 1; i <= 20'000; ++i) {
    std::vector<float> row(3);
    for (float& value : row)
      value = static_cast<float>(
          std::ldexp(world::UnitInterval(random) - 0.5, static_cast<int>(world::Uniform(random, 100)) - 50));
    ring.Push(random.Next(), row, i);
  }
  Ring copy(schema, 0);
  std::vector<PageImage> images;
  ring.stores[0]->ForEachPage([&](const Page& page) { images.push_back(page.Image()); });
  ASSERT_GT(images.size(), 3u);
  for (size_t i = images.size(); i > 0; --i) ASSERT_TRUE(copy.stores[0]->Install(images[i - 1]).ok());
  ASSERT_EQ(copy.stores[0]->Hash(), ring.stores[0]->Hash());
  for (const ReduceOp op : kOps) {
    const double value = ring.Reduce({.op = op}).Value(op);
    for (const uint32_t slice : {1u, 9'999u, ReduceQuery::kSliceValues}) {
      const double other = copy.Reduce({.op = op, .slice_values = slice}).Value(op);
      EXPECT_EQ(std::bit_cast<uint64_t>(other), std::bit_cast<uint64_t>(value)) << static_cast<int>(op);
    }
  }
}

// Pages are split between slices, and rows born: each row that was there is counted once.
TEST(Reduction, CountsEachRowOnceThoughPagesSplitMeanwhile) {
  world::SplitMix64 random(6);
  const Schema schema{.dim = 8, .rule = Add{}};
  Ring ring(schema, 0);
  uint64_t version = 0;
  std::set<uint64_t> there;
  for (int i = 0; i < 5'000; ++i) {
    const uint64_t key = random.Next();
    there.insert(key);
    ring.Push(key, {1, 0, 0, 0, 0, 0, 0, 0}, ++version);
  }
  uint64_t born = 0;
  const Partial partial = ring.Reduce({.op = ReduceOp::kSum, .column = 0, .slice_values = 1}, [&] {
    for (int i = 0; i < 200; ++i) {
      ring.Push(random.Next(), {0, 1, 0, 0, 0, 0, 0, 0}, ++version);
      ++born;
    }
  });
  EXPECT_GE(partial.rows, there.size());
  EXPECT_LE(partial.rows, there.size() + born);
  EXPECT_EQ(partial.Value(ReduceOp::kSum), static_cast<double>(there.size())) << "rows born since have a 0";
}

TEST(Reduction, ASliceIsBounded) {
  const Schema schema{.kind = Kind::kRanged, .dim = 1, .rows = 1'000'000, .rule = Add{}};
  const Ring ring(schema, 2);
  Partial partial;
  const SliceEnd end = ReduceSlice(*ring.stores[1], ring.placement, SegmentId(1),
                                   {.op = ReduceOp::kRows, .slice_values = 20'000}, 0, &partial);
  EXPECT_TRUE(end.more);
  EXPECT_GE(partial.rows, 20'000u);
  EXPECT_LT(partial.rows, 20'000u + ring.placement.RowsPerBlock());
  Partial none;
  EXPECT_EQ(ReduceSlice(*ring.stores[1], ring.placement, SegmentId(1), {}, UINT64_MAX, &none), SliceEnd());
  EXPECT_EQ(none.rows, 0u);
}

TEST(Reduction, OfValuesThatAreNotFinite) {
  const auto of = [](ReduceOp op, const std::vector<float>& values) {
    Partial partial;
    partial.AddRow({.op = op, .k = 2}, 7, values);
    return partial;
  };
  EXPECT_EQ(of(ReduceOp::kSum, {1, kInfinity}).Value(ReduceOp::kSum), kInfinity);
  EXPECT_EQ(of(ReduceOp::kSum, {1, -kInfinity}).Value(ReduceOp::kSum), -kInfinity);
  EXPECT_TRUE(std::isnan(of(ReduceOp::kSum, {kInfinity, -kInfinity}).Value(ReduceOp::kSum)));
  EXPECT_EQ(of(ReduceOp::kL2Norm, {kInfinity, -kInfinity}).Value(ReduceOp::kL2Norm), kInfinity);
  EXPECT_EQ(of(ReduceOp::kMaxNorm, {1, -kInfinity}).Value(ReduceOp::kMaxNorm), kInfinity);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kL1Norm, ReduceOp::kL2Norm, ReduceOp::kMaxNorm,
                            ReduceOp::kMax, ReduceOp::kMin}) {
    EXPECT_TRUE(std::isnan(of(op, {1, kNan, 2}).Value(op))) << static_cast<int>(op);
  }
  EXPECT_EQ(of(ReduceOp::kNonZeros, {0, kNan, -0.0f, 2}).Value(ReduceOp::kNonZeros), 2);
  const Partial top = of(ReduceOp::kTop, {1, kNan, 3, 2});
  EXPECT_EQ(top.Ordered(ReduceOp::kTop), (std::vector<TopEntry>{{.key = 7, .column = 2, .value = 3},
                                                                {.key = 7, .column = 3, .value = 2}}));
  // −0 and 0 are one value, whichever comes first.
  EXPECT_FALSE(std::signbit(of(ReduceOp::kMax, {-0.0f, -1}).Value(ReduceOp::kMax)));
  EXPECT_FALSE(std::signbit(of(ReduceOp::kMin, {-0.0f, 1}).Value(ReduceOp::kMin)));
}

TEST(Reduction, OfNothing) {
  const Partial none;
  EXPECT_EQ(none.Value(ReduceOp::kSum), 0);
  EXPECT_EQ(none.Value(ReduceOp::kL2Norm), 0);
  EXPECT_EQ(none.Value(ReduceOp::kMaxNorm), 0);
  EXPECT_EQ(none.Value(ReduceOp::kMax), -kInfinity);
  EXPECT_EQ(none.Value(ReduceOp::kMin), kInfinity);
  EXPECT_TRUE(none.Ordered(ReduceOp::kTop).empty());
}

TEST(Reduction, WrongQueriesAreRefusedByName) {
  const Schema sparse{.dim = 3};
  const Schema ranged{.kind = Kind::kRanged, .dim = 3, .rows = 100};
  const auto why = [](const Schema& schema, const ReduceQuery& query) {
    return std::string(CheckQuery(schema, query).message());
  };
  EXPECT_EQ(why(sparse, {}), "");
  EXPECT_EQ(why(ranged, {}), "");
  EXPECT_EQ(why(ranged, {.first = 99, .last = 99}), "");
  EXPECT_EQ(why(sparse, {.op = static_cast<ReduceOp>(0)}), "reduction: op 0 is not known; expected 1 to 10");
  EXPECT_EQ(why(sparse, {.op = static_cast<ReduceOp>(11)}),
            "reduction: op 11 is not known; expected 1 to 10");
  EXPECT_EQ(why(sparse, {.op = ReduceOp::kTop}), "k: 0; expected 1 to 1024");
  EXPECT_EQ(why(sparse, {.op = ReduceOp::kTopAbs, .k = 1025}), "k: 1025; expected 1 to 1024");
  EXPECT_EQ(why(sparse, {.column = 3}), "column: 3; rows have 3 values, 0 to 2");
  EXPECT_EQ(why(sparse, {.first = 2, .last = 1}), "range: from key 2 to 1; expected at least one key");
  EXPECT_EQ(why(ranged, {.first = 100}),
            "range: keys 100 to 18446744073709551615; the table has keys 0 to 99");
  EXPECT_EQ(why(ranged, {.first = 5, .last = 100}), "range: keys 5 to 100; the table has keys 0 to 99");
}

}  // namespace
}  // namespace paceline::table
