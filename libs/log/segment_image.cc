#include "libs/log/segment_image.h"

#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/base/varint.h"
#include "libs/log/keys.h"
#include "libs/log/table_codec.h"
#include "libs/ring/hash.h"
#include "libs/secret/secret.h"
#include "libs/wire/schema_codec.h"

namespace paceline::log {
namespace {

template <class... Parts>
absl::Status Wrong(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("image: ", parts...));
}

// --- to an image ---

void PutJob(JobId id, const clock::JobClock& job, v1::SegmentImage::Job& to) {
  to.set_job(id.v);
  to.set_min_clock(job.min_clock());
  for (const auto& [session, worker] : job.workers()) {
    v1::SegmentImage::Worker& out = *to.add_workers();
    out.set_session(session.v);
    out.set_rank(worker.rank);
    out.set_start(worker.start);
  }
  for (const auto& [session, finished] : job.finished()) {
    v1::SegmentImage::FinishedWorker& out = *to.add_finished();
    out.set_session(session.v);
    out.set_start(finished.start);
    out.set_end(finished.end);
  }
}

// The period that `rows` uses in the image. Each update chooses its rates anew, so if the period that the
// last update used has been forgotten any will do: this takes the first.
const RuleSchedule::Period& InUse(const RuleSchedule& rules, uint64_t number) {
  for (const RuleSchedule::Period& period : rules.periods()) {
    if (period.number == number) return period;
  }
  return rules.periods().front();
}

void PutTable(const Segment::Table& table, v1::SegmentImage::TableState& to) {
  *to.mutable_table() = ToProto(*table.info);
  for (const RuleSchedule::Period& period : table.rules.periods()) {
    v1::SegmentImage::RuleStage& out = *to.add_rules();
    out.set_clock(period.from);
    out.set_number(period.number);
    *out.mutable_rule() = wire::ToProto(period.rule);
    out.set_bound(period.bound);
  }
  to.set_rule_in_use(InUse(table.rules, table.rule_in_use).number);
}

v1::PageImage PutPage(TableId table, const table::Page& page, Lsn version) {
  const table::PageImage image = page.Image();
  v1::PageImage to;
  to.set_table(table.v);
  to.set_start(image.range.start);
  to.set_depth(static_cast<uint32_t>(image.range.depth));
  to.set_version(version.v);
  to.set_keys(image.keys.data(), image.keys.size() * sizeof(uint64_t));
  to.set_rows(image.rows.data(), image.rows.size() * sizeof(float));
  return to;
}

// --- from an image ---

using SessionsOfImage = std::map<SessionId, Segment::SessionState>;

absl::StatusOr<SessionsOfImage> TakeSessions(const v1::SegmentImage& image) {
  SessionsOfImage sessions;
  for (const v1::SegmentImage::Session& from : image.sessions()) {
    Segment::SessionState session{.job = JobId(from.job()), .applied = {}};
    session.applied.At(Line::kArrival) = from.arrival();
    session.applied.At(Line::kAggregated) = from.aggregated();
    session.finished = from.finished();
    session.next_clock = from.next_clock();
    session.secret_sha256 = from.secret_sha256();
    if (!session.secret_sha256.empty() && session.secret_sha256.size() != secret::kDigestBytes) {
      return Wrong("sessions: the digest of ", from.session(), " has ", session.secret_sha256.size(),
                   " bytes; expected ", secret::kDigestBytes, ", or none");
    }
    if (sessions.emplace(from.session(), session).second) continue;
    return Wrong("sessions: ", from.session(), " is open twice");
  }
  return sessions;
}

absl::StatusOr<clock::JobClock> TakeClock(const v1::SegmentImage::Job& from,
                                          const SessionsOfImage& sessions) {
  std::map<SessionId, clock::JobClock::Worker> workers;
  for (const v1::SegmentImage::Worker& worker : from.workers()) {
    const SessionId id(worker.session());
    const auto session = sessions.find(id);
    if (session == sessions.end() || session->second.job.v != from.job() || session->second.finished) {
      return Wrong("jobs: worker ", id.v, " of job ", from.job(), " is no open session of it");
    }
    clock::JobClock::Worker& to = workers[id];
    to.rank = worker.rank();
    to.start = worker.start();
  }
  std::map<SessionId, clock::JobClock::Finished> finished;
  for (const v1::SegmentImage::FinishedWorker& worker : from.finished()) {
    finished[SessionId(worker.session())] = {.start = worker.start(), .end = worker.end()};
  }
  return clock::JobClock(from.min_clock(), std::move(workers), std::move(finished));
}

absl::StatusOr<RuleSchedule> TakeRules(const v1::SegmentImage::TableState& from,
                                       const table::Schema& schema) {
  std::vector<RuleSchedule::Period> periods;
  for (const v1::SegmentImage::RuleStage& period : from.rules()) {
    table::Schema changed = schema;
    ABSL_ASSIGN_OR_RETURN(changed.rule, wire::RuleFromProto(period.rule()));
    ABSL_RETURN_IF_ERROR(table::Validate(changed));
    ABSL_RETURN_IF_ERROR(table::CheckRuleChange(schema.rule, changed.rule));
    if (!periods.empty() && period.number() <= periods.back().number) {
      return Wrong("tables: rates ", period.number(), " of table ", from.table().id(), " come after ",
                   periods.back().number, "; expected them by number");
    }
    periods.push_back(
        {.number = period.number(), .from = period.clock(), .rule = changed.rule, .bound = period.bound()});
  }
  if (periods.empty())
    return Wrong("tables: table ", from.table().id(), " has no rates; expected one at least");
  return RuleSchedule(std::move(periods));
}

absl::StatusOr<IdRanges> TakeDropped(const v1::SegmentImage& image) {
  std::map<uint32_t, uint32_t> ranges;
  for (const v1::SegmentImage::IdRange& range : image.dropped()) {
    const bool apart = ranges.empty() || range.first() > uint64_t{ranges.rbegin()->second} + 1;
    if (!apart || range.first() > range.last() || range.last() > UINT32_MAX) {
      return Wrong("dropped: tables ", range.first(), " to ", range.last(),
                   "; expected ranges that ascend, with a gap between two");
    }
    ranges[static_cast<uint32_t>(range.first())] = static_cast<uint32_t>(range.last());
  }
  return IdRanges(std::move(ranges));
}

absl::StatusOr<ChangeNumbers> TakeChanges(const v1::SegmentImage& image) {
  ChangeNumbers::Last last;
  for (const v1::SegmentImage::LastChange& change : image.changes()) {
    ABSL_ASSIGN_OR_RETURN(const Subject subject, SubjectFromProto(change.subject()));
    const bool fresh = last.emplace(subject, change.number()).second;
    if (fresh && change.number() > image.change_floor()) continue;
    return Wrong("changes: number ", change.number(), " of subject ", subject.id,
                 "; expected one of each, above ", image.change_floor());
  }
  return ChangeNumbers(image.change_floor(), std::move(last));
}

absl::Status CheckPlace(const v1::SegmentImage& image, SegmentId expected, int ring_bits) {
  if (ring_bits < 0 || ring_bits > ring::kRingBitsMax || image.ring_bits() != uint32_t(ring_bits)) {
    return Wrong("ring_bits: ", image.ring_bits(), "; expected ", ring_bits, ", at most ",
                 ring::kRingBitsMax);
  }
  if (image.segment() != expected.v || expected.v >> ring_bits != 0) {
    return Wrong("segment: ", image.segment(), " of 2^", ring_bits, "; expected ", expected.v);
  }
  return absl::OkStatus();
}

}  // namespace

