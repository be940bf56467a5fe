#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "metadata/records.pb.h"
#include "paceline/v1/types.pb.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

// Changes that become facts together or not at all. All values are absolute, so that committing them once
// more, after a commit whose outcome is unknown, does no harm.
struct Changes {
  std::optional<CountersRecord> counters;
  std::optional<v1::Map> map;
  std::vector<ShardRecord> shards;
  std::vector<JobRecord> jobs;
  std::vector<SessionRecord> sessions;
  std::vector<uint64_t> forgotten_sessions;
  std::vector<v1::Table> tables;
};

// Everything the coordinator knows for certain: what is in its store, mirrored in memory. Decisions read it
// here and change it by Commit and in no other way, so that a restart finds all that anybody was told.
//
// Each coordinator that starts takes the next term, and commits under it only: once another one has started
// on the same store, this one can change nothing any more. Single owner, no locks. Pointers into it are good
// until the next Commit.
class Facts {
 public:
  // Reads everything and takes the next term; a store that is empty becomes a cluster of 2^ring_bits
  // segments. kFailedPrecondition: the store belongs to a cluster with another ring, to a newer release, or
  // another coordinator took a term meanwhile. kDataLoss: a record cannot be read. Otherwise as Store.
  // `store` must outlive the facts.
  static absl::StatusOr<std::unique_ptr<Facts>> Load(Store& store, int ring_bits);

  // OK: `changes` are in the store, synced, and can be seen here. Otherwise nothing changed here.
  // UNAVAILABLE: the store failed, or another coordinator leads (deposed() says which). Blocks on the store.
  absl::Status Commit(const Changes& changes);

  uint64_t term() const { return term_; }
  bool deposed() const { return deposed_; }
  // The error of the last Commit; OK once one has succeeded again.
  const absl::Status& store_status() const { return store_status_; }

  int ring_bits() const { return static_cast<int>(cluster_.ring_bits()); }
  uint32_t SegmentCount() const { return uint32_t{1} << cluster_.ring_bits(); }
  const CountersRecord& counters() const { return counters_; }
  // nullptr: the first shards have not all joined yet.
  const std::shared_ptr<const v1::Map>& map() const { return map_; }
  uint64_t map_version() const { return map_ == nullptr ? 0 : map_->version(); }

  const std::map<uint32_t, ShardRecord>& shards() const { return shards_; }
  const std::map<uint32_t, JobRecord>& jobs() const { return jobs_; }
  const std::map<uint64_t, SessionRecord>& sessions() const { return sessions_; }
  const std::map<uint32_t, v1::Table>& tables() const { return tables_; }

  // nullptr: there is none.
  const ShardRecord* FindShard(uint32_t id) const;
  const ShardRecord* FindShard(absl::string_view name) const;
  const JobRecord* FindJob(uint32_t id) const;
  const JobRecord* FindJob(absl::string_view name) const;
  const SessionRecord* FindSession(uint64_t id) const;
  const v1::Table* FindTable(uint32_t job, absl::string_view name) const;

  // "job 'ctr'", "shard-1 (127.0.0.1:7001)", for messages.
  std::string JobName(uint32_t job) const;
  std::string ShardName(uint32_t shard) const;

 private:
  explicit Facts(Store& store) : store_(store) {}
  absl::Status LoadCluster(int ring_bits);
  absl::Status TakeTerm();
  absl::Status LoadRecords();
  void Apply(const Changes& changes);

  Store& store_;
  uint64_t term_ = 0;
  bool deposed_ = false;
  absl::Status store_status_;
  ClusterRecord cluster_;
  CountersRecord counters_;
  std::shared_ptr<const v1::Map> map_;
  std::map<uint32_t, ShardRecord> shards_;
  std::map<uint32_t, JobRecord> jobs_;
  std::map<uint64_t, SessionRecord> sessions_;
  std::map<uint32_t, v1::Table> tables_;
};

}  // namespace paceline::coordinator
