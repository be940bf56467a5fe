#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "libs/log/primary.h"
#include "libs/log/testing.h"

// A primary with two sessions that may become workers, for tests of aggregated tables.
namespace paceline::log {

inline constexpr JobId kJob{1};
inline constexpr SessionId kA{7};
inline constexpr SessionId kB{8};
inline constexpr SessionId kReader{9};

class StagingBudget : public RowMemory, public StagingRoom, public RecordSink {
 public:
  bool Admits(uint64_t more) override { return admits && more <= most; }
  void Grown(int64_t by) override { grown += by; }
  void RowsUpdated(uint64_t by) override { rows += by; }
  bool Stage(uint64_t bytes, bool ahead) override {
    if (staged + bytes > (ahead ? max / 2 : max)) return false;
    staged += bytes;
    return true;
  }
  void Unstage(uint64_t bytes) override { staged -= bytes; }
  uint64_t staging_max() const override { return max; }
  void Applied(const Segment&, const AppliedRecord& applied) override {
    const Record& record = applied.record();
    if (const auto* fold = std::get_if<Fold>(&record)) folds.push_back(*fold);
    if (const auto* finish = std::get_if<log::Finish>(&record)) finishes.push_back(*finish);
    if (const auto* evict = std::get_if<log::Evict>(&record)) evictions.push_back(*evict);
  }
  bool admits = true;
  uint64_t most = UINT64_MAX;
  int64_t grown = 0;
  uint64_t max = 1 << 20;
  uint64_t staged = 0;
  uint64_t rows = 0;
  std::vector<Fold> folds;
  std::vector<log::Finish> finishes;
  std::vector<log::Evict> evictions;
};

class Acks : public AckSink {
 public:
  void Committed(wire::Mark mark) override { marks.emplace_back(mark.line, mark.number); }
  void Wake() override { ++wakes; }
  std::vector<std::pair<Line, PartNumber>> marks;
  int wakes = 0;
};

class Answer : public ReadSink {
 public:
  void Served(size_t, const wire::Certificate& served, const Wait&) override { certificate = served; }
  void Refused(size_t, v1::Refusal) override {}
  std::optional<wire::Certificate> certificate;
};

class FoldTest : public ::testing::Test {
 protected:
  FoldTest() {
    for (const SessionId session : {kA, kB, kReader}) Change(v1::Change::kOpen, session);
  }

  bool Change(v1::Change::ActionCase action, SessionId session, Clock clock = 0, uint32_t rank = 0,
              clock::LineCounts seals = {}) {
    std::optional<Clock> behind;
    why.clear();
    return primary->Change(ChangeOf(action, session, kJob, clock, rank), seals, &why, &behind);
  }
  void JoinBoth(Clock start = 0) {
    ASSERT_TRUE(Change(v1::Change::kJoin, kA, start, 0));
    ASSERT_TRUE(Change(v1::Change::kJoin, kB, start, 1));
  }
  std::optional<v1::Refusal> Push(SessionId session, PartNumber number, Clock clock,
                                  std::vector<std::pair<uint64_t, float>> rows = {{5, 1.0f}}) {
    Update update = MakeUpdate(session, number, std::move(rows), clock);
    update.line = line;
    auto of_table = update.count == 0 ? nullptr : table;
    primary->SetNow(now);
    return primary->Take(
        {.update = std::move(update), .job = kJob, .table = of_table, .acks = acks[session]});
  }
  float Value(uint64_t key) {
    Pull(kA, 0, key);
    return value;
  }
  std::shared_ptr<Answer> Pull(SessionId session, Clock min_clock, uint64_t key) {
    read_key = key;
    auto answer = std::make_shared<Answer>();
    primary->Serve({.session = session,
                    .job = kJob,
                    .table = table,
                    .keys = absl::string_view(reinterpret_cast<const char*>(&read_key), sizeof(read_key)),
                    .out = reinterpret_cast<std::byte*>(&value),
                    .min_clock = min_clock,
                    .sink = answer},
                   absl::UnixEpoch());
    return answer;
  }
  Clock MinClock() const { return primary->segment().jobs().at(kJob).min_clock(); }

  absl::Time now = absl::UnixEpoch();
  uint64_t read_key = 0;
  float value = -1;
  Line line = Line::kAggregated;
  std::shared_ptr<const TableInfo> table = AggregatedTable(kJob);
  std::shared_ptr<StagingBudget> budget = std::make_shared<StagingBudget>();
  std::map<SessionId, std::shared_ptr<Acks>> acks = {
      {kA, std::make_shared<Acks>()}, {kB, std::make_shared<Acks>()}, {kReader, std::make_shared<Acks>()}};
  std::optional<Primary> primary = std::optional<Primary>(std::in_place, SegmentId(0), 0, Epoch(1), budget);
  std::string why;
};

}  // namespace paceline::log