v1::SegmentImage ImageOf(const Segment& segment) {
  v1::SegmentImage image;
  image.set_segment(segment.id_.v);
  image.set_ring_bits(static_cast<uint32_t>(segment.ring_bits_));
  image.set_lsn(segment.version_.v);
  image.set_epoch(segment.epoch_.v);
  for (const auto& [id, session] : segment.sessions_) {
    v1::SegmentImage::Session& to = *image.add_sessions();
    to.set_session(id.v);
    to.set_job(session.job.v);
    to.set_arrival(session.applied.At(Line::kArrival));
    to.set_aggregated(session.applied.At(Line::kAggregated));
    to.set_finished(session.finished);
    to.set_next_clock(session.next_clock);
    to.set_secret_sha256(session.secret_sha256);
  }
  for (const SessionId id : segment.closed_) image.add_closed(id.v);
  image.set_closed_floor(segment.closed_floor_.v);
  for (const SessionId id : segment.lost_) image.add_lost_sessions(id.v);
  image.set_change_floor(segment.changes_.floor());
  for (const auto& [subject, number] : segment.changes_.last()) {
    v1::SegmentImage::LastChange& to = *image.add_changes();
    *to.mutable_subject() = ToProto(subject);
    to.set_number(number);
  }
  for (const auto& [id, job] : segment.jobs_) {
    if (!job.IsNew()) PutJob(id, job, *image.add_jobs());
  }
  for (const auto& [id, table] : segment.tables_) PutTable(*table, *image.add_tables());
  for (const auto& [first, last] : segment.dropped_.ranges()) {
    v1::SegmentImage::IdRange& to = *image.add_dropped();
    to.set_first(first);
    to.set_last(last);
  }
  for (const auto& [job, snapshots] : segment.snapshots_) {
    v1::SegmentImage::Snapshots& to = *image.add_snapshots();
    to.set_job(job.v);
    to.set_cut(snapshots.cut);
    to.set_loaded(snapshots.loaded);
  }
  return image;
}

