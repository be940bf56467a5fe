#pragma once

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/history/codec.h"
#include "libs/history/file_format.h"
#include "tools/verify/verifier.h"

namespace paceline::verify {

using Events = std::vector<history::Event>;

inline constexpr SegmentId kSegment(3);
inline constexpr JobId kJob(1);
inline constexpr SessionId kSession(5);
inline constexpr TableId kTable(2);

inline std::string FileOf(const Events& events) {
  std::string block;
  for (const history::Event& event : events) history::Append(event, block);
  std::string file(history::kMagic);
  history::AppendBlock(1, block, file);
  return file;
}

// The histories of a client and the members of one segment without any violation, for tests to modify.
//
// Epoch 1: shard 0 is primary, shard 1 its replica. The client pushes parts 1 and 2 in clock 0, which are
// acknowledged, ticks, and reads. Epoch 2 begins at record 6 with shard 1 as primary; part 3 is pushed there.
struct Histories {
  static history::Logged Record(uint64_t epoch, uint64_t lsn, history::RecordKind kind, Clock min_clock = 0) {
    return {.segment = kSegment,
            .epoch = Epoch(epoch),
            .lsn = Lsn(lsn),
            .kind = kind,
            .hash = static_cast<uint32_t>(100 * epoch + lsn),
            .job = kind == history::RecordKind::kBeginEpoch ? JobId() : kJob,
            .min_clock = min_clock};
  }
  static history::Logged Session(uint64_t epoch, uint64_t lsn, history::RecordKind kind) {
    history::Logged record = Record(epoch, lsn, kind);
    record.session = kSession;
    return record;
  }
  static history::Logged Part(uint64_t epoch, uint64_t lsn, PartNumber number, Clock min_clock = 0) {
    history::Logged record = Record(epoch, lsn, history::RecordKind::kUpdate, min_clock);
    record.session = kSession;
    record.number = number;
    record.table = kTable;
    record.count = 1;
    record.content = ContentOf(number);
    return record;
  }
  static uint32_t ContentOf(PartNumber number) { return static_cast<uint32_t>(7000 + number); }
  static history::Pushed Push(PartNumber number, Clock clock) {
    return {.segment = kSegment,
            .number = number,
            .clock = clock,
            .table = kTable,
            .count = 1,
            .content = ContentOf(number)};
  }
  static history::Acknowledged Ack(PartNumber number) { return {.segment = kSegment, .number = number}; }
  static history::Certified Certificate(uint64_t read, uint64_t epoch, uint64_t version, Clock min_clock,
                                        PartNumber own) {
    return {.read = read,
            .segment = kSegment,
            .epoch = Epoch(epoch),
            .began = Lsn(epoch == 1 ? 0 : 6),
            .version = Lsn(version),
            .min_clock = min_clock,
            .own = own,
            .rows = 1};
  }
  static history::RoleTaken Primary(uint64_t epoch, uint64_t began) {
    return {.segment = kSegment, .epoch = Epoch(epoch), .role = history::Role::kPrimary, .lsn = Lsn(began)};
  }
  static Events Shard(uint32_t id) {
    return {history::Start{.program = history::Program::kShard, .name = "shard", .unix_micros = 1},
            history::Identified{.shard = ShardId(id), .incarnation = Incarnation(id + 1), .cluster = 9}};
  }
  static history::Event By(history::Logged record) {
    record.primary = true;
    return record;
  }

