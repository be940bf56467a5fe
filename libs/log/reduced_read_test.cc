#include "libs/log/reduced_read.h"

#include <array>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/log/primary.h"
#include "libs/log/testing.h"
#include "libs/wire/partial.h"

namespace paceline::log {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr JobId kReaderJob{1};
constexpr SessionId kReader{7};

class Memory : public RowMemory, public StagingRoom, public RecordSink {
 public:
  bool Admits(uint64_t) override { return true; }
  void Grown(int64_t) override {}
  void RowsUpdated(uint64_t) override {}
};

class NoAcks : public AckSink {
 public:
  void Committed(wire::Mark) override {}
};

// What came of one read.
class Outcome : public ReadSink {
 public:
  void Served(size_t, const wire::Certificate& certificate, const Wait&) override {
    certificates.push_back(certificate);
  }
  void Refused(size_t, v1::Refusal refusal) override { refusals.push_back(std::move(refusal)); }

  table::ReduceQuery query;
  std::array<uint64_t, wire::kReductionKeys> place = {};
  std::string out;
  std::vector<wire::Certificate> certificates;
  std::vector<v1::Refusal> refusals;
};

class ReducedReadTest : public ::testing::Test {
 protected:
  ReducedReadTest() {
    Change(ChangeOf(v1::Change::kOpen, kReader, kReaderJob));
    Change(ChangeOf(v1::Change::kJoin, kReader, kReaderJob));
  }
  void Change(const v1::Change& change) {
    std::string why;
    std::optional<Clock> passed;
    ASSERT_TRUE(primary.Change(change, {}, &why, &passed)) << why;
  }
  void Push(std::vector<std::pair<uint64_t, float>> rows) {
    ASSERT_FALSE(primary.Take({.update = MakeUpdate(kReader, ++pushed, std::move(rows)),
                               .job = kReaderJob,
                               .table = SumTable(kReaderJob),
                               .acks = acks}));
  }
  std::shared_ptr<Outcome> Reduce(const table::ReduceQuery& query, uint64_t cursor, uint64_t epoch,
                                  Clock min_clock = 0, PartNumber own = 0) {
    auto outcome = std::make_shared<Outcome>();
    outcome->query = query;
    outcome->place = {cursor, epoch};
    outcome->out.resize(wire::PartialBytes(query));
    primary.Serve({.session = kReader,
                   .job = kReaderJob,
                   .table = SumTable(kReaderJob),
                   .keys = {reinterpret_cast<const char*>(outcome->place.data()), sizeof(outcome->place)},
                   .reduction = &outcome->query,
                   .out = reinterpret_cast<std::byte*>(outcome->out.data()),
                   .own = own,
                   .min_clock = min_clock,
                   .sink = outcome},
                  absl::UnixEpoch());
    return outcome;
  }
  static wire::PartialRead Read(const Outcome& outcome) {
    const auto read = wire::ReadPartial(outcome.query, outcome.out);
    EXPECT_TRUE(read.ok()) << read.status();
    return *read;
  }

  PartNumber pushed = 0;
  std::shared_ptr<Memory> memory = std::make_shared<Memory>();
  std::shared_ptr<NoAcks> acks = std::make_shared<NoAcks>();
  Primary primary{SegmentId(0), 0, Epoch(3), memory};
};

TEST_F(ReducedReadTest, IsAnsweredWithAPartialResultAtAVersion) {
  Push({{1, 2.0f}, {9, -5.0f}});
  Push({{1, 1.0f}});
  const auto outcome = Reduce({.op = table::ReduceOp::kSum}, 0, 0);
  ASSERT_THAT(outcome->certificates, SizeIs(1));
  EXPECT_EQ(outcome->certificates[0].epoch, Epoch(3));
  EXPECT_EQ(outcome->certificates[0].version, primary.segment().version());
  EXPECT_EQ(outcome->certificates[0].own, 2u);
  EXPECT_EQ(Read(*outcome).partial.Value(table::ReduceOp::kSum), -2);
  EXPECT_EQ(Read(*outcome).partial.rows, 2u);
  EXPECT_FALSE(Read(*outcome).end.more);
}

TEST_F(ReducedReadTest, WaitsAsAnyRead) {
  const auto parked = Reduce({.op = table::ReduceOp::kSum}, 0, 0, /*min_clock=*/1);
  const auto own = Reduce({.op = table::ReduceOp::kRows}, 0, 0, /*min_clock=*/0, /*own=*/1);
  EXPECT_EQ(primary.parked(), 2u);
  Push({{4, 7.0f}});
  ASSERT_THAT(own->certificates, SizeIs(1));
  EXPECT_EQ(Read(*own).partial.rows, 1u);
  EXPECT_THAT(parked->certificates, SizeIs(0));
  primary.Tick(kReader, 1, clock::LineCounts{});
  ASSERT_THAT(parked->certificates, SizeIs(1));
  EXPECT_EQ(parked->certificates[0].min_clock, 1u);
  EXPECT_EQ(Read(*parked).partial.Value(table::ReduceOp::kSum), 7);
}

TEST_F(ReducedReadTest, GoesOnInItsEpochAndBeginsAgainInAnother) {
  std::vector<std::pair<uint64_t, float>> rows;
  for (uint64_t key = 0; key < 40'000; ++key) rows.emplace_back(key, 1.0f);
  Push(std::move(rows));
  const table::ReduceQuery query{.op = table::ReduceOp::kRows, .slice_values = 1'000};
  uint64_t counted = 0;
  uint64_t slices = 0;
  wire::PartialRead first;
  wire::PartialRead last;
  do {
    last = Read(*Reduce(query, last.end.cursor, slices == 0 ? 0 : 3));
    if (slices == 0) first = last;
    counted += last.partial.rows;
    ++slices;
  } while (last.end.more);
  EXPECT_EQ(counted, 40'000u);
  EXPECT_GT(slices, 3u);
  const auto again = Read(*Reduce(query, first.end.cursor, /*epoch=*/2));
  EXPECT_EQ(again.partial.rows, first.partial.rows) << "of another epoch: from the first row";
  EXPECT_EQ(again.end, first.end);
}

TEST_F(ReducedReadTest, AWrongQueryIsRefusedByName) {
  const auto outcome = Reduce({.op = table::ReduceOp::kSum, .column = 1}, 0, 0);
  ASSERT_THAT(outcome->refusals, SizeIs(1));
  EXPECT_EQ(outcome->refusals[0].reason(), v1::Refusal::INVALID);
  EXPECT_THAT(outcome->refusals[0].message(), HasSubstr("table 'sum': column: 1; rows have 1 values"));
}

}  // namespace
}  // namespace paceline::log
