#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/feature_level.h"
#include "libs/world/clock.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/changes/shard_caller.h"
#include "services/coordinator/metadata/coordinator_core.h"

namespace paceline::coordinator {

// A clock that a test sets.
class ManualClock final : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
};

// New rates as a segment logged them.
struct FakeRates {
  uint64_t number = 0;
  float lr = 0;
  uint64_t clock = 0;
  bool at_once = false;
  uint32_t bound = 0;
};

// One segment's knowledge of sessions, tables and jobs, by the rules that shards follow.
struct FakeSegment {
  std::set<uint64_t> open;
  std::set<uint64_t> closed;
  std::set<uint64_t> finished;
  std::map<uint64_t, uint64_t> workers;  // session → start clock
  uint64_t min_clock = 0;
  std::set<uint32_t> dropped;                        // tables
  std::map<uint32_t, std::vector<FakeRates>> rates;  // by table, as they were logged
  std::set<uint32_t> closed_jobs;
  uint64_t change_floor = 0;    // changes up to this number are late
  uint64_t cut = 0;             // the last one that was logged
  uint64_t loaded = 0;          // the last load
  bool cut_is_lost = false;     // the next cut finds another primary when it is asked for again
  std::string cannot_snapshot;  // not empty: why cuts and loads fail
  std::function<void(const std::string& folder, const std::string& file)> write_snapshot = [](auto&, auto&) {
  };
};

// A shard's process, as far as the coordinator can tell.
struct FakeShard {
  uint64_t nonce = 0;
  uint32_t level = kFeatureLevel;
  bool up = true;
  uint32_t id = 0;
  uint64_t incarnation = 0;
  v1::Map map;
  v1::Catalogue catalogue;
  std::map<uint32_t, FakeSegment> segments;              // by id; those it ever was primary of
  std::set<uint32_t> withheld;                           // segments that do not commit now
  std::deque<absl::StatusOr<v1::ChangeReply>> scripted;  // answers instead of its own, oldest first
  int installs = 0;
  int deltas = 0;  // of them, those that said what has changed in the map
  bool refuses_deltas = false;
  std::vector<v1::Change> changes;  // that reached it
  // -- as a replica or primary of segments --
  std::map<uint32_t, std::pair<uint64_t, uint64_t>>
      logs;  // (epoch, lsn) of the last record; (1, 1) where absent
  std::string name;
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> left_over;  // logs it keeps of earlier configurations
  std::map<uint32_t, uint64_t> fenced;                          // the epoch below which everything is refused
  std::set<uint32_t> not_silent;                                // segments of which it hears beacons
  std::vector<v1::FenceRequest> fences;                         // that reached it
  std::vector<v1::RecruitRequest> recruits;
  std::vector<v1::HandOverRequest> hand_overs;
  int emptied = 0;           // times that it was to mark its folder so
  std::string keeps_folder;  // not empty: why it refuses that
  v1::BeatRequest says;      // in its beats, beside what follows from the rest

  bool IsPrimaryOf(uint32_t segment) const;
  // By its map.
  bool IsReplicaOf(uint32_t segment) const;
  v1::Member member() const;
};

// The shards of a test, and the wire to them: calls queue up until Deliver.
class FakeShards final : public ShardCaller {
 public:
  void Install(ShardId shard, const std::string& address, v1::InstallRequest request,
               InstallDone done) override;
  void MakeChange(ShardId shard, const std::string& address, v1::Change change, ChangeDone done) override;
  void Fence(ShardId shard, const std::string& address, v1::FenceRequest request, FenceDone done) override;
  void Recruit(ShardId shard, const std::string& address, v1::RecruitRequest request,
               RecruitDone done) override;
  void HandOver(ShardId shard, const std::string& address, v1::HandOverRequest request,
                HandOverDone done) override;
  void Identify(ShardId shard, const std::string& address, v1::IdentifyRequest request,
                IdentifyDone done) override;
  void EmptyFolder(ShardId shard, const std::string& address, v1::EmptyFolderRequest request,
                   EmptyFolderDone done) override;

  // A new process under this name joins; twice under one name is a restart.
  absl::Status Join(CoordinatorCore& core, const std::string& name);
  // Repeats the joining of the process that runs.
  absl::StatusOr<v1::JoinClusterReply> JoinAgain(CoordinatorCore& core, const std::string& name);
  absl::StatusOr<v1::BeatReply> Beat(CoordinatorCore& core, const std::string& name);
  // From every shard that is up.
  void BeatAll(CoordinatorCore& core);
  // Answers every call that is under way, in order. Calls to a shard that is down fail.
  void Deliver();
  // The coordinator's process ended: what it had under way is lost.
  void DropCalls() { calls_.clear(), held_.clear(); }
  size_t CallsUnderWay() const { return calls_.size(); }

  FakeShard& at(const std::string& name) { return shards_.at(name); }
  // The knowledge of the segment's current primary.
  FakeSegment& Segment(uint32_t segment);
  // Sets the min clock of a job everywhere (all tests have one job at a time).
  void AdvanceMinClock(uint64_t min_clock);
  std::set<uint32_t> jobs_with_clocks = {1};  // of which beats tell the min clock

  // The shard of this name sends these wishes.
  absl::StatusOr<v1::ChangeConfigsReply> Wish(CoordinatorCore& core, const std::string& name,
                                              const std::vector<v1::ConfigWish>& wishes);

  // The disks of shards, by name: how far the log of each segment goes. Shards that are not here have no
  // disk.
  std::map<std::string, std::map<uint32_t, std::pair<uint64_t, uint64_t>>> disks;

  uint32_t level = kFeatureLevel;  // that shards speak which join

  // A call, or a change by the name of its action, that is held is not delivered until it is let go.
  std::function<bool(const std::string& call, const std::string& shard)> hold = [](auto&, auto&) {
    return false;
  };
  void LetGo();
  // A new start holds the lock of the folder of the one before.
  bool proves_ends = true;
  std::function<bool()> drop_calls = [] { return false; };  // true: calls get lost
  std::map<std::string, FakeShard>& all() { return shards_; }

 private:
  static std::string AddressOf(const FakeShard& shard);
  static std::string PeerAddressOf(const FakeShard& shard);
  FakeShard* FindAt(const std::string& address);
  std::string NameAt(const std::string& address);  // empty: nobody is there
  absl::StatusOr<v1::ChangeReply> Answer(FakeShard& shard, const v1::Change& change);
  v1::FenceReply Answer(FakeShard& shard, const v1::FenceRequest& request);
  static v1::RecruitReply Answer(FakeShard& shard, const v1::RecruitRequest& request);
  static v1::HandOverReply Answer(FakeShard& shard, const v1::HandOverRequest& request);
  // Queues a call that is answered by Answer.
  template <class Request, class Done>
  void Queue(const std::string& call, const std::string& address, Request request, Done done);
  static absl::StatusOr<v1::EmptyFolderReply> Answer(FakeShard& shard, const v1::EmptyFolderRequest& request);
  v1::JoinClusterRequest JoinRequest(CoordinatorCore& core, const std::string& name) const;

  std::map<std::string, FakeShard> shards_;
  std::deque<std::function<void()>> calls_;
  std::deque<std::function<void()>> held_;
  uint64_t last_nonce_ = 100;
};

}  // namespace paceline::coordinator
