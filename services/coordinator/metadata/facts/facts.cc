#include "services/coordinator/metadata/facts/facts.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/keys.h"
#include "services/coordinator/metadata/facts/record_io.h"
#include "services/coordinator/metadata/facts/stored_map.h"

namespace paceline::coordinator {
namespace {

// Of records with a map in one value, or in chunks.
constexpr uint32_t kFormatWhole = 1;
constexpr uint32_t kFormatChunks = 2;
// Commits in doubt are undone in steps of about this size, which any store accepts.
constexpr size_t kSettleBytes = size_t{1} << 20;

absl::Status Deposed() {
  return absl::UnavailableError(
      "another coordinator has started on the same store and leads now; ask that one");
}

// The value of the key `commit`.
std::string CommitNumber(uint64_t term, uint64_t number) {
  return absl::StrCat(term, "/", number);
}

template <class Record, class Id, class IdOf>
absl::Status ReadAll(const Store& store, absl::string_view prefix, IdOf id_of, std::map<Id, Record>& into) {
  ABSL_ASSIGN_OR_RETURN(const auto entries, store.List(prefix));
  for (const auto& [key, entry] : entries) {
    ABSL_ASSIGN_OR_RETURN(Record record, Parse<Record>(key, entry));
    const Id id = id_of(record);
    into[id] = std::move(record);
  }
  return absl::OkStatus();
}

template <class Map, class Id>
auto* FindIn(const Map& map, Id id) {
  const auto it = map.find(id);
  return it == map.end() ? nullptr : &it->second;
}

absl::Status SameRing(const ClusterRecord& cluster, int ring_bits) {
  if (cluster.ring_bits() == static_cast<uint32_t>(ring_bits)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("ring_bits: ", ring_bits, ", but this cluster was created with ", cluster.ring_bits(),
                   ", which never changes: start with --ring-bits ", cluster.ring_bits(),
                   ", or, for a new cluster, with another --data-dir or another PREFIX of --store"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Facts>> Facts::Load(Store& store, int ring_bits, uint64_t new_cluster,
                                                   Candidacy candidacy) {
  std::unique_ptr<Facts> facts(new Facts(store));
  ABSL_RETURN_IF_ERROR(facts->LoadCluster(ring_bits, new_cluster));
  // The term comes first: an earlier coordinator cannot change what is read after it.
  ABSL_RETURN_IF_ERROR(facts->TakeTerm(candidacy));
  ABSL_RETURN_IF_ERROR(facts->LoadRecords());
  return facts;
}

template <class Visitor>
void Facts::EachKind(Visitor visit) {
  const auto shard_of = [](const ShardRecord& record) { return record.info().shard(); };
  const auto id_of = [](const auto& record) { return record.id(); };
  const auto table_of = [](const auto& record) { return record.table(); };
  const auto session_of = [](const WorkHeldRecord& record) { return record.session(); };
  visit(keys::kShards, &Facts::shards_, &Changes::shards, &Changes::forgotten_shards, shard_of);
  visit(keys::kJobs, &Facts::jobs_, &Changes::jobs, &Changes::forgotten_jobs, id_of);
  visit(keys::kSessions, &Facts::sessions_, &Changes::sessions, &Changes::forgotten_sessions, id_of);
  visit(keys::kTables, &Facts::tables_, &Changes::tables, &Changes::forgotten_tables, id_of);
  visit(keys::kDrops, &Facts::drops_, &Changes::drops, &Changes::finished_drops, table_of);
  visit(keys::kRuleChanges, &Facts::rule_changes_, &Changes::rule_changes, &Changes::finished_rule_changes,
        table_of);
  visit(keys::kWorkQueues, &Facts::work_queues_, &Changes::work_queues, &Changes::forgotten_work_queues,
        id_of);
  visit(keys::kWorkHeld, &Facts::work_held_, &Changes::work_held, &Changes::forgotten_work_held, session_of);
}

absl::Status Facts::LoadCluster(int ring_bits, uint64_t new_cluster) {
  ABSL_ASSIGN_OR_RETURN(const auto stored, Read<ClusterRecord>(store_, keys::kCluster));
  if (!stored.has_value()) {
    cluster_.set_format(kFormatWhole);
    cluster_.set_ring_bits(static_cast<uint32_t>(ring_bits));
    cluster_.set_id(new_cluster);
    const std::string key(keys::kCluster);
    const absl::Status status = store_.Commit({Condition::Absent(key)}, {Put(key, cluster_)});
    if (!absl::IsFailedPrecondition(status)) return status;
    return absl::AbortedError("another coordinator has just created the cluster; try again");
  }
  cluster_ = *stored;
  if (cluster_.format() < kFormatWhole || cluster_.format() > kFormatChunks) {
    return absl::FailedPreconditionError(absl::StrCat("store: its records have format ", cluster_.format(),
                                                      "; this release knows ", kFormatWhole, " and ",
                                                      kFormatChunks, ": run the release that wrote them"));
  }
  return SameRing(cluster_, ring_bits);
}

absl::Status Facts::CheckRing(Store& store, int ring_bits) {
  ABSL_ASSIGN_OR_RETURN(const auto stored, Read<ClusterRecord>(store, keys::kCluster));
  return stored.has_value() ? SameRing(*stored, ring_bits) : absl::OkStatus();
}

absl::Status Facts::TakeTerm(const Candidacy& candidacy) {
  const std::string key(keys::kTerm);
  const std::string leader(keys::kLeader);
  ABSL_ASSIGN_OR_RETURN(const std::optional<Entry> stored, store_.Get(key));
  uint64_t last = 0;
  if (stored.has_value() && !absl::SimpleAtoi(stored->value, &last)) {
    return absl::DataLossError(absl::StrCat("store: the value of key ", key, " is no number"));
  }
  term_ = last + 1;
  number_ = 0;
  leader_.set_term(term_);
  leader_.set_address(candidacy.address);
  leader_.set_lease_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(candidacy.lease)));
  std::vector<Condition> conditions = {Condition::VersionIs(key, stored.has_value() ? stored->version : 0)};
  if (candidacy.instead_of.has_value()) {
    conditions.push_back(Condition::VersionIs(leader, *candidacy.instead_of));
  }
  const absl::Status status =
      store_.Commit(conditions, {Write::Put(key, absl::StrCat(term_)), Put(leader, leader_),
                                 Write::Put(std::string(keys::kCommit), CommitNumber(term_, *number_))});
  if (!absl::IsFailedPrecondition(status)) return status;
  return absl::AbortedError("another coordinator leads");
}

absl::Status Facts::LoadRecords() {
  ABSL_ASSIGN_OR_RETURN(const auto counters, Read<CountersRecord>(store_, keys::kCounters));
  if (counters.has_value()) counters_ = *counters;
  ABSL_ASSIGN_OR_RETURN(auto map, ReadMap(store_));
  if (map.has_value()) {
    map_ = std::make_shared<const v1::Map>(*std::move(map));
    history_.Add(map_, nullptr);
  }
  ABSL_ASSIGN_OR_RETURN(auto nonces, Read<NoncesRecord>(store_, keys::kNonces));
  if (nonces.has_value()) nonces_ = *std::move(nonces);
  absl::Status read;
  EachKind([&](absl::string_view prefix, auto records, auto, auto, auto id_of) {
    if (read.ok()) read = ReadAll(store_, prefix, id_of, this->*records);
  });
  ABSL_RETURN_IF_ERROR(read);
  RaiseCounters();
  return absl::OkStatus();
}

void Facts::RaiseCounters() {
  const auto last_of = [](const auto& records) { return records.empty() ? 0 : records.rbegin()->first; };
  CountersRecord& c = counters_;
  for (const auto& [id, shard] : shards_) {
    c.set_incarnation(std::max(c.incarnation(), shard.info().incarnation()));
  }
  if (!shards_.empty()) c.set_shards(std::max(c.shards(), last_of(shards_) + 1));
  c.set_job(std::max(c.job(), last_of(jobs_)));
  c.set_session(std::max({c.session(), last_of(sessions_), c.closed_floor()}));
  c.set_table(std::max(c.table(), last_of(tables_)));
  c.set_work_queue(std::max(c.work_queue(), last_of(work_queues_)));
  c.set_catalogue_version(std::max<uint64_t>(c.catalogue_version(), tables_.size()));
  const auto raise = [&c](const auto& records) {
    for (const auto& [id, record] : records) c.set_change(std::max(c.change(), record.change()));
  };
  raise(jobs_), raise(sessions_), raise(drops_), raise(rule_changes_);
  // A session without a record is closed, or nobody was ever told of it.
  uint64_t floor = c.closed_floor();
  while (floor < c.session() && !sessions_.contains(floor + 1)) ++floor;
  c.set_closed_floor(floor);
}

uint64_t Facts::NumberIn(Changes& changes) const {
  if (!changes.counters.has_value()) changes.counters = counters_;
  changes.counters->set_change(changes.counters->change() + 1);
  return changes.counters->change();
}

// Nobody was told of a session that is still being opened. A session without a record was closed, and may
// have been open.
bool Facts::AnybodyWasTold() const {
  // A load that failed ends in the job's deletion.
  const auto counts = [](const JobRecord& job) { return !job.has_load() && !job.deleting(); };
  const auto is_loaded = [&](const auto& table) {
    const JobRecord* job = FindJob(table.second.job());
    return job == nullptr || counts(*job);
  };
  if (std::ranges::any_of(tables_, is_loaded)) return true;
  // A snapshot without tables has clocks.
  const auto has_clocks = [&](const auto& job) { return job.second.had_workers() && counts(job.second); };
  if (std::ranges::any_of(jobs_, has_clocks)) return true;
  const auto opening = std::ranges::count_if(
      sessions_, [](const auto& session) { return session.second.state() == SessionRecord::OPENING; });
  return counters_.session() > counters_.unopened() + static_cast<uint64_t>(opening);
}

std::vector<Write> Facts::WritesOf(const Changes& changes) {
  std::vector<Write> writes;
  if (changes.counters.has_value()) writes.push_back(Put(std::string(keys::kCounters), *changes.counters));
  if (changes.nonces.has_value()) writes.push_back(Put(std::string(keys::kNonces), *changes.nonces));
  EachKind([&](absl::string_view prefix, auto, auto records, auto gone, auto id_of) {
    for (const auto& record : changes.*records) {
      writes.push_back(Put(keys::Of(prefix, id_of(record)), record));
    }
    for (const auto id : changes.*gone) writes.push_back(Write::Delete(keys::Of(prefix, id)));
  });
  return writes;
}

absl::Status Facts::Commit(Changes changes) {
  ABSL_RETURN_IF_ERROR(Settle());
  if (!changes.map.has_value()) {
    ABSL_RETURN_IF_ERROR(CommitUnderTerm(WritesOf(changes)));
    Apply(changes);
    return absl::OkStatus();
  }
  std::optional<MapChange> change;
  if (map_ != nullptr) change = MapChangeOf(*map_, *changes.map);
  ABSL_RETURN_IF_ERROR(CommitMap(changes, change.has_value() ? &*change : nullptr));
  const bool follows = change.has_value() && changes.map->version() == map_->version() + 1;
  map_ = std::make_shared<const v1::Map>(*std::move(changes.map));
  history_.Add(map_, follows ? &*change : nullptr);
  changes.map.reset();
  Apply(changes);
  return absl::OkStatus();
}

absl::Status Facts::CommitMap(const Changes& changes, const MapChange* change) {
  ClusterRecord cluster = cluster_;
  const bool first_in_chunks = cluster.map_chunk() == 0 && changes.map->feature_level() >= 2;
  if (first_in_chunks) {
    cluster.set_format(kFormatChunks);
    cluster.set_map_chunk(MapChunkOf(SegmentCount()));
    change = nullptr;
  }
  std::vector<Write> map = MapWrites(*changes.map, cluster.map_chunk(), change);
  if (first_in_chunks) {
    ABSL_RETURN_IF_ERROR(WriteAhead(map));
    map.push_back(Put(std::string(keys::kCluster), cluster));
  }
  std::vector<Write> writes = WritesOf(changes);
  std::ranges::move(map, std::back_inserter(writes));
  ABSL_RETURN_IF_ERROR(CommitUnderTerm(std::move(writes)));
  cluster_ = cluster;
  return absl::OkStatus();
}

// Nobody reads chunks before the cluster's record names them.
absl::Status Facts::WriteAhead(std::vector<Write>& map) {
  const auto bytes_of = [](const Write& write) { return write.key.size() + write.value->size(); };
  size_t bytes = 0;
  for (const Write& write : map) bytes += bytes_of(write);
  while (bytes > kSettleBytes && map.size() > 1) {
    std::vector<Write> some;
    for (size_t taken = 0; map.size() > 1 && taken < kSettleBytes / 2; map.pop_back()) {
      taken += bytes_of(map.back());
      bytes -= bytes_of(map.back());
      some.push_back(std::move(map.back()));
    }
    ABSL_RETURN_IF_ERROR(CommitUnderTerm(std::move(some)));
  }
  return absl::OkStatus();
}

absl::Status Facts::ConfirmLead(const std::string& address) {
  ABSL_RETURN_IF_ERROR(Settle());
  LeaderRecord next = leader_;
  next.set_address(address);
  next.set_confirmed(leader_.confirmed() + 1);
  ABSL_RETURN_IF_ERROR(CommitUnderTerm({Put(std::string(keys::kLeader), next)}));
  leader_ = next;
  return absl::OkStatus();
}

absl::Status Facts::ConfirmTerm() {
  const absl::StatusOr<std::optional<Entry>> stored = store_.Get(keys::kTerm);
  if (!stored.ok()) return absl::UnavailableError(stored.status().message());
  deposed_ |= !stored->has_value() || (*stored)->value != absl::StrCat(term_);
  return deposed_ ? Deposed() : absl::OkStatus();
}

absl::Status Facts::Resign() {
  ABSL_RETURN_IF_ERROR(Settle());
  return CommitUnderTerm({Write::Delete(std::string(keys::kLeader))});
}

absl::Status Facts::Settle() {
  if (deposed_) return Deposed();
  if (!number_.has_value()) ABSL_RETURN_IF_ERROR(LearnNumber());
  while (!in_doubt_.empty()) {
    // The parts of a map go back together, and first.
    const bool map = std::ranges::any_of(in_doubt_, IsOfMap);
    std::vector<Write> writes;
    size_t bytes = 0;
    for (const std::string& key : in_doubt_) {
      if (IsOfMap(key) != map) continue;
      Write write = ValueOf(key);
      bytes += key.size() + write.value.value_or("").size();
      if (!map && !writes.empty() && bytes > kSettleBytes) break;
      writes.push_back(std::move(write));
    }
    ABSL_RETURN_IF_ERROR(CommitUnderTerm(writes));
    for (const Write& write : writes) in_doubt_.erase(write.key);
  }
  return absl::OkStatus();
}

absl::Status Facts::LearnNumber() {
  const auto stored = store_.Get(keys::kCommit);
  if (!stored.ok()) {
    store_status_ = stored.status();
    return absl::UnavailableError(
        absl::StrCat("the coordinator cannot read its store: ", stored.status().message(), "; try again"));
  }
  const std::string commit = stored->has_value() ? (*stored)->value : "";
  absl::string_view value = commit;
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&value, absl::StrCat(term_, "/")) || !absl::SimpleAtoi(value, &number)) {
    deposed_ = true;  // each term begins by writing its own number
    return Deposed();
  }
  number_ = number;
  return absl::OkStatus();
}

absl::Status Facts::CommitUnderTerm(std::vector<Write> writes) {
  const std::string commit(keys::kCommit);
  writes.push_back(Write::Put(commit, CommitNumber(term_, *number_ + 1)));
  const absl::Status status =
      store_.Commit({Condition::ValueIs(std::string(keys::kTerm), absl::StrCat(term_)),
                     Condition::ValueIs(commit, CommitNumber(term_, *number_))},
                    writes);
  writes.pop_back();
  if (absl::IsFailedPrecondition(status)) return Refused();
  store_status_ = status;
  if (status.ok()) {
    *number_ += 1;
    return status;
  }
  if (!absl::IsInvalidArgument(status)) {  // which the store returns before it writes anything
    number_.reset();
    for (const Write& write : writes) in_doubt_.insert(write.key);
  }
  return absl::UnavailableError(absl::StrCat("the coordinator cannot write its store: ", status.message(),
                                             "; as far as it knows nothing was changed; try again"));
}

absl::Status Facts::Refused() {
  number_.reset();
  ABSL_RETURN_IF_ERROR(LearnNumber());
  return absl::UnavailableError(
      "an earlier commit of the coordinator has arrived late and is undone; try again");
}

Write Facts::ValueOf(const std::string& key) const {
  if (key == keys::kLeader) return Put(key, leader_);
  if (key == keys::kCounters) return Put(key, counters_);
  if (key == keys::kNonces) return Put(key, nonces_);
  if (key == keys::kCluster) return Put(key, cluster_);
  if (IsOfMap(key)) return MapWriteOf(key, map_.get(), cluster_.map_chunk());
  Write write = Write::Delete(key);
  EachKind([&](absl::string_view prefix, auto records, auto, auto, auto) {
    uint64_t id = 0;
    absl::string_view number = key;
    if (!absl::ConsumePrefix(&number, prefix) || !absl::SimpleAtoi(number, &id)) return;
    const auto& known = this->*records;
    const auto it = known.find(static_cast<typename std::decay_t<decltype(known)>::key_type>(id));
    if (it != known.end()) write = Put(key, it->second);
  });
  return write;
}

void Facts::Apply(const Changes& changes) {
  if (changes.counters.has_value()) counters_ = *changes.counters;
  if (changes.nonces.has_value()) nonces_ = *changes.nonces;
  EachKind([&](absl::string_view, auto records, auto changed, auto gone, auto id_of) {
    for (const auto& record : changes.*changed) (this->*records)[id_of(record)] = record;
    for (const auto id : changes.*gone) (this->*records).erase(id);
  });
}

const ShardRecord* Facts::FindShard(uint32_t id) const {
  return FindIn(shards_, id);
}
const JobRecord* Facts::FindJob(uint32_t id) const {
  return FindIn(jobs_, id);
}
const SessionRecord* Facts::FindSession(uint64_t id) const {
  return FindIn(sessions_, id);
}

const ShardRecord* Facts::FindShard(absl::string_view name) const {
  for (const auto& [id, shard] : shards_) {
    if (shard.info().name() == name) return &shard;
  }
  return nullptr;
}

const JobRecord* Facts::FindJob(absl::string_view name, bool loading) const {
  for (const auto& [id, job] : jobs_) {
    if (job.name() == name && job.has_load() == loading) return &job;
  }
  return nullptr;
}

const v1::Table* Facts::FindTable(uint32_t id) const {
  return FindIn(tables_, id);
}
const TableDropRecord* Facts::FindDrop(uint32_t table) const {
  return FindIn(drops_, table);
}
const RuleChangeRecord* Facts::FindRuleChange(uint32_t table) const {
  return FindIn(rule_changes_, table);
}
const WorkQueueRecord* Facts::FindWorkQueue(uint32_t id) const {
  return FindIn(work_queues_, id);
}

const v1::Table* Facts::FindTable(uint32_t job, absl::string_view name) const {
  for (const auto& [id, table] : tables_) {
    if (table.job() == job && table.name() == name) return &table;
  }
  return nullptr;
}

std::string Facts::JobName(uint32_t job) const {
  const JobRecord* found = FindJob(job);
  return found == nullptr ? absl::StrCat("job ", job) : absl::StrCat("job '", found->name(), "'");
}

std::string Facts::ShardName(uint32_t shard) const {
  const ShardRecord* found = FindShard(shard);
  if (found == nullptr) return absl::StrCat("shard ", shard);
  return absl::StrCat(found->info().name(), " (", found->info().address(), ")");
}

}  // namespace paceline::coordinator
