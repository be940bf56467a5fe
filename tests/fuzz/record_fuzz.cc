// Records: what is taken is well-formed, reads the same however its bytes are cut, and survives a round trip;
// so do sequences of them, and the frames they travel in.
#include "libs/log/keys.h"
#include "libs/log/record_codec.h"
#include "libs/wire/replicate_frame.h"
#include "paceline/v1/replication.pb.h"
#include "tests/fuzz/fuzz.h"

namespace paceline {
namespace {

// External chunks stay apart, as receive buffers do.
absl::Cord InPieces(absl::string_view bytes, size_t piece) {
  absl::Cord cord;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    cord.Append(absl::MakeCordFromExternal(bytes.substr(at, piece), [](absl::string_view) {}));
  }
  return cord;
}

void CheckUpdate(const log::Update& update) {
  FUZZ_CHECK(update.keys.size() == update.count * log::BytesPerEntry(update.form), "keys fit their count");
  const auto rows = log::CountRows(update.form, update.keys);
  FUZZ_CHECK(rows.ok(), "rows can be counted");
  FUZZ_CHECK(*rows == 0 ? update.values.empty() : update.values.size() % (*rows * sizeof(float)) == 0,
             "rows are whole");
  uint64_t sum = 0;  // all of it can be read
  for (const char c : update.keys) sum += static_cast<uint8_t>(c);
  for (const char c : update.values) sum += static_cast<uint8_t>(c);
  FUZZ_CHECK(sum <= 255 * (update.keys.size() + update.values.size()), "bytes are bytes");
}

void CheckRecord(const absl::Cord& bytes) {
  const auto record = log::DecodeRecord(bytes);
  if (!record.ok()) return;
  if (const auto* update = std::get_if<log::Update>(&*record)) CheckUpdate(*update);
  const absl::Cord encoded = log::EncodeRecord(*record);
  const auto again = log::DecodeRecord(encoded);
  FUZZ_CHECK(again.ok(), "what was encoded can be decoded");
  FUZZ_CHECK(log::EncodeRecord(*again) == encoded, "records survive a round trip");
}

void CheckRecords(const absl::Cord& body, uint32_t count) {
  const auto records = log::SplitRecords(body, count);
  if (!records.ok()) return;
  absl::Cord joined;
  size_t in_records = 0;
  for (const absl::Cord& record : *records) {
    CheckRecord(record);
    log::AppendRecord(record, &joined);
    in_records += record.size();
  }
  FUZZ_CHECK(in_records <= body.size(), "records are of the body");
  FUZZ_CHECK(joined == body, "sequences survive a round trip");
}

void CheckFrame(const absl::Cord& bytes) {
  const auto frame = wire::DecodeReplicate(bytes);
  if (!frame.ok()) return;
  const auto again = wire::DecodeReplicate(wire::Encode(*frame));
  FUZZ_CHECK(again.ok() && again->body == frame->body, "bodies survive a round trip");
  const std::vector<absl::Cord> bodies = frame->Bodies();
  absl::Cord all;
  for (int s = 0; s < frame->head.segments_size(); ++s) {
    all.Append(bodies[s]);
    CheckRecords(bodies[s], frame->head.segments(s).records());
  }
  FUZZ_CHECK(all == frame->body, "segments share out the body");
}

log::Update SomeUpdate(log::KeyForm form) {
  static const uint64_t keys[] = {16, 2};
  static const float values[] = {1, 2, 3, 4};
  log::Update update;
  update.session = SessionId(7);
  update.number = 3;
  update.table = TableId(4);
  update.clock = 300;
  update.form = form;
  update.count = form == log::KeyForm::kKeys ? 2 : 1;
  update.keys = {reinterpret_cast<const char*>(keys), sizeof(keys)};
  update.values = {reinterpret_cast<const char*>(values), sizeof(values)};
  return update;
}

std::shared_ptr<const log::TableInfo> SomeTable() {
  log::TableInfo info;
  info.id = TableId(4);
  info.job = JobId(1);
  info.name = "table";
  info.schema.dim = 2;
  info.schema.rule = table::Adagrad{};
  info.schema.aggregated = true;
  return std::make_shared<const log::TableInfo>(std::move(info));
}

}  // namespace

std::vector<fuzz::Seed> fuzz::Seeds() {
  const SessionId session(7);
  const JobId job(1);
  const std::vector<std::pair<std::string, log::Record>> records = {
      {"open_table", log::OpenTable{SomeTable()}},
      {"open_session", log::OpenSession{.session = session, .job = job, .closed_floor = SessionId(3)}},
      {"join", log::Join{.session = session, .start = 2, .rank = 1}},
      {"finish", log::Finish{.session = session, .clock = 300}},
      {"evict", log::Evict{.session = session, .counts_below = 5}},
      {"advance", log::Advance{.job = job, .min_clock = 6}},
      {"update", SomeUpdate(log::KeyForm::kKeys)},
      {"update_ranges", SomeUpdate(log::KeyForm::kRanges)},
      {"fold", log::Fold{.job = job,
                         .clock = 4,
                         .tables = {{.table = TableId(4), .keys = {5, 6}, .values = {1, 2, 3, 4}}},
                         .numbers = {{session, 12}, {SessionId(8), 13}}}},
      {"drop_table", log::DropTable{TableId(4)}},
      {"change_rule",
       log::ChangeRule{.table = SomeTable(), .number = 1, .rule = table::Adagrad{.lr = 0.5f}, .clock = 7}},
      {"close_job", log::CloseJob{.job = job, .tables = {TableId(4), TableId(5)}}},
      {"begin_epoch", log::BeginEpoch{Epoch(2)}},
      {"cut", log::Cut{.id = 9, .job = job, .clock = 6}},
      {"load", log::Load{.table = TableId(4), .keys = {5, 6}, .rows = {1, 2, 3, 4, 5, 6, 7, 8}}},
      {"end_load", log::EndLoad{.id = 10, .job = job, .clock = 6}},
      {"begin_change",
       log::BeginChange{.subject = {log::Subject::Kind::kTable, 4}, .number = 9, .floor = 5}}};
  std::vector<Seed> seeds;
  v1::ReplicateRequest::Segment segment;
  segment.set_segment(1);
  segment.set_epoch(2);
  segment.set_records(static_cast<uint32_t>(records.size()));
  absl::Cord body;
  for (const auto& [name, record] : records) {
    const absl::Cord bytes = log::EncodeRecord(record);
    FUZZ_CHECK(log::DecodeRecord(bytes).ok(), "seeds are valid");
    seeds.push_back({name, std::string(bytes)});
    log::AppendRecord(bytes, &body);
  }
  wire::ReplicateFrame frame;
  frame.Add(segment, body);
  frame.Add(segment, {});
  seeds.push_back({"frame", std::string(wire::Encode(frame))});
  return seeds;
}

}  // namespace paceline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::Cord whole(bytes);
  const absl::Cord pieces = InPieces(bytes, 7);
  FUZZ_CHECK(log::DecodeRecord(whole).status() == log::DecodeRecord(pieces).status(),
             "the cut of the bytes does not matter");
  CheckRecord(pieces);
  CheckFrame(pieces);
  return 0;
}
