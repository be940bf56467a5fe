#include "libs/log/record_codec.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"
#include "libs/base/status.h"
#include "libs/base/varint.h"
#include "libs/log/keys.h"
#include "libs/log/table_codec.h"
#include "libs/secret/secret.h"
#include "libs/wire/frame.h"
#include "libs/wire/schema_codec.h"
#include "paceline/v1/replication.pb.h"

namespace paceline::log {
namespace {

// Keys and values of an update of up to this size are copied beside its header: sharing them would cost more.
constexpr size_t kCopiedBytes = 3500;

absl::Status Wrong(absl::string_view field, absl::string_view is, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("record: ", field, ": ", is, "; expected ", expected));
}

// --- to bytes ---

void Put(const OpenTable& record, v1::LogRecord& out) {
  *out.mutable_open_table() = ToProto(*record.table);
}

void Put(const OpenSession& record, v1::LogRecord& out) {
  v1::LogRecord::OpenSession& to = *out.mutable_open_session();
  to.set_session(record.session.v);
  to.set_job(record.job.v);
  to.set_closed_floor(record.closed_floor.v);
  to.set_secret_sha256(record.secret_sha256);
}

void Put(const Join& record, v1::LogRecord& out) {
  v1::LogRecord::Join& to = *out.mutable_join();
  to.set_session(record.session.v);
  to.set_start(record.start);
  to.set_rank(record.rank);
}

void Put(const Finish& record, v1::LogRecord& out) {
  out.mutable_finish()->set_session(record.session.v);
  out.mutable_finish()->set_clock(record.clock);
}

void Put(const Evict& record, v1::LogRecord& out) {
  out.mutable_evict()->set_session(record.session.v);
  out.mutable_evict()->set_counts_below(record.counts_below);
  out.mutable_evict()->set_data_lost(record.data_lost);
}

void Put(const Advance& record, v1::LogRecord& out) {
  out.mutable_advance()->set_job(record.job.v);
  out.mutable_advance()->set_min_clock(record.min_clock);
}

void Put(const Update& record, v1::LogRecord& out) {
  v1::LogRecord::Update& to = *out.mutable_update();
  to.set_session(record.session.v);
  to.set_line(static_cast<v1::Line>(record.line));
  to.set_number(record.number);
  to.set_table(record.table.v);
  to.set_clock(record.clock);
  to.set_form(static_cast<uint32_t>(record.form));
  to.set_count(record.count);
}

void Put(const Fold& record, v1::LogRecord& out) {
  v1::LogRecord::Fold& to = *out.mutable_fold();
  to.set_job(record.job.v);
  to.set_clock(record.clock);
  for (const FoldedRows& rows : record.tables) {
    v1::LogRecord::FoldedRows& table = *to.add_tables();
    table.set_table(rows.table.v);
    table.set_keys(rows.keys.data(), rows.keys.size() * kKeyBytes);
    table.set_values(rows.values.data(), rows.values.size() * sizeof(float));
  }
  for (const auto& [session, number] : record.numbers) {
    to.add_sessions(session.v);
    to.add_numbers(number);
  }
}

void Put(const DropTable& record, v1::LogRecord& out) {
  out.mutable_drop_table()->set_table(record.table.v);
}

void Put(const ChangeRule& record, v1::LogRecord& out) {
  v1::LogRecord::ChangeRule& to = *out.mutable_change_rule();
  *to.mutable_table() = ToProto(*record.table);
  to.set_number(record.number);
  *to.mutable_rule() = wire::ToProto(record.rule);
  to.set_clock(record.clock);
  to.set_at_once(record.at_once);
  to.set_bound(record.bound);
}

void Put(const CloseJob& record, v1::LogRecord& out) {
  v1::LogRecord::CloseJob& to = *out.mutable_close_job();
  to.set_job(record.job.v);
  for (const TableId table : record.tables) to.add_tables(table.v);
}

void Put(const BeginEpoch& record, v1::LogRecord& out) {
  out.mutable_begin_epoch()->set_epoch(record.epoch.v);
}

void Put(const Cut& record, v1::LogRecord& out) {
  v1::LogRecord::Cut& to = *out.mutable_cut();
  to.set_id(record.id);
  to.set_job(record.job.v);
  to.set_clock(record.clock);
}

void Put(const Load& record, v1::LogRecord& out) {
  v1::LogRecord::Load& to = *out.mutable_load();
  to.set_table(record.table.v);
  to.set_keys(record.keys.data(), record.keys.size() * kKeyBytes);
  to.set_rows(record.rows.data(), record.rows.size() * sizeof(float));
}

void Put(const EndLoad& record, v1::LogRecord& out) {
  v1::LogRecord::EndLoad& to = *out.mutable_end_load();
  to.set_id(record.id);
  to.set_job(record.job.v);
  to.set_clock(record.clock);
}

void Put(const BeginChange& record, v1::LogRecord& out) {
  v1::LogRecord::BeginChange& to = *out.mutable_begin_change();
  if (record.number != 0) *to.mutable_subject() = ToProto(record.subject);
  to.set_number(record.number);
  to.set_floor(record.floor);
}

// --- from bytes ---

absl::StatusOr<Record> Take(const v1::Table& record) {
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<const TableInfo> table, TableFromProto(record));
  return OpenTable{std::move(table)};
}

