#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "metadata/records.pb.h"
#include "paceline/v1/types.pb.h"
#include "services/coordinator/metadata/facts/map_history.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

// Changes that take effect together or not at all. All values are absolute.
struct Changes {
  std::optional<CountersRecord> counters;
  std::optional<v1::Map> map;
  std::optional<NoncesRecord> nonces;
  std::vector<ShardRecord> shards;
  std::vector<uint32_t> forgotten_shards;
  std::vector<JobRecord> jobs;
  std::vector<SessionRecord> sessions;
  std::vector<uint64_t> forgotten_sessions;
  std::vector<uint32_t> forgotten_jobs;
  std::vector<v1::Table> tables;
  std::vector<uint32_t> forgotten_tables;
  std::vector<TableDropRecord> drops;
  std::vector<uint32_t> finished_drops;  // by table
  std::vector<RuleChangeRecord> rule_changes;
  std::vector<uint32_t> finished_rule_changes;  // by table
  std::vector<WorkQueueRecord> work_queues;
  std::vector<uint32_t> forgotten_work_queues;
  std::vector<WorkHeldRecord> work_held;
  std::vector<uint64_t> forgotten_work_held;  // by session
};

// How a coordinator becomes the leader.
struct Candidacy {
  std::string address;        // of its service, for the others and for clients
  absl::Duration lease = {};  // what the others grant it; 0: there are no others
  // The version of the leader's record that was seen for the length of its lease; 0: there was no record. If
  // the record has another version by now the term is not taken. nullopt: take the term in any case.
  std::optional<uint64_t> instead_of;
};

// All that the coordinator knows for certain: the content of its store, mirrored in memory. Decisions read it
// here and change it only by Commit, so a restart finds everything that anybody was told.
//
// Each coordinator that starts takes the next term, and commits only under that term: once another one has
// started on the same store this one can change nothing any more. Single owner, no locks. Pointers into the
// facts are valid until the next Commit.
//
// A commit that failed may have taken effect all the same: its keys are *in doubt*. Later decisions do not
// take it into account, so before the next commit these keys are set back to the values known here. Otherwise
// a number that the lost commit issued could be issued again.
//
// More than 15 members: one for each kind of record in the store, and the store itself.
class Facts {
 public:
  // Reads everything and takes the next term. An empty store becomes a cluster of 2^ring_bits segments with
  // the id `new_cluster`. kFailedPrecondition: the store belongs to a cluster with another ring, or to a
  // newer release. kAborted: another coordinator took a term meanwhile, or still leads. kDataLoss: a record
  // cannot be read. Otherwise as Store. `store` must outlive the facts.
  static absl::StatusOr<std::unique_ptr<Facts>> Load(Store& store, int ring_bits, uint64_t new_cluster = 0,
                                                     Candidacy candidacy = {});
  // kFailedPrecondition: the store has a cluster with another ring. OK if it has none. For coordinators that
  // stand by, which would only find out when they are to lead. Otherwise as Store.
  static absl::Status CheckRing(Store& store, int ring_bits);

  // OK: `changes` are in the store, synced, and visible here. Otherwise nothing has changed here.
  // UNAVAILABLE: the store failed, or another coordinator leads (deposed() tells which). Blocks on the store.
  absl::Status Commit(Changes changes);

  // Tells the other coordinators that this one still leads, at `address`. Fails as Commit.
  absl::Status ConfirmLead(const std::string& address);
  // Tells them that it no longer leads: one of them may begin at once.
  absl::Status Resign();

  // OK: no other coordinator has taken a term since, so nothing in the store is newer than these facts.
  // UNAVAILABLE: another one has (then deposed() is true), or the store fails.
  absl::Status ConfirmTerm();

  uint64_t term() const { return term_; }
  bool deposed() const { return deposed_; }
  // The error of the last Commit; OK once one has succeeded again.
  const absl::Status& store_status() const { return store_status_; }

  int ring_bits() const { return static_cast<int>(cluster_.ring_bits()); }
  // The cluster's id; 0: not known.
  uint64_t cluster() const { return cluster_.id(); }
  uint32_t SegmentCount() const { return uint32_t{1} << cluster_.ring_bits(); }
  const CountersRecord& counters() const { return counters_; }
  // Numbers the change that `changes` begins: adds the counter to them, which must not be replaced
  // afterwards.
  uint64_t NumberIn(Changes& changes) const;
  const NoncesRecord& nonces() const { return nonces_; }
  // True if some session was ever open everywhere, or there is a table, or a job with clocks, other than
  // those of a load under way. If false, segments that begin empty lack nothing that anybody knows of: a load
  // under way is done again.
  bool AnybodyWasTold() const;
  // nullptr: the first shards have not all joined yet.
  const std::shared_ptr<const v1::Map>& map() const { return map_; }
  uint64_t map_version() const { return map_ == nullptr ? 0 : map_->version(); }
  // How others are sent the map.
  const MapHistory& map_history() const { return history_; }

