#include "libs/log/record_codec.h"

#include <set>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/test_util/status_matchers.h"
#include "libs/log/test_util/random_history.h"
#include "libs/log/testing.h"
#include "libs/world/random.h"
#include "paceline/v1/replication.pb.h"

namespace paceline::log {
namespace {

using absl::StatusCode;
using ::paceline::testing::IsOk;
using ::paceline::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

constexpr JobId kJob{1};
constexpr SessionId kSession{7};

// External chunks stay apart, as receive buffers do.
absl::Cord InPieces(const std::string& bytes, size_t piece) {
  absl::Cord cord;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    cord.Append(
        absl::MakeCordFromExternal(absl::string_view(bytes).substr(at, piece), [](absl::string_view) {}));
  }
  return cord;
}

TEST(RecordCodecTest, DecodedRecordsApplyLikeTheOriginals) {
  std::set<size_t> kinds;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    world::SplitMix64 random(seed);
    RandomHistory history(seed);
    Segment copy(RandomHistory::kSegment, RandomHistory::kRingBits);
    for (int step = 0; step < 300; ++step) {
      const Record& record = history.Next();
      kinds.insert(record.index());
      const std::string bytes(EncodeRecord(record));
      const auto decoded = DecodeRecord(InPieces(bytes, 1 + world::Uniform(random, 2 * bytes.size())));
      ASSERT_THAT(decoded, IsOk());
      ASSERT_EQ(decoded->index(), record.index());
      ASSERT_EQ(EncodeRecord(*decoded), bytes) << "equal records make equal bytes";
      copy.Apply(*decoded);
      if (step % 20 == 0) {
        ASSERT_EQ(copy.Hash(), history.segment().Hash()) << "at record " << step;
      }
    }
    ASSERT_EQ(copy.Hash(), history.segment().Hash());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Record>) << "every kind occurred";
}