// `owner` keeps the memory of `keys` and `values`.
absl::StatusOr<Record> Take(const v1::LogRecord::Update& record, absl::string_view keys,
                            absl::string_view values, std::shared_ptr<const void> owner) {
  if (record.line() != v1::LINE_ARRIVAL && record.line() != v1::LINE_AGGREGATED) {
    return Wrong("update.line", absl::StrCat(static_cast<int>(record.line())), "1 or 2");
  }
  if (record.form() > static_cast<uint32_t>(KeyForm::kRanges)) {
    return Wrong("update.form", absl::StrCat(record.form()), "0 (keys) or 1 (ranges)");
  }
  const auto form = static_cast<KeyForm>(record.form());
  if (keys.size() != uint64_t{record.count()} * BytesPerEntry(form)) {
    return Wrong("keys", absl::StrCat(keys.size(), " bytes"),
                 absl::StrCat(BytesPerEntry(form), " for each of ", record.count(), " entries"));
  }
  ABSL_ASSIGN_OR_RETURN(const uint64_t rows, CountRows(form, keys));
  const size_t bytes = values.size();
  if (rows == 0 ? bytes != 0 : bytes == 0 || bytes % (rows * sizeof(float)) != 0) {
    return Wrong("values", absl::StrCat(bytes, " bytes"),
                 absl::StrCat("as many floats for each of ", rows, " rows"));
  }
  return Update{.session = SessionId(record.session()),
                .line = static_cast<Line>(record.line()),
                .number = record.number(),
                .table = TableId(record.table()),
                .clock = record.clock(),
                .form = form,
                .count = record.count(),
                .keys = keys,
                .values = values,
                .owner = std::move(owner)};
}

absl::StatusOr<Record> Take(const v1::LogRecord::Update& record, wire::RawFrame&& raw) {
  struct Memory {
    Memory(absl::Cord k, absl::Cord v) : keys(std::move(k)), values(std::move(v)) {}
    const wire::FlatBytes keys;
    const wire::FlatBytes values;
  };
  const auto memory = std::make_shared<const Memory>(std::move(raw.keys), std::move(raw.values));
  return Take(record, memory->keys.view(), memory->values.view(), memory);
}

