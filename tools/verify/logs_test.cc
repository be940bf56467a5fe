// Logs that are as they must be, and logs that are not, each spoilt in one way.
#include "gtest/gtest.h"
#include "tools/verify/test_util/histories.h"

namespace paceline::verify {
namespace {

using history::RecordKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LogsTest, AValidHistoryIsOkAndItsChecksAreCounted) {
  const Report report = Histories().Verified();
  ExpectOk(report);
  EXPECT_FALSE(report.checked_nothing());
  EXPECT_EQ(report.clients, 1);
  EXPECT_EQ(report.shards, 2);
  EXPECT_EQ(report.segments, 1);
  EXPECT_EQ(report.epochs, 2);
  EXPECT_EQ(report.records, 14);
  EXPECT_EQ(report.parts_logged, 3);
  EXPECT_EQ(report.parts_acknowledged, 3);
  EXPECT_EQ(report.unchecked_acknowledged, 0);
  EXPECT_EQ(report.certificates, 1);
  EXPECT_EQ(report.unchecked_certificates, 0);
  EXPECT_THAT(report.missing, ElementsAre(HasSubstr("shard-0 ends early")));
  EXPECT_THAT(ToText(report), HasSubstr("OK\n"));
  EXPECT_TRUE(ToJson(report)["ok"]);
}

TEST(LogsTest, NoFilesAndEmptyFilesCheckNothing) {
  Verifier verifier;
  const Report none = verifier.Finish();
  EXPECT_TRUE(none.checked_nothing());
  EXPECT_FALSE(ToJson(none)["ok"]);
  Histories histories;
  histories.files = {{"client", {history::Start{.program = history::Program::kClient}, history::End{}}}};
  EXPECT_TRUE(histories.Verified().checked_nothing());
  EXPECT_THAT(ToText(histories.Verified()), HasSubstr("nothing was checked"));
}

TEST(LogsTest, TwoPrimariesOfOneEpoch) {
  Histories h;
  h.files["shard-2"] = Histories::Shard(2);
  h.Add("shard-2", Histories::Primary(2, 6));
  ExpectOne(h.Verified(), "OnePrimary", "shard-2", "epoch 2 has two primaries");
}

TEST(LogsTest, ALaterStartOfTheSameShardIsAnotherPrimary) {
  Histories h;
  h.files["shard-1.1"] = Histories::Shard(1);
  h.Last<history::Identified>("shard-1.1").incarnation = Incarnation(77);
  h.Add("shard-1.1", Histories::Primary(2, 6));
  ExpectOne(h.Verified(), "OnePrimary", "shard-1.1", "two primaries");
}

TEST(LogsTest, AnEpochThatBeganAtTwoPlaces) {
  Histories h;
  h.Add("client",
        history::EpochKnown{.segment = kSegment, .epoch = Epoch(2), .began_known = true, .began = Lsn(5)});
  const Report report = h.Verified();
  EXPECT_THAT(RulesOf(report), ElementsAre("OnePrimary"));
  EXPECT_THAT(report.violations[0].why, HasSubstr("epoch 2 began at 5"));
}

TEST(LogsTest, MembersThatHaveAnotherRecordAtThePlace) {
  Histories h;
  h.At("shard-1", 5).hash = 1;
  ExpectOne(h.Verified(), "LogMatching", "shard-1", "record 5 of epoch 1 is not the one of shard-0");
}

TEST(LogsTest, EqualRecordsAfterUnequalOnes) {
  Histories h;
  h.files["shard-2"] = Histories::Shard(2);
  h.Add("shard-2", history::Installed{.segment = kSegment, .epoch = Epoch(1), .lsn = Lsn(7)});
  h.Add("shard-2", Histories::Part(2, 8, 3, 1));
  ExpectOne(h.Verified(), "LogMatching", "shard-2", "record 8 of epoch 2");
}

TEST(LogsTest, AMemberThatSkipsARecord) {
  Histories h;
  h.Remove<history::Logged>("shard-0", [](const auto& r) { return r.lsn == Lsn(5); });
  ExpectOne(h.Verified(), "LogMatching", "shard-0", "applied record 6 after record 4");
}

TEST(LogsTest, AMemberContinuesFromAnImage) {
  Histories h;
  h.files["shard-2"] = Histories::Shard(2);
  h.Add("shard-2", history::Installed{.segment = kSegment, .epoch = Epoch(2), .lsn = Lsn(7)});
  h.Add("shard-2", Histories::Part(2, 8, 3, 1));
  ExpectOk(h.Verified());
}

TEST(LogsTest, ARecordOfAnEarlierEpochAfterALaterOne) {
  Histories h;
  h.Add("shard-1", Histories::Part(1, 9, 4, 1));
  const Report report = h.Verified();
  EXPECT_THAT(RulesOf(report), ElementsAre("LogMatching"));
  EXPECT_THAT(report.violations[0].why, HasSubstr("of epoch 1 follows one of epoch 2"));
}

TEST(LogsTest, RecordsOfTheOldPrimaryBeyondTheNextEpochAreVoid) {
  Histories h;
  h.Add("shard-0", Histories::By(Histories::Part(1, 7, 3, 1)));
  const Report report = h.Verified();
  ExpectOk(report);
  EXPECT_EQ(report.parts_void, 1);
  EXPECT_EQ(report.parts_logged, 3);
}

TEST(LogsTest, APartThatIsLoggedTwice) {
  Histories h;
  h.Add("shard-1", Histories::By(Histories::Part(2, 9, 3, 1)));
  ExpectOne(h.Verified(), "Once", "shard-1", "part 3 of session 5 is logged at 9 after part 3");
}

TEST(LogsTest, APartThatIsLoggedAgainInAnotherEpoch) {
  Histories h;
  h.Add("shard-1", Histories::By(Histories::Part(2, 9, 2, 1)));
  ExpectOne(h.Verified(), "Once", "shard-1", "part 2 of session 5 is logged at 9");
}

TEST(LogsTest, ANumberThatIsLeftOut) {
  Histories h;
  h.Change(8, [](history::Logged& r) {
    r.number = 4;
    r.content = Histories::ContentOf(4);
  });
  h.Last<history::Pushed>("client") = Histories::Push(3, 1);
  h.Add("client", Histories::Push(4, 1));
  EXPECT_THAT(RulesOf(h.Verified()), ElementsAre("NumberOrder"));
}

TEST(LogsTest, APartWithAnotherContent) {
  Histories h;
  h.Change(5, [](history::Logged& r) { r.content = 1; });
  EXPECT_THAT(RulesOf(h.Verified()), ElementsAre("Once"));
  EXPECT_THAT(h.Verified().violations[0].why, HasSubstr("another content"));
}

TEST(LogsTest, ARefusedPartContinuesAsAnEmptyOne) {
  Histories h;
  h.Change(8, [](history::Logged& r) { r.count = r.content = 0; });
  EXPECT_THAT(RulesOf(h.Verified()), ElementsAre("Once"));
  h.Add("client", history::Emptied{.segment = kSegment, .number = 3});
  ExpectOk(h.Verified());
}

TEST(LogsTest, APartThatNoClientMade) {
  Histories h;
  h.Add("shard-1", Histories::By(Histories::Part(2, 9, 4, 1)));
  ExpectOne(h.Verified(), "Once", "shard-1", "its client has made 3 parts");
}

TEST(LogsTest, AnAcknowledgedPartThatIsInNoLaterLog) {
  Histories h;
  h.Remove<history::Logged>("shard-1", [](const auto& r) { return r.lsn == Lsn(8); });
  ExpectOne(h.Verified(), "AckLogged", "client", "part 3 of session 5 is acknowledged");
}

TEST(LogsTest, AnAcknowledgedPartThatWasLostWithItsPrimary) {
  Histories h;
  h.Remove<history::Logged>("shard-1", [](const auto& r) { return r.lsn == Lsn(8); });
  h.Add("shard-0", Histories::By(Histories::Part(1, 7, 3, 1)));
  const Report report = h.Verified();
  ExpectOne(report, "AckLogged", "client", "not in the log that survived");
  EXPECT_EQ(report.parts_void, 1);
}

TEST(LogsTest, AFileThatEndsEarlyIsReportedAndNotGuessed) {
  Histories h;
  h.Remove<history::Logged>("shard-1", [](const auto& r) { return r.lsn == Lsn(8); });
  h.Remove<history::End>("shard-1", [](const auto&) { return true; });
  const Report report = h.Verified();
  ExpectOk(report);
  EXPECT_EQ(report.parts_acknowledged, 3);
  EXPECT_EQ(report.unchecked_acknowledged, 1);
  EXPECT_EQ(report.missing.size(), 2);
}

TEST(LogsTest, AGapInAFileIsAHoleIfNoOtherFileHasTheRecords) {
  Histories h;
  for (const char* shard : {"shard-0", "shard-1"}) {
    auto& events = h.files[shard];
    const auto at = std::find_if(events.begin(), events.end(), [](const history::Event& e) {
      const auto* logged = std::get_if<history::Logged>(&e);
      return logged != nullptr && logged->lsn == Lsn(4);
    });
    *at = history::Gap{.events = 1, .why = "disk full"};
  }
  const Report report = h.Verified();
  ExpectOk(report);
  EXPECT_EQ(report.unchecked_acknowledged, 1);
  EXPECT_EQ(report.unchecked_certificates, 1);
  EXPECT_THAT(report.missing, ::testing::Contains(HasSubstr("records 4 to 4 are in no file")));
}

TEST(LogsTest, WithoutShardsNothingIsSaidOfAcknowledgements) {
  Histories h;
  h.files.erase("shard-0");
  h.files.erase("shard-1");
  const Report report = h.Verified();
  ExpectOk(report);
  EXPECT_EQ(report.unchecked_acknowledged, 3);
  EXPECT_EQ(report.unchecked_certificates, 1);
  EXPECT_FALSE(report.checked_nothing());
}

TEST(LogsTest, AMinClockThatFalls) {
  Histories h;
  h.Change(8, [](history::Logged& r) { r.min_clock = 0; });
  ExpectOne(h.Verified(), "MinClock", "shard-1", "from 1 back to 0");
}

TEST(LogsTest, ARecordOfASessionThatWasClosed) {
  Histories h;
  history::Logged evict = Histories::Session(2, 9, RecordKind::kEvict);
  evict.min_clock = 1;
  h.Add("shard-1", Histories::By(evict));
  ExpectOk(h.Verified());
  h.Add("shard-1", Histories::By(Histories::Part(2, 10, 4, 1)));
  h.Add("client", Histories::Push(4, 1));
  ExpectOne(h.Verified(), "Fenced", "shard-1", "session 5, which was closed");
}

TEST(LogsTest, ARecordOfASessionThatWasNotOpened) {
  Histories h;
  h.Change(2, [](history::Logged& r) {
    r.kind = RecordKind::kOther;
    r.session = SessionId();
  });
  EXPECT_THAT(RulesOf(h.Verified()), ElementsAre("Fenced", "Fenced", "Fenced", "Fenced"));
}

TEST(LogsTest, FoldsTakeTheNumbersOfTheirPartsOnce) {
  Histories h;
  const auto push = [&](PartNumber number) {
    history::Pushed pushed = Histories::Push(number, 1);
    pushed.line = Line::kAggregated;
    h.Add("client", pushed);
  };
  push(1);
  push(2);
  h.Add("client", history::Acknowledged{.segment = kSegment, .line = Line::kAggregated, .number = 2});
  history::Logged fold = Histories::Record(2, 9, RecordKind::kFold, 2);
  fold.numbers = {{kSession, 2}};
  Histories without = h;
  h.Add("shard-1", Histories::By(fold));
  ExpectOk(h.Verified());
  EXPECT_EQ(h.Verified().parts_logged, 5);
  ExpectOne(without.Verified(), "AckLogged", "client", "for aggregated tables is acknowledged");
  fold.lsn = Lsn(10);
  h.Add("shard-1", Histories::By(fold));
  ExpectOne(h.Verified(), "Once", "shard-1", "was folded before");
}

TEST(LogsTest, AFileWithBrokenBytesIsNamed) {
  Histories h;
  Verifier verifier;
  std::string file = FileOf(h.files["shard-0"]);
  std::string block;
  history::Append(history::End{}, block);
  history::AppendBlock(2, block, file);
  file[20] = static_cast<char>(file[20] ^ 1);
  verifier.AddFile("shard-0", file);
  const Report report = verifier.Finish();
  EXPECT_THAT(RulesOf(report), ElementsAre("Readable"));
}

TEST(LogsTest, FilesOfTwoClustersAreNotMixed) {
  Histories h;
  h.Last<history::Identified>("shard-1").cluster = 10;
  ExpectOne(h.Verified(), "Readable", "shard-1", "cluster 10");
}

}  // namespace
}  // namespace paceline::verify
