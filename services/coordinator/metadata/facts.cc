#include "services/coordinator/metadata/facts.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/keys.h"

namespace paceline::coordinator {
namespace {

constexpr uint32_t kFormat = 1;

template <class Record>
absl::StatusOr<Record> Parse(absl::string_view key, const Entry& entry) {
  Record record;
  if (record.ParseFromString(entry.value)) return record;
  return absl::DataLossError(absl::StrCat("store: the value of key ", key, " is no ", record.GetTypeName(),
                                          "; restore the store from a backup, or start a new cluster"));
}

template <class Record>
Write Put(std::string key, const Record& record) {
  return Write::Put(std::move(key), record.SerializeAsString());
}

// nullopt: the key is absent.
template <class Record>
absl::StatusOr<std::optional<Record>> Read(const Store& store, absl::string_view key) {
  ABSL_ASSIGN_OR_RETURN(const std::optional<Entry> entry, store.Get(key));
  if (!entry.has_value()) return std::optional<Record>();
  ABSL_ASSIGN_OR_RETURN(Record record, Parse<Record>(key, *entry));
  return std::optional<Record>(std::move(record));
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

std::vector<Write> WritesOf(const Changes& changes) {
  std::vector<Write> writes;
  if (changes.counters.has_value()) writes.push_back(Put(std::string(keys::kCounters), *changes.counters));
  if (changes.map.has_value()) writes.push_back(Put(std::string(keys::kMap), *changes.map));
  for (const auto& shard : changes.shards) writes.push_back(Put(keys::Shard(shard.info().shard()), shard));
  for (const auto& job : changes.jobs) writes.push_back(Put(keys::Job(job.id()), job));
  for (const auto& session : changes.sessions) writes.push_back(Put(keys::Session(session.id()), session));
  for (uint64_t session : changes.forgotten_sessions) writes.push_back(Write::Delete(keys::Session(session)));
  for (const auto& table : changes.tables) writes.push_back(Put(keys::Table(table.id()), table));
  return writes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Facts>> Facts::Load(Store& store, int ring_bits) {
  std::unique_ptr<Facts> facts(new Facts(store));
  ABSL_RETURN_IF_ERROR(facts->LoadCluster(ring_bits));
  // The term first: what is read after it cannot be changed by an earlier coordinator any more.
  ABSL_RETURN_IF_ERROR(facts->TakeTerm());
  ABSL_RETURN_IF_ERROR(facts->LoadRecords());
  return facts;
}

absl::Status Facts::LoadCluster(int ring_bits) {
  ABSL_ASSIGN_OR_RETURN(const auto stored, Read<ClusterRecord>(store_, keys::kCluster));
  if (!stored.has_value()) {
    cluster_.set_format(kFormat);
    cluster_.set_ring_bits(static_cast<uint32_t>(ring_bits));
    const std::string key(keys::kCluster);
    return store_.Commit({Condition::Absent(key)}, {Put(key, cluster_)});
  }
  cluster_ = *stored;
  if (cluster_.format() != kFormat) {
    return absl::FailedPreconditionError(absl::StrCat("store: its records have format ", cluster_.format(),
                                                      "; this release knows ", kFormat,
                                                      ": run the release that wrote them"));
  }
  if (cluster_.ring_bits() == static_cast<uint32_t>(ring_bits)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "ring_bits: ", ring_bits, ", but this cluster was created with ", cluster_.ring_bits(),
      ", which never changes: start with ", cluster_.ring_bits(), ", or with a fresh --data-dir"));
}

absl::Status Facts::TakeTerm() {
  const std::string key(keys::kTerm);
  ABSL_ASSIGN_OR_RETURN(const std::optional<Entry> stored, store_.Get(key));
  uint64_t last = 0;
  if (stored.has_value() && !absl::SimpleAtoi(stored->value, &last)) {
    return absl::DataLossError(absl::StrCat("store: the value of key ", key, " is no number"));
  }
  term_ = last + 1;
  return store_.Commit({Condition::VersionIs(key, stored.has_value() ? stored->version : 0)},
                       {Write::Put(key, absl::StrCat(term_))});
}

absl::Status Facts::LoadRecords() {
  ABSL_ASSIGN_OR_RETURN(const auto counters, Read<CountersRecord>(store_, keys::kCounters));
  if (counters.has_value()) counters_ = *counters;
  ABSL_ASSIGN_OR_RETURN(auto map, Read<v1::Map>(store_, keys::kMap));
  if (map.has_value()) map_ = std::make_shared<const v1::Map>(*std::move(map));
  const auto id_of = [](const auto& record) { return record.id(); };
  const auto shard_of = [](const ShardRecord& record) { return record.info().shard(); };
  ABSL_RETURN_IF_ERROR(ReadAll(store_, keys::kShards, shard_of, shards_));
  ABSL_RETURN_IF_ERROR(ReadAll(store_, keys::kJobs, id_of, jobs_));
  ABSL_RETURN_IF_ERROR(ReadAll(store_, keys::kSessions, id_of, sessions_));
  return ReadAll(store_, keys::kTables, id_of, tables_);
}

absl::Status Facts::Commit(const Changes& changes) {
  if (deposed_) {
    return absl::UnavailableError(
        "another coordinator has started on the same store and leads now; ask that one");
  }
  const std::string key(keys::kTerm);
  const absl::Status status =
      store_.Commit({Condition::ValueIs(key, absl::StrCat(term_))}, WritesOf(changes));
  if (absl::IsFailedPrecondition(status)) {
    deposed_ = true;
    return Commit(changes);
  }
  store_status_ = status;
  if (!status.ok()) {
    return absl::UnavailableError(absl::StrCat("the coordinator cannot write its store: ", status.message(),
                                               "; nothing was changed as far as it knows, try again"));
  }
  Apply(changes);
  return absl::OkStatus();
}

void Facts::Apply(const Changes& changes) {
  if (changes.counters.has_value()) counters_ = *changes.counters;
  if (changes.map.has_value()) map_ = std::make_shared<const v1::Map>(*changes.map);
  for (const auto& shard : changes.shards) shards_[shard.info().shard()] = shard;
  for (const auto& job : changes.jobs) jobs_[job.id()] = job;
  for (const auto& session : changes.sessions) sessions_[session.id()] = session;
  for (uint64_t session : changes.forgotten_sessions) sessions_.erase(session);
  for (const auto& table : changes.tables) tables_[table.id()] = table;
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

const JobRecord* Facts::FindJob(absl::string_view name) const {
  for (const auto& [id, job] : jobs_) {
    if (job.name() == name) return &job;
  }
  return nullptr;
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