absl::StatusOr<Segment> SegmentFromImage(const v1::SegmentImage& image, SegmentId expected, int ring_bits) {
  ABSL_RETURN_IF_ERROR(CheckPlace(image, expected, ring_bits));
  Segment segment(expected, ring_bits);
  segment.version_ = Lsn(image.lsn());
  segment.epoch_ = Epoch(image.epoch());
  ABSL_ASSIGN_OR_RETURN(segment.sessions_, TakeSessions(image));
  segment.closed_floor_ = SessionId(image.closed_floor());
  for (const uint64_t id : image.closed()) {
    if (id <= image.closed_floor() || segment.sessions_.contains(SessionId(id))) {
      return Wrong("closed: session ", id, "; expected it above ", image.closed_floor(), " and not open");
    }
    segment.closed_.insert(SessionId(id));
  }
  for (const v1::SegmentImage::Job& from : image.jobs()) {
    ABSL_ASSIGN_OR_RETURN(clock::JobClock job, TakeClock(from, segment.sessions_));
    if (segment.jobs_.emplace(JobId(from.job()), std::move(job)).second) continue;
    return Wrong("jobs: ", from.job(), " is there twice");
  }
  if (image.lost_sessions_size() > static_cast<int>(Segment::kLostMax)) {
    return Wrong("lost_sessions: ", image.lost_sessions_size(), "; expected at most ", Segment::kLostMax);
  }
  for (const uint64_t id : image.lost_sessions()) segment.lost_.insert(SessionId(id));
  ABSL_ASSIGN_OR_RETURN(segment.changes_, TakeChanges(image));
  ABSL_ASSIGN_OR_RETURN(segment.dropped_, TakeDropped(image));
  for (const v1::SegmentImage::Snapshots& from : image.snapshots()) {
    segment.snapshots_[JobId(from.job())] = {.cut = from.cut(), .loaded = from.loaded()};
  }
  for (const v1::SegmentImage::TableState& from : image.tables()) {
    ABSL_ASSIGN_OR_RETURN(std::shared_ptr<const TableInfo> info, TableFromProto(from.table()));
    ABSL_ASSIGN_OR_RETURN(RuleSchedule rules, TakeRules(from, info->schema));
    const TableId id = info->id;
    if (segment.IsDropped(id) || segment.tables_.contains(id)) {
      return Wrong("tables: ", id.v, " is there twice, or dropped");
    }
    Segment::Table& table = *(segment.tables_[id] = Segment::MakeTable(std::move(info), ring_bits));
    table.rules = std::move(rules);
    const RuleSchedule::Period& in_use = InUse(table.rules, from.rule_in_use());
    table.rows.UseRule(in_use.rule);
    table.rule_in_use = in_use.number;
  }
  return segment;
}

uint64_t Segment::Hash() const {
  uint64_t hash = 0;
  for (const char byte : ImageOf(*this).SerializeAsString()) {
    hash = ring::Mix64(hash, static_cast<unsigned char>(byte));
  }
  for (const auto& [id, table] : tables_) hash = ring::Mix64(hash, table->rows.Hash());
  return hash;
}

PageWalk::PageWalk(const Segment& segment) {
  tables_.reserve(segment.tables().size());
  for (const auto& [id, table] : segment.tables()) tables_.push_back(id);
}

// Pages are split, never merged: a boundary between two pages stays for ever. So the place after the last
// page delivered is a boundary of what was delivered, whatever was split since.
bool PageWalk::Next(const Segment& segment, size_t bytes_max, std::vector<v1::PageImage>* out) {
  return Next(segment, bytes_max, out, [](TableId, const table::Page&) { return true; });
}