// Reads the u64 keys and f32 rows of the field `name`: the same number of floats for each key.
absl::Status TakeRows(absl::string_view name, const std::string& key_bytes, const std::string& value_bytes,
                      std::vector<uint64_t>* keys, std::vector<float>* values) {
  if (key_bytes.size() % kKeyBytes != 0) {
    return Wrong(absl::StrCat(name, ".keys"), absl::StrCat(key_bytes.size(), " bytes"), "8 for each key");
  }
  keys->resize(key_bytes.size() / kKeyBytes);
  values->resize(value_bytes.size() / sizeof(float));
  if (value_bytes.size() % sizeof(float) != 0 ||
      (keys->empty() ? !values->empty() : values->empty() || values->size() % keys->size() != 0)) {
    return Wrong(absl::StrCat(name, ".values"), absl::StrCat(value_bytes.size(), " bytes"),
                 absl::StrCat("as many floats for each of ", keys->size(), " rows"));
  }
  key_bytes.copy(reinterpret_cast<char*>(keys->data()), key_bytes.size());
  value_bytes.copy(reinterpret_cast<char*>(values->data()), value_bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<FoldedRows> Take(const v1::LogRecord::FoldedRows& rows) {
  FoldedRows out{.table = TableId(rows.table()), .keys = {}, .values = {}};
  ABSL_RETURN_IF_ERROR(TakeRows("fold.tables", rows.keys(), rows.values(), &out.keys, &out.values));
  return out;
}

absl::StatusOr<Record> Take(const v1::LogRecord::Load& load) {
  Load out{.table = TableId(load.table()), .keys = {}, .rows = {}};
  ABSL_RETURN_IF_ERROR(TakeRows("load", load.keys(), load.rows(), &out.keys, &out.rows));
  return out;
}

absl::StatusOr<Record> Take(const v1::LogRecord::Fold& record) {
  if (record.sessions_size() != record.numbers_size()) {
    return Wrong("fold.numbers", absl::StrCat(record.numbers_size(), " of them"),
                 absl::StrCat("one for each of ", record.sessions_size(), " sessions"));
  }
  Fold out{.job = JobId(record.job()), .clock = record.clock(), .tables = {}, .numbers = {}};
  out.tables.reserve(record.tables_size());
  for (const v1::LogRecord::FoldedRows& table : record.tables()) {
    ABSL_ASSIGN_OR_RETURN(FoldedRows rows, Take(table));
    out.tables.push_back(std::move(rows));
  }
  out.numbers.reserve(record.sessions_size());
  for (int i = 0; i < record.sessions_size(); ++i) {
    out.numbers.emplace_back(record.sessions(i), record.numbers(i));
  }
  return out;
}

absl::StatusOr<Record> Take(const v1::LogRecord::ChangeRule& record) {
  if (record.number() == 0) return Wrong("change_rule.number", "0", "at least 1");
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<const TableInfo> table, TableFromProto(record.table()));
  table::Schema changed = table->schema;
  ABSL_ASSIGN_OR_RETURN(changed.rule, wire::RuleFromProto(record.rule()));
  ABSL_RETURN_IF_ERROR(table::Validate(changed));
  ABSL_RETURN_IF_ERROR(table::CheckRuleChange(table->schema.rule, changed.rule));
  return ChangeRule{.table = std::move(table),
                    .number = record.number(),
                    .rule = changed.rule,
                    .clock = record.clock(),
                    .at_once = record.at_once(),
                    .bound = record.bound()};
}

CloseJob Take(const v1::LogRecord::CloseJob& record) {
  CloseJob out{.job = JobId(record.job()), .tables = {}};
  out.tables.reserve(record.tables_size());
  for (const uint32_t table : record.tables()) out.tables.emplace_back(table);
  return out;
}

absl::StatusOr<Record> Take(const v1::LogRecord::OpenSession& record) {
  if (!record.secret_sha256().empty() && record.secret_sha256().size() != secret::kDigestBytes) {
    return Wrong("open_session.secret_sha256", absl::StrCat(record.secret_sha256().size(), " bytes"),
                 absl::StrCat(secret::kDigestBytes, ", or none"));
  }
  return OpenSession{.session = SessionId(record.session()),
                     .job = JobId(record.job()),
                     .closed_floor = SessionId(record.closed_floor()),
                     .secret_sha256 = record.secret_sha256()};
}

Join Take(const v1::LogRecord::Join& record) {
  return {.session = SessionId(record.session()), .start = record.start(), .rank = record.rank()};
}

Finish Take(const v1::LogRecord::Finish& record) {
  return {.session = SessionId(record.session()), .clock = record.clock()};
}

Evict Take(const v1::LogRecord::Evict& record) {
  return {.session = SessionId(record.session()),
          .counts_below = record.counts_below(),
          .data_lost = record.data_lost()};
}

absl::StatusOr<Record> Take(const v1::LogRecord::BeginChange& record) {
  BeginChange change{.subject = {}, .number = record.number(), .floor = record.floor()};
  if (change.number == 0) return change;
  ABSL_ASSIGN_OR_RETURN(change.subject, SubjectFromProto(record.subject()));
  return change;
}

Advance Take(const v1::LogRecord::Advance& record) {
  return {.job = JobId(record.job()), .min_clock = record.min_clock()};
}

absl::StatusOr<Record> Take(const v1::LogRecord& record) {
  switch (record.kind_case()) {
    case v1::LogRecord::kOpenTable:
      return Take(record.open_table());
    case v1::LogRecord::kOpenSession:
      return Take(record.open_session());
    case v1::LogRecord::kJoin:
      return Take(record.join());
    case v1::LogRecord::kFinish:
      return Take(record.finish());
    case v1::LogRecord::kEvict:
      return Take(record.evict());
    case v1::LogRecord::kAdvance:
      return Take(record.advance());
    case v1::LogRecord::kFold:
      return Take(record.fold());
    case v1::LogRecord::kDropTable:
      return DropTable{TableId(record.drop_table().table())};
    case v1::LogRecord::kChangeRule:
      return Take(record.change_rule());
    case v1::LogRecord::kCloseJob:
      return Take(record.close_job());
    case v1::LogRecord::kBeginEpoch:
      return BeginEpoch{Epoch(record.begin_epoch().epoch())};
    case v1::LogRecord::kCut:
      return Cut{record.cut().id(), JobId(record.cut().job()), record.cut().clock()};
    case v1::LogRecord::kLoad:
      return Take(record.load());
    case v1::LogRecord::kEndLoad:
      return EndLoad{record.end_load().id(), JobId(record.end_load().job()), record.end_load().clock()};
    case v1::LogRecord::kBeginChange:
      return Take(record.begin_change());
    case v1::LogRecord::kUpdate:  // decoded with its keys and values
    case v1::LogRecord::KIND_NOT_SET:
      break;
  }
  return Wrong("kind", "none that is known here",
               absl::StrCat("one of feature level ", kFeatureLevel, "; is the sender a newer release?"));
}

// A fast path for most records of sparse tables: small updates in one contiguous piece. nullopt: another
// record.
std::optional<absl::StatusOr<Record>> DecodeFlatUpdate(const absl::Cord& bytes) {
  const auto owner = std::make_shared<const absl::Cord>(bytes);
  const auto flat = owner->TryFlat();
  if (!flat.has_value()) return std::nullopt;
  const auto frame = wire::SplitFlat(*flat);
  v1::LogRecord head;
  if (!frame.has_value() || !head.ParseFromArray(frame->head.data(), static_cast<int>(frame->head.size())))
    return std::nullopt;
  if (!head.has_update()) return std::nullopt;
  return Take(head.update(), frame->keys, frame->values, owner);
}

}  // namespace