// Records on disks and on the wire stay readable: add to these bytes, never change them.
TEST(RecordCodecTest, BytesOfEachKindStayAsTheyAre) {
  Update ranges = MakeUpdate(kSession, 3, {{16, 1.0f}}, 9);
  ranges.form = KeyForm::kRanges;
  ranges.keys = absl::string_view("\x10\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16);
  const std::vector<std::pair<Record, std::string>> vectors = {
      {OpenTable{SumTable(kJob)}, "0a17080410011a0373756d220c0801100122020a002a021200"},
      {OpenSession{.session = kSession, .job = kJob, .closed_floor = SessionId(3)}, "1206080710011803"},
      {Join{.session = kSession, .start = 2, .rank = 1}, "1a06080710021801"},
      {Finish{.session = kSession, .clock = 300}, "2205080710ac02"},
      {Evict{.session = kSession, .counts_below = 5}, "2a0408071005"},
      {Advance{.job = kJob, .min_clock = 6}, "320408011006"},
      {MakeUpdate(kSession, 3, {{5, 1.0f}, {6, -2.0f}}, 9),
       "3a0c0807100118032004280938027a10050000000000000006000000000000008201080000803f000000c0"},
      {ranges, "3a0e08071001180320042809300138017a10100000000000000001000000000000008201040000803f"},
      {MakeUpdate(kSession, 4, {}), "3a06080710011804"},
      {Fold{.job = kJob,
            .clock = 4,
            .tables = {{.table = kFoldedTable, .keys = {5}, .values = {0.5f}}},
            .numbers = {{kSession, 12}, {SessionId(8), 13}}},
       "4220080110041a120805120805000000000000001a040000003f220207082a020c0d"},
      {DropTable{kSumTable}, "4a020804"},
      {ChangeRule{.table = SumTable(kJob), .number = 1, .rule = table::Add{}, .clock = 7, .at_once = true},
       "52230a17080410011a0373756d220c0801100122020a002a02120010011a02120020072801"},
      {CloseJob{.job = kJob, .tables = {kSumTable, kFoldedTable}}, "5a06080112020405"},
      {BeginEpoch{Epoch(2)}, "62020802"},
      {Cut{.id = 9, .job = kJob, .clock = 300}, "6a070809100118ac02"},
      {Load{.table = kSumTable, .keys = {5}, .rows = {0.5f, 2}},
       "72160804120805000000000000001a080000003f00000040"},
      {EndLoad{.id = 10, .job = kJob, .clock = 6}, "8a0106080a10011806"},
      {Evict{.session = kSession, .counts_below = 5, .data_lost = true}, "2a0708071005900401"},
      {BeginChange{.subject = {Subject::Kind::kSession, 7}, .number = 9, .floor = 5},
       "92040a0a040801100710091805"},
      {BeginChange{.subject = {}, .number = 0, .floor = 5}, "9204021805"},
  };
  for (const auto& [record, hex] : vectors) {
    EXPECT_EQ(absl::BytesToHexString(std::string(EncodeRecord(record))), hex) << "kind " << record.index();
    EXPECT_THAT(DecodeRecord(absl::Cord(absl::HexStringToBytes(hex))), IsOk());
  }
}

TEST(RecordCodecTest, ManyRowsOfAnUpdateAreNotCopied) {
  std::vector<std::pair<uint64_t, float>> rows(10'000);
  Update update = MakeUpdate(kSession, 1, rows);
  const char* keys = update.keys.data();
  const char* values = update.values.data();
  const std::weak_ptr<const void> owner = update.owner;
  std::optional<absl::Cord> bytes = EncodeRecord(Record(std::move(update)));
  update = {};
  EXPECT_FALSE(owner.expired()) << "the bytes hold the memory";
  auto decoded = DecodeRecord(*bytes);
  ASSERT_THAT(decoded, IsOk());
  bytes.reset();
  EXPECT_EQ(std::get<Update>(*decoded).keys.data(), keys);
  EXPECT_EQ(std::get<Update>(*decoded).values.data(), values);
  EXPECT_FALSE(owner.expired()) << "the decoded update holds it";
  decoded = Record(Advance{});
  EXPECT_TRUE(owner.expired());
}

TEST(RecordCodecTest, ARecordIsEncodedOnceAndNotAtAllIfItWasReceived) {
  const Record record = MakeUpdate(kSession, 1, std::vector<std::pair<uint64_t, float>>(100));
  const AppliedRecord written(record);
  EXPECT_FALSE(written.received());
  EXPECT_EQ(written.bytes(), EncodeRecord(record));
  const absl::Cord first = written.bytes();
  EXPECT_EQ(written.bytes().TryFlat()->data(), first.TryFlat()->data());
  const AppliedRecord taken(record, first);
  EXPECT_TRUE(taken.received());
  EXPECT_EQ(taken.bytes().TryFlat()->data(), first.TryFlat()->data());
}

// To copy each short record costs a replica a tenth of its time.
TEST(RecordCodecTest, TheRecordsOfAFrameShareItsMemory) {
  for (const size_t rows : {1, 100, 1000, 5000}) {
    const absl::Cord record =
        EncodeRecord(MakeUpdate(kSession, 1, std::vector<std::pair<uint64_t, float>>(rows)));
    absl::Cord body;
    AppendRecord(record, &body);
    const std::string memory(body);
    bool kept = true;
    body = absl::MakeCordFromExternal(memory, [&kept](absl::string_view) { kept = false; });
    auto split = SplitRecords(body, 1);
    body.Clear();
    ASSERT_THAT(split, IsOk());
    EXPECT_EQ(split->front(), record);
    const auto flat = split->front().TryFlat();
    ASSERT_TRUE(flat.has_value()) << "it is read at once";
    EXPECT_TRUE(flat->data() > memory.data() && flat->data() < memory.data() + memory.size());
    EXPECT_TRUE(kept);
    split->clear();
    EXPECT_FALSE(kept);
  }
}

TEST(RecordCodecTest, TakesASequenceApart) {
  std::vector<absl::Cord> records;
  absl::Cord body;
  for (const size_t rows : {0, 1, 20, 1000}) {
    records.push_back(EncodeRecord(MakeUpdate(kSession, 1, std::vector<std::pair<uint64_t, float>>(rows))));
    AppendRecord(records.back(), &body);
  }
  const auto split = SplitRecords(body, 4);
  ASSERT_THAT(split, IsOk());
  EXPECT_EQ(*split, records);
  EXPECT_THAT(SplitRecords(body, 3), StatusIs(StatusCode::kInvalidArgument, HasSubstr("no more")));
  EXPECT_THAT(SplitRecords(body, 5),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("cut off in record 5")));
  EXPECT_THAT(SplitRecords(body, ~uint32_t{0}), StatusIs(StatusCode::kInvalidArgument, HasSubstr("body")));
  const std::string bytes(body);
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 50) {
    EXPECT_THAT(SplitRecords(absl::Cord(bytes.substr(0, size)), 4), StatusIs(StatusCode::kInvalidArgument, _))
        << size;
  }
  EXPECT_THAT(SplitRecords(absl::Cord(), 0), IsOk());
  EXPECT_THAT(SplitRecords(absl::Cord(std::string(11, '\xff')), 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("cut off")));
}

