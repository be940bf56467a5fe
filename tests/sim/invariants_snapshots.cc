// Cut, of job snapshots: their files hold what the logs held at their cuts.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/ring/placement.h"
#include "libs/snapshot/manifest.h"
#include "tests/sim/invariants.h"

namespace paceline::sim {
namespace {

template <class T>
T At(absl::string_view bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Adds the rows of one file. An error names its fault.
absl::Status ReadRows(snapshot::Files& files, const v1::SnapshotManifest& manifest,
                      const v1::SnapshotFile& file, SnapshotRows& rows) {
  auto decoder = snapshot::OpenFile(files, manifest, file);
  if (!decoder.ok()) return decoder.status();
  while (true) {
    const auto block = decoder->Next();
    if (!block.ok()) return block.status();
    if (!block->has_value()) return snapshot::CheckWhole(*decoder, manifest, file);
    const size_t floats = (*block)->floats;
    for (size_t i = 0; i < (*block)->keys.size() / sizeof(uint64_t); ++i) {
      std::vector<float> row(floats);
      for (size_t f = 0; f < floats; ++f) row[f] = At<float>((*block)->rows, i * floats + f);
      const uint64_t key = At<uint64_t>((*block)->keys, i);
      if (rows[(*block)->table].emplace(key, std::move(row)).second) continue;
      return absl::DataLossError(
          absl::StrCat("key ", key, " of table ", (*block)->table.v, " is there twice"));
    }
  }
}

bool Same(const std::vector<float>* a, const std::vector<float>* b) {
  static const std::vector<float> kNone;
  const std::vector<float>& x = a == nullptr ? kNone : *a;
  const std::vector<float>& y = b == nullptr ? kNone : *b;
  for (size_t i = 0; i < std::max(x.size(), y.size()); ++i) {
    if ((i < x.size() ? x[i] : 0) != (i < y.size() ? y[i] : 0)) return false;
  }
  return true;
}

// A key whose rows differ, where a row that is not there is zeros.
std::optional<uint64_t> Differs(const TableRows& a, const TableRows& b) {
  const auto find = [](const TableRows& in, uint64_t key) {
    const auto it = in.find(key);
    return it == in.end() ? nullptr : &it->second;
  };
  for (const auto& [key, row] : a) {
    if (!Same(&row, find(b, key))) return key;
  }
  for (const auto& [key, row] : b) {
    if (!Same(&row, find(a, key))) return key;
  }
  return std::nullopt;
}

}  // namespace

// -- the cuts, as they are logged --

void Invariants::On(const log::Cut& record, const log::Segment& after, SegmentLedger& ledger) {
  if (record.clock != ledger.MinClock(record.job)) {
    verdict_.Violated("Cut", absl::StrCat("segment ", after.id().v, ": cut ", record.id, " is at clock ",
                                          record.clock, ", the min clock is ", ledger.MinClock(record.job)));
  }
  const std::optional<Clock> asked = cuts_asked_[record.id];
  if (asked.has_value() && record.clock != *asked) {
    verdict_.Violated("Cut", absl::StrCat("segment ", after.id().v, ": cut ", record.id, " is at clock ",
                                          record.clock, ", it was agreed for clock ", *asked));
  }
  LoggedCut cut{.id = record.id, .job = record.job, .clock = record.clock, .sessions = {}, .rates = {}};
  for (const auto& [id, session] : ledger.sessions) {
    if (truth_.JobOf(id) != record.job) continue;
    cut.sessions[id] = {
        .applied = session.applied, .at_work = session.AtWork(), .gone = session.closed && !session.finished};
  }
  for (const auto& [id, table] : ledger.tables) {
    if (table.rows != nullptr) cut.rates[id] = table.rows;
  }
  cuts_[{after.id(), ledger.epoch, after.version()}] = std::move(cut);
}

void Invariants::OnSnapshotBegun(const std::string& name) {
  std::vector<ring::Member>& primaries = snapshots_[name].primaries;
  for (const SegmentLedger& ledger : ledgers_) primaries.push_back(ledger.Primary());
}

void Invariants::OnSnapshotComplete(const std::string& name) {
  const std::vector<ring::Member>& primaries = snapshots_[name].primaries;
  marks_.Hit("a job snapshot is complete");
  marks_.Hit(snapshots_[name].exact ? "a job snapshot is exact" : "a job snapshot is not exact");
  if (snapshots_[name].again) marks_.Hit("a job snapshot is cut again");
  for (size_t s = 0; s < primaries.size(); ++s) {
    if (primaries[s] == ledgers_[s].Primary()) continue;
    return marks_.Hit("a job snapshot is complete after a takeover in between");
  }
}

// -- files --

void Invariants::Cut(const std::string& name, snapshot::Files& files) {
  const auto violated = [&](const std::string& what) {
    verdict_.Violated("Cut", absl::StrCat("snapshot ", name, ": ", what));
  };
  const auto manifest = snapshot::ReadManifest(files, name);
  if (!manifest.ok()) return violated(manifest.status().ToString());
  if (static_cast<size_t>(manifest->files_size()) != ledgers_.size())
    return violated(absl::StrCat(manifest->files_size(), " files"));
  SnapshotRows held;
  SnapshotRows expected;
  for (const v1::Table& table : manifest->tables()) {
    if (table.rule_clock() > manifest->clock() && !table.only_bound())
      violated("rates of a later clock are in it");
    if (const TableRows* loaded = truth_.Loaded(TableId(table.id()))) expected[TableId(table.id())] = *loaded;
  }
  for (const v1::SnapshotFile& file : manifest->files()) {
    const SegmentId segment(file.segment());
    const absl::Status read = ReadRows(files, *manifest, file, held);
    if (!read.ok()) return violated(read.ToString());
    const auto cut = cuts_.find({segment, Epoch(file.epoch()), Lsn(file.lsn())});
    const bool known =
        cut != cuts_.end() && cut->second.id == file.cut() && cut->second.clock == file.clock();
    const SegmentLedger& ledger = ledgers_[segment.v];
    if (!known || ledger.IsVoid(Epoch(file.epoch()), Lsn(file.lsn()))) {
      return violated(absl::StrCat(file.name(), ": record ", file.lsn(), " is not that cut"));
    }
    // Or a later primary has it.
    if (Epoch(file.epoch()) == ledger.epoch && Lsn(file.lsn()) > ledger.committed) {
      violated(absl::StrCat(file.name(), ": record ", file.lsn(), " is not committed"));
    }
    if (manifest->exact() && (!file.exact() || file.clock() != manifest->clock()))
      violated(absl::StrCat(file.name(), " is not exact, the manifest says so"));
    if (const std::string wrong = CutClocks(segment, cut->second, file); !wrong.empty())
      violated(absl::StrCat(file.name(), ": ", wrong));
    AddCut(segment, cut->second, expected);
  }
  for (const v1::Table& table : manifest->tables()) {
    const TableId id(table.id());
    const auto key = Differs(held[id], expected[id]);
    if (key.has_value())
      violated(absl::StrCat("key ", *key, " of table '", table.name(), "' is not what was logged"));
  }
  Snapshot& snapshot = snapshots_[name];
  snapshot.exact = manifest->exact();
  snapshot.again = !absl::StrContains(name, absl::StrCat("-", manifest->files(0).cut(), "-"));
  snapshot.rows = std::move(held);
}

// Every worker's updates of smaller clocks are in; of an aggregated table no others.
std::string Invariants::CutClocks(SegmentId segment, const LoggedCut& cut,
                                  const v1::SnapshotFile& file) const {
  std::set<SessionId> at_work;
  for (const auto& [id, session] : truth_.sessions()) {
    const auto found = cut.sessions.find(id);
    const LoggedCut::Of of = found == cut.sessions.end() ? LoggedCut::Of() : found->second;
    if (session.job != cut.job) continue;
    if (of.at_work) at_work.insert(id);
    for (const Line line : {Line::kArrival, Line::kAggregated}) {
      const SegmentAndLine where{segment.v, line};
      const PartNumber applied = of.applied.At(line);
      if (session.worker && !of.gone && applied < session.SealedAt(where, cut.clock)) {
        return absl::StrCat("session ", id.v, " has ", session.SealedAt(where, cut.clock),
                            " parts of smaller clocks, ", applied, " are in");
      }
      const bool only = line == Line::kAggregated || (file.exact() && session.worker && !of.gone);
      // An empty part, in the place of one that was refused, is no update.
      for (PartNumber n = session.SealedAt(where, cut.clock) + 1; only && n <= applied; ++n) {
        const TruePart& part = session.parts.at(where)[n - 1];
        if (part.valid)
          return absl::StrCat("part ", n, " of session ", id.v, ", of clock ", part.clock, ", is in");
      }
    }
  }
  if (file.exact()) return "";
  for (const v1::SnapshotWorker& worker : file.workers()) {
    const TrueSession& session = truth_.sessions().at(SessionId(worker.session()));
    const SegmentAndLine where{segment.v, Line::kArrival};
    if (at_work.erase(session.id) == 0) return absl::StrCat("session ", session.id.v, " was not at work");
    if (cut.sessions.at(session.id).applied.At(Line::kArrival) >= session.SealedAt(where, worker.clock()))
      continue;
    return absl::StrCat("session ", session.id.v, " is said to be at clock ", worker.clock());
  }
  return at_work.empty() ? "" : absl::StrCat("session ", at_work.begin()->v, " was at work");
}

// The part of it that is the segment's.
LoggedTable::Rows Invariants::LoadedHere(SegmentId segment, TableId table) const {
  LoggedTable::Rows here;
  const TableRows* rows = truth_.Loaded(table);
  if (rows == nullptr) return here;
  const auto placement = ring::Placement::Sparse(table, ring_bits_);
  for (const auto& [key, row] : *rows) {
    if (placement->Of(key) == segment) here[key].assign(row.begin(), row.end());
  }
  return here;
}

// The parts that the log held of the job's tables: of each session its first ones.
void Invariants::AddCut(SegmentId segment, const LoggedCut& cut, SnapshotRows& rows) const {
  for (const auto& [id, of] : cut.sessions) {
    const TrueSession& session = truth_.sessions().at(id);
    for (const Line line : {Line::kArrival, Line::kAggregated}) {
      const auto parts = session.parts.find({segment.v, line});
      if (parts == session.parts.end()) continue;
      for (size_t n = 0; n < std::min<size_t>(of.applied.At(line), parts->second.size()); ++n) {
        const TruePart& part = parts->second[n];
        const Purpose purpose = truth_.PurposeOf(part.table);
        if (!part.valid || purpose == Purpose::kRates || purpose == Purpose::kMeans) continue;
        AddTo(rows[part.table], part, purpose == Purpose::kAssigns ? 1 : kColumns,
              purpose == Purpose::kAssigns);
      }
    }
  }
  for (const auto& [id, of_table] : cut.rates) {
    for (const auto& [key, row] : *of_table) rows[id][key].assign(row.begin(), row.end());
  }
}

// -- jobs that were made of them --

void Invariants::OnLoaded(JobId job, uint64_t load, const std::string& snapshot,
                          const std::map<TableId, TableId>& tables) {
  marks_.Hit("a job snapshot becomes a job");
  for (const auto& [to, from] : tables) truth_.OnLoaded(to, snapshots_[snapshot].rows[from]);
  for (uint32_t s = 0; s < ledgers_.size(); ++s) {
    if (ledgers_[s].jobs[job].loaded == load) continue;
    verdict_.Violated("Cut",
                      absl::StrCat("job ", job.v, " counts as loaded everywhere, segment ", s, " is not"));
  }
}

// Without work since then they hold the loaded rows, bit by bit.
void Invariants::Loaded(const log::Segment& segment) {
  for (const auto& [id, of_table] : truth_.tables()) {
    const TableRows* loaded = truth_.Loaded(id);
    if (loaded == nullptr || truth_.IsDropped(id) || !truth_.Untouched(of_table.job)) continue;
    const TableRows& rows = *loaded;
    const auto placement = ring::Placement::Sparse(id, segment.ring_bits());
    const log::Segment::Table* table = segment.FindTable(id);
    uint64_t here = 0;
    for (const auto& [key, row] : rows) {
      if (placement->Of(key) != segment.id()) continue;
      ++here;
      std::vector<float> held(row.size());
      if (table != nullptr)
        table->rows.Read(table::KeyView(reinterpret_cast<const std::byte*>(&key), 1), held.data());
      if (table != nullptr && held == row) continue;
      verdict_.Violated("Cut", absl::StrCat("segment ", segment.id().v, ": key ", key, " of table ", id.v,
                                            ", which was loaded, is not that of the snapshot"));
      return;
    }
    if (table == nullptr || table->rows.rows() == here) continue;
    verdict_.Violated("Cut",
                      absl::StrCat("segment ", segment.id().v, ": table ", id.v, ", which was loaded, has ",
                                   table->rows.rows(), " rows, the snapshot has ", here, " of them"));
  }
}

}  // namespace paceline::sim