absl::Cord EncodeRecord(const Record& record) {
  v1::LogRecord head;
  std::visit([&head](const auto& r) { Put(r, head); }, record);
  const auto* update = std::get_if<Update>(&record);
  if (update == nullptr) return wire::JoinFrame(head, {}, {});
  if (update->keys.size() + update->values.size() <= kCopiedBytes) {
    return wire::JoinFlat(head, update->keys, update->values);
  }
  return wire::JoinFrame(head, wire::Borrow(update->keys, update->owner),
                         wire::Borrow(update->values, update->owner));
}

absl::StatusOr<Record> DecodeRecord(const absl::Cord& bytes) {
  if (auto update = DecodeFlatUpdate(bytes)) return *std::move(update);
  ABSL_ASSIGN_OR_RETURN(wire::RawFrame raw, wire::SplitFrame(bytes));
  v1::LogRecord head;
  if (!head.ParseFromString(raw.head)) {
    return absl::InvalidArgumentError("record: its header is not a valid paceline.v1.LogRecord");
  }
  if (head.has_update()) return Take(head.update(), std::move(raw));
  if (!raw.keys.empty() || !raw.values.empty()) return Wrong("keys", "present", "them of an update only");
  return Take(head);
}

void AppendRecord(const absl::Cord& record, absl::Cord* body) {
  std::string length;
  AppendVarint(record.size(), length);
  body->Append(length);
  body->Append(record);
}

absl::StatusOr<std::vector<absl::Cord>> SplitRecords(const absl::Cord& body, uint32_t count) {
  std::vector<absl::Cord> records;
  if (count > body.size()) {  // each takes at least one byte
    return Wrong("body", absl::StrCat(body.size(), " bytes"), absl::StrCat(count, " records"));
  }
  records.reserve(count);
  absl::Cord::CharIterator at = body.char_begin();
  size_t left = body.size();
  const auto cut_off = [&] {
    return Wrong("body", absl::StrCat("cut off in record ", records.size() + 1),
                 absl::StrCat(count, " records, each after its length"));
  };
  while (records.size() < count) {
    char bytes[kVarintBytesMax];
    size_t n = 0;
    do {
      if (left == 0 || n == kVarintBytesMax) return cut_off();
      bytes[n] = *at;
      ++at;
      --left;
    } while ((bytes[n++] & 0x80) != 0);
    std::string_view length(bytes, n);
    ABSL_ASSIGN_OR_RETURN(const uint64_t size, TakeVarint(length));
    if (size > left) return cut_off();
    records.push_back(absl::Cord::AdvanceAndRead(&at, size));
    left -= size;
  }
  if (left != 0) {
    return Wrong("body", absl::StrCat(left, " bytes after the last record"),
                 absl::StrCat(count, " records and no more"));
  }
  return records;
}

}  // namespace paceline::log