TEST(RecordCodecTest, NamesTheWrongField) {
  const auto decode = [](const v1::LogRecord& record) {
    return DecodeRecord(absl::Cord(record.SerializeAsString())).status();
  };
  const auto invalid = [](const char* field) {
    return StatusIs(StatusCode::kInvalidArgument, HasSubstr(field));
  };
  v1::LogRecord record;
  EXPECT_THAT(decode(record), invalid("kind"));
  record.mutable_advance()->set_min_clock(1);
  record.set_keys("12345678");
  EXPECT_THAT(decode(record), invalid("keys"));

  record.mutable_update()->set_count(1);
  EXPECT_THAT(decode(record), invalid("update.line"));
  record.mutable_update()->set_line(v1::LINE_ARRIVAL);
  EXPECT_THAT(decode(record), invalid("values"));
  record.set_values("123456");
  EXPECT_THAT(decode(record), invalid("values: 6 bytes"));
  record.set_values("12345678");
  EXPECT_THAT(decode(record), IsOk());
  record.mutable_update()->set_count(2);
  EXPECT_THAT(decode(record), invalid("keys: 8 bytes"));
  record.mutable_update()->set_count(0);
  EXPECT_THAT(decode(record), invalid("keys"));
  record.mutable_update()->set_count(1);
  record.mutable_update()->set_form(2);
  EXPECT_THAT(decode(record), invalid("update.form"));
  record.mutable_update()->set_form(1);
  record.set_keys(std::string(8, '\0') + std::string(8, '\xff'));
  EXPECT_THAT(decode(record), StatusIs(StatusCode::kOutOfRange, HasSubstr("2^32")));

  record.Clear();
  v1::LogRecord::Fold& fold = *record.mutable_fold();
  fold.add_sessions(1);
  EXPECT_THAT(decode(record), invalid("fold.numbers"));
  fold.add_numbers(1);
  v1::LogRecord::FoldedRows& rows = *fold.add_tables();
  rows.set_keys("1234567");
  EXPECT_THAT(decode(record), invalid("fold.tables.keys"));
  rows.set_keys("1234567812345678");
  EXPECT_THAT(decode(record), invalid("fold.tables.values"));
  rows.set_values("123412341234");
  EXPECT_THAT(decode(record), invalid("fold.tables.values"));
  rows.set_values("12341234");
  EXPECT_THAT(decode(record), IsOk());

  record.mutable_open_table()->mutable_schema()->set_kind(v1::TABLE_KIND_RANGED);
  EXPECT_THAT(decode(record), invalid("rule"));
  record.mutable_open_table()->mutable_schema()->mutable_rule()->mutable_add();
  EXPECT_THAT(decode(record), invalid("rows"));

  record.Clear();
  std::string bytes(
      EncodeRecord(ChangeRule{.table = SumTable(kJob), .number = 1, .rule = table::Add{}, .clock = 7}));
  ASSERT_TRUE(record.ParseFromString(bytes));
  record.mutable_change_rule()->set_number(0);
  EXPECT_THAT(decode(record), invalid("number"));
  record.mutable_change_rule()->set_number(1);
  record.mutable_change_rule()->mutable_rule()->mutable_sgd()->set_learning_rate(1);
  EXPECT_THAT(decode(record), invalid("keeps its rule"));
}

}  // namespace
}  // namespace paceline::log