bool PageWalk::Next(const Segment& segment, size_t bytes_max, std::vector<v1::PageImage>* out,
                    Wanted wanted) {
  const size_t before = out->size();
  size_t bytes = 0;
  for (; table_ < tables_.size(); ++table_, from_ = 0) {
    const Segment::Table* table = segment.FindTable(tables_[table_]);
    if (table == nullptr) continue;  // dropped meanwhile
    const size_t row_bytes = sizeof(uint64_t) + table::FloatsPerRow(table->info->schema) * sizeof(float);
    bool full = false;
    table->rows.ForEachPage(from_, [&](const table::Page& page) {
      if (wanted(tables_[table_], page)) {
        bytes += page.rows() * row_bytes;
        full = out->size() > before && bytes > bytes_max;
        if (full) return false;
        out->push_back(PutPage(tables_[table_], page, segment.version()));
      }
      from_ = table->placement.ranged() ? page.range().start + page.rows() : page.range().end();
      return true;
    });
    if (full) return true;
  }
  return out->size() > before;
}

absl::StatusOr<PackedPage> ParsePage(absl::string_view bytes) {
  constexpr absl::string_view kCut = "page: its bytes end too early";
  PackedPage page;
  std::string_view rest(bytes.data(), bytes.size());
  while (!rest.empty()) {
    ABSL_ASSIGN_OR_RETURN(const uint64_t tag, TakeVarint(rest));
    const uint64_t field = tag >> 3;
    switch (tag & 7) {
      case 0: {
        ABSL_ASSIGN_OR_RETURN(const uint64_t value, TakeVarint(rest));
        if (field == v1::PageImage::kTableFieldNumber) page.table = TableId(static_cast<uint32_t>(value));
        if (field == v1::PageImage::kStartFieldNumber) page.start = value;
        if (field == v1::PageImage::kDepthFieldNumber) page.depth = static_cast<uint32_t>(value);
        if (field == v1::PageImage::kVersionFieldNumber) page.version = Lsn(value);
        break;
      }
      case 2: {
        ABSL_ASSIGN_OR_RETURN(const uint64_t size, TakeVarint(rest));
        if (size > rest.size()) return absl::DataLossError(kCut);
        const absl::string_view content(rest.data(), size);
        if (field == v1::PageImage::kKeysFieldNumber) page.keys = content;
        if (field == v1::PageImage::kRowsFieldNumber) page.rows = content;
        rest.remove_prefix(size);
        break;
      }
      default:  // no field ever had another type
        return absl::DataLossError(absl::StrCat("page: field ", field, " has wire type ", tag & 7));
    }
  }
  return page;
}

absl::Status InstallPage(Segment& segment, const v1::PageImage& page) {
  return InstallPage(segment, PackedPage{.table = TableId(page.table()),
                                         .start = page.start(),
                                         .depth = page.depth(),
                                         .version = Lsn(page.version()),
                                         .keys = page.keys(),
                                         .rows = page.rows()});
}

absl::Status InstallPage(Segment& segment, const PackedPage& page) {
  const auto it = segment.tables_.find(page.table);
  if (it == segment.tables_.end()) return absl::OkStatus();
  Segment::Table& table = *it->second;
  if (page.version < segment.version_) {
    return absl::FailedPreconditionError(
        absl::StrCat("page: as of record ", page.version.v, ", and segment ", segment.id_.v,
                     " has applied record ", segment.version_.v, "; expected pages before later records"));
  }
  const auto lost = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("page: of table ", page.table.v, ": ", what));
  };
  if (page.keys.size() % sizeof(uint64_t) != 0) return lost("its keys are not 8 bytes each");
  if (page.rows.size() % sizeof(float) != 0) return lost("its rows are not floats of 4 bytes");
  if (page.depth > 64) return lost("its range has more than 64 bits");
  // Keys of different segments may share a place, and no split would separate them.
  const absl::Status placed = CheckPlaced(table.placement, segment.id_, KeyForm::kKeys, page.keys);
  if (!placed.ok()) return lost(placed.message());
  return table.rows.InstallView(
      {.range = {.start = page.start, .depth = static_cast<int>(page.depth)},
       .version = page.version,
       .keys = table::KeyView(page.keys.data(), page.keys.size() / sizeof(uint64_t)),
       .rows = table::ValueView(page.rows.data(), page.rows.size() / sizeof(float))});
}

}  // namespace paceline::log