  const std::map<uint32_t, ShardRecord>& shards() const { return shards_; }
  const std::map<uint32_t, JobRecord>& jobs() const { return jobs_; }
  const std::map<uint64_t, SessionRecord>& sessions() const { return sessions_; }
  const std::map<uint32_t, v1::Table>& tables() const { return tables_; }
  // Intents, by table.
  const std::map<uint32_t, TableDropRecord>& drops() const { return drops_; }
  const std::map<uint32_t, RuleChangeRecord>& rule_changes() const { return rule_changes_; }
  const std::map<uint32_t, WorkQueueRecord>& work_queues() const { return work_queues_; }
  // By session.
  const std::map<uint64_t, WorkHeldRecord>& work_held() const { return work_held_; }

  // nullptr: it does not exist.
  const ShardRecord* FindShard(uint32_t id) const;
  const ShardRecord* FindShard(absl::string_view name) const;
  const JobRecord* FindJob(uint32_t id) const;
  // Not a job into which a snapshot is being loaded; FindLoading finds only those.
  const JobRecord* FindJob(absl::string_view name, bool loading = false) const;
  const JobRecord* FindLoading(absl::string_view name) const { return FindJob(name, true); }
  const SessionRecord* FindSession(uint64_t id) const;
  const v1::Table* FindTable(uint32_t job, absl::string_view name) const;
  const v1::Table* FindTable(uint32_t id) const;
  const TableDropRecord* FindDrop(uint32_t table) const;
  const RuleChangeRecord* FindRuleChange(uint32_t table) const;
  const WorkQueueRecord* FindWorkQueue(uint32_t id) const;

  // For messages, as "job 'ctr'" or "shard-1 (127.0.0.1:7001)".
  std::string JobName(uint32_t job) const;
  std::string ShardName(uint32_t shard) const;

 private:
  explicit Facts(Store& store) : store_(store) {}
  absl::Status LoadCluster(int ring_bits, uint64_t new_cluster);
  absl::Status TakeTerm(const Candidacy& candidacy);
  absl::Status LoadRecords();
  // Calls visit(prefix of the keys, member here, member of Changes, member of Changes that has the ids of
  // those that go, function that takes the id from a record) for each kind of record of which there are many.
  template <class Visitor>
  static void EachKind(Visitor visit);
  // All but the map.
  static std::vector<Write> WritesOf(const Changes& changes);
  void Apply(const Changes& changes);
  absl::Status CommitMap(const Changes& changes, const MapChange* change);
  // Commits most chunks of a map by themselves, if all together would be too large for some stores.
  absl::Status WriteAhead(std::vector<Write>& map);
  // Raises counters that are too low in a store that was changed by half, or by an older release.
  void RaiseCounters();
  // Undoes what commits in doubt may have done.
  absl::Status Settle();
  absl::Status CommitUnderTerm(std::vector<Write> writes);
  // Finds out which commit took effect last.
  absl::Status LearnNumber();
  // The error for a condition that did not hold.
  absl::Status Refused();
  // The value known here for a key.
  Write ValueOf(const std::string& key) const;

  Store& store_;
  uint64_t term_ = 0;
  bool deposed_ = false;
  absl::Status store_status_;
  std::optional<uint64_t> number_;  // of the last commit of this term; nullopt: that commit is in doubt
  std::set<std::string> in_doubt_;  // keys
  LeaderRecord leader_;
  ClusterRecord cluster_;
  CountersRecord counters_;
  NoncesRecord nonces_;
  std::shared_ptr<const v1::Map> map_;
  MapHistory history_;
  std::map<uint32_t, ShardRecord> shards_;
  std::map<uint32_t, JobRecord> jobs_;
  std::map<uint64_t, SessionRecord> sessions_;
  std::map<uint32_t, v1::Table> tables_;
  std::map<uint32_t, TableDropRecord> drops_;
  std::map<uint32_t, RuleChangeRecord> rule_changes_;
  std::map<uint32_t, WorkQueueRecord> work_queues_;
  std::map<uint64_t, WorkHeldRecord> work_held_;
};

}  // namespace paceline::coordinator
