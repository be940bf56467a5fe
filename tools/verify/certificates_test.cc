// Certificates that clients may have got, and certificates that they must not have got.
#include "gtest/gtest.h"
#include "tools/verify/test_util/histories.h"

namespace paceline::verify {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

history::ReadBegun Read(uint64_t read, Clock reader) {
  return {.read = read, .table = kTable, .reader = reader};
}

history::CacheHit Hit(uint64_t read, uint64_t epoch, uint64_t version, Clock min_clock, PartNumber own) {
  return {.read = read,
          .segment = kSegment,
          .epoch = Epoch(epoch),
          .version = Lsn(version),
          .min_clock = min_clock,
          .own = own,
          .pushed = own,
          .rows = 1};
}

TEST(CertificatesTest, AMinClockBelowTheBound) {
  Histories h;
  h.Add("client", history::Ticked{.clock = 2});
  h.Add("client", history::Ticked{.clock = 3});
  h.Add("client", Read(2, 3));
  h.Add("client", Histories::Certificate(2, 2, 8, 1, 3));
  ExpectOne(h.Verified(), "ReadBound", "client", "at clock 3, segment 3, got min clock 1; it needs 2");
}

TEST(CertificatesTest, ABoundThatTheCallerNamedCountsInPlaceOfTheModels) {
  Histories h;
  h.Add("client",
        history::ReadBegun{.read = 2, .table = kTable, .reader = 1, .bounded = true, .min_clock = 2});
  h.Add("client", Histories::Certificate(2, 2, 8, 1, 3));
  ExpectOne(h.Verified(), "ReadBound", "client", "it needs 2");
}

TEST(CertificatesTest, AReaderWithoutAClockDoesNotWait) {
  Histories h;
  h.Last<history::SessionOpened>("client").worker = false;
  h.Last<history::ReadBegun>("client").reader = 9;
  ExpectOk(h.Verified());
}

TEST(CertificatesTest, ABulkSynchronousReadIsExact) {
  Histories h;
  h.Last<history::TableOpened>("client").model = history::Model::kBsp;
  ExpectOk(h.Verified());
  h.Last<history::ReadBegun>("client").reader = 0;
  ExpectOne(h.Verified(), "ReadBound", "client", "it needs exactly 0");
  h.Last<history::ReadBegun>("client").reader = 2;
  ExpectOne(h.Verified(), "ReadBound", "client", "it needs 2");
}

TEST(CertificatesTest, AWorkerThatLeavesMayReadLaterClocks) {
  Histories h;
  h.Last<history::TableOpened>("client").model = history::Model::kBsp;
  h.Add("client", history::Finishing{.leaves = true});
  h.Add("client", Read(2, 0));
  h.Add("client", Histories::Certificate(2, 2, 8, 1, 3));
  ExpectOk(h.Verified());
}

TEST(CertificatesTest, AReadWithoutTheReadersOwnPushes) {
  Histories h;
  h.Add("client", Read(2, 1));
  h.Add("client", Histories::Certificate(2, 2, 7, 1, 2));
  ExpectOne(h.Verified(), "OwnWrites", "client", "parts up to 2; it had made 3 before it read");
}

TEST(CertificatesTest, PushesThatCameAfterTheReadNeedNotBeInIt) {
  Histories h;
  h.Add("client", Read(2, 1));
  h.Add("client", Histories::Push(4, 1));
  h.Add("client", Histories::Certificate(2, 2, 8, 1, 3));
  ExpectOk(h.Verified());
}

TEST(CertificatesTest, ACachedRowThatAPushTouchedSince) {
  Histories h;
  h.Add("client", Read(2, 1));
  history::CacheHit hit = Hit(2, 1, 6, 1, 2);
  hit.pushed = 3;
  h.Add("client", hit);
  ExpectOne(h.Verified(), "OwnWrites", "client", "its part 3 touched the row since");
  h.Last<history::TableOpened>("client").additive = true;  // then it was applied to the cached row
  ExpectOk(h.Verified());
}

TEST(CertificatesTest, ACachedRowBelowTheBound) {
  Histories h;
  h.Add("client", Read(2, 3));
  h.Add("client", Hit(2, 1, 6, 1, 2));
  ExpectOne(h.Verified(), "ReadBound", "client", "it needs 2");
}

TEST(CertificatesTest, AVoidVersionFromTheCache) {
  Histories h;
  h.Add("client", Read(2, 1));
  h.Add("client", Hit(2, 1, 7, 1, 2));  // of what the old primary had and the new one has not
  ExpectOk(h.Verified());
  Histories known;
  known.Add("client", history::EpochKnown{
                          .segment = kSegment, .epoch = Epoch(2), .began_known = true, .began = Lsn(6)});
  known.Add("client", Read(2, 1));
  known.Add("client", Hit(2, 1, 7, 1, 2));
  ExpectOne(known.Verified(), "VoidVersions", "client", "epoch 2 began at 6");
}

TEST(CertificatesTest, ACachedRowWhenTheBeginningOfTheNextEpochIsNotKnown) {
  Histories h;
  h.Add("client", history::EpochKnown{.segment = kSegment, .epoch = Epoch(2)});
  h.Add("client", Read(2, 1));
  h.Add("client", Hit(2, 1, 6, 1, 2));
  ExpectOne(h.Verified(), "VoidVersions", "client", "not where every epoch since began");
}

TEST(CertificatesTest, ACachedRowWhenABeginningWasMissed) {
  Histories h;
  h.Add("client",
        history::EpochKnown{.segment = kSegment, .epoch = Epoch(3), .began_known = true, .began = Lsn(8)});
  h.Add("client", Read(2, 1));
  h.Add("client", Hit(2, 1, 6, 1, 2));
  const Report report = h.Verified();
  EXPECT_THAT(RulesOf(report), ElementsAre("VoidVersions"));
}

TEST(CertificatesTest, ACertificateOfAVoidVersionAfterTheBeginningWasKnown) {
  Histories h;
  h.Add("client", Histories::Certificate(0, 2, 8, 1, 3));
  h.Add("client", Histories::Certificate(0, 1, 7, 1, 3));
  ExpectOne(h.Verified(), "VoidVersions", "client", "segment 3, epoch 1, version 7");
}

TEST(CertificatesTest, AMinClockThatTheLogDoesNotHave) {
  Histories h;
  h.Last<history::Certified>("client").version = Lsn(5);
  ExpectOne(h.Verified(), "ReadBound", "client", "says min clock 1; by the log it is 0");
}

TEST(CertificatesTest, OwnPartsThatTheLogDoesNotHave) {
  Histories h;
  h.Last<history::Certified>("client").own = 3;
  ExpectOne(h.Verified(), "OwnWrites", "client", "by the log parts up to 2");
}

TEST(CertificatesTest, AMinClockThatFallsBelowACertificate) {
  Histories h;
  h.Add("client", Read(2, 1));
  h.Add("client", Histories::Certificate(2, 2, 8, 0, 3));
  ExpectOne(h.Verified(), "MinClock", "client", "of version 8, epoch 2, says min clock 0");
}

TEST(CertificatesTest, AnAcknowledgementOfAPartThatWasNotMade) {
  Histories h;
  h.Last<history::Acknowledged>("client").number = 4;
  const Report report = h.Verified();
  EXPECT_THAT(RulesOf(report), ElementsAre("AckLogged", "AckLogged"));
  EXPECT_THAT(report.violations[0].why, HasSubstr("the client has made 3"));
}

TEST(CertificatesTest, AClientThatWasToldOfALoss) {
  Histories h;
  h.Add("client", history::Failed{.code = 15, .why = "segment 3: lost"});
  ExpectOne(h.Verified(), "AckLogged", "client", "told of a loss: segment 3: lost");
}

TEST(CertificatesTest, ATickThatLeavesAClockOut) {
  Histories h;
  h.Add("client", history::Ticked{.clock = 3});
  ExpectOne(h.Verified(), "Ticks", "client", "from clock 1 to 3");
}

}  // namespace
}  // namespace paceline::verify