  Histories() {
    using Kind = history::RecordKind;
    const std::vector<history::Logged> first = {Record(1, 1, Kind::kBeginEpoch),
                                                Session(1, 2, Kind::kOpenSession),
                                                Session(1, 3, Kind::kJoin),
                                                Part(1, 4, 1),
                                                Part(1, 5, 2),
                                                Record(1, 6, Kind::kAdvance, 1)};
    const std::vector<history::Logged> second = {Record(2, 7, Kind::kBeginEpoch), Part(2, 8, 3, 1)};
    files["shard-0"] = Shard(0);
    files["shard-0"].push_back(Primary(1, 0));
    for (const history::Logged& record : first) files["shard-0"].push_back(By(record));
    files["shard-1"] = Shard(1);
    for (const history::Logged& record : first) files["shard-1"].push_back(record);
    files["shard-1"].push_back(Primary(2, 6));
    for (const history::Logged& record : second) files["shard-1"].push_back(By(record));
    files["shard-1"].push_back(history::End{});
    files["client"] = {
        history::Start{.program = history::Program::kClient, .name = "client", .unix_micros = 1},
        history::SessionOpened{.job = kJob, .session = kSession, .worker = true},
        history::TableOpened{.table = kTable,
                             .name = "t",
                             .model = history::Model::kSsp,
                             .staleness = 1,
                             .own_writes = true,
                             .aggregated = false,
                             .additive = false},
        Push(1, 0),
        Push(2, 0),
        Ack(2),
        history::Ticked{.clock = 1},
        history::ReadBegun{.read = 1, .table = kTable, .reader = 1},
        history::EpochKnown{.segment = kSegment, .epoch = Epoch(1), .began_known = true, .began = Lsn(0)},
        Certificate(1, 1, 6, 1, 2),
        Push(3, 1),
        Ack(3),
        history::End{}};
  }

  // Adds an event before the End of a file.
  void Add(const std::string& file, history::Event event) {
    Events& events = files[file];
    const bool ended = std::holds_alternative<history::End>(events.back());
    events.insert(events.end() - (ended ? 1 : 0), std::move(event));
  }
  template <class E>
  E& Last(const std::string& file) {
    for (auto it = files[file].rbegin(); it != files[file].rend(); ++it) {
      if (E* event = std::get_if<E>(&*it)) return *event;
    }
    ADD_FAILURE() << "no such event";
    static E none;
    return none;
  }
  history::Logged& At(const std::string& file, uint64_t lsn) {
    for (history::Event& event : files[file]) {
      auto* logged = std::get_if<history::Logged>(&event);
      if (logged != nullptr && logged->lsn == Lsn(lsn)) return *logged;
    }
    ADD_FAILURE() << "no such record";
    static history::Logged none;
    return none;
  }
  // Changes the record at every member.
  void Change(uint64_t lsn, const std::function<void(history::Logged&)>& change) {
    for (auto& [name, events] : files) {
      for (history::Event& event : events) {
        auto* logged = std::get_if<history::Logged>(&event);
        if (logged != nullptr && logged->lsn == Lsn(lsn)) change(*logged);
      }
    }
  }
  template <class E>
  void Remove(const std::string& file, const std::function<bool(const E&)>& which) {
    std::erase_if(files[file], [&](const history::Event& event) {
      const E* e = std::get_if<E>(&event);
      return e != nullptr && which(*e);
    });
  }

  Report Verified() const {
    Verifier verifier;
    for (const auto& [name, events] : files) verifier.AddFile(name, FileOf(events));
    return verifier.Finish();
  }

  std::map<std::string, Events> files;
};

inline std::vector<std::string> RulesOf(const Report& report) {
  std::vector<std::string> rules;
  for (const Violation& violation : report.violations) rules.push_back(violation.rule);
  return rules;
}

inline void ExpectOk(const Report& report) {
  EXPECT_EQ(report.violations_found, 0u) << ToText(report);
}

// Expects one violation, of this rule, in this file, with a message that contains `why`.
inline void ExpectOne(const Report& report, const std::string& rule, const std::string& file,
                      const std::string& why) {
  ASSERT_THAT(RulesOf(report), ::testing::ElementsAre(rule)) << ToText(report);
  EXPECT_EQ(report.violations[0].file, file);
  EXPECT_GT(report.violations[0].offset, history::kMagic.size());
  EXPECT_THAT(report.violations[0].why, ::testing::HasSubstr(why));
}

}  // namespace paceline::verify
