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
#include "libs/world/clock.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/metadata/shard_caller.h"

namespace paceline::coordinator {

// A clock that a test sets.
class ManualClock final : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
};

// What one segment knows of sessions, by the rules shards follow.
struct FakeSegment {
  std::set<uint64_t> open;
  std::set<uint64_t> closed;
  std::set<uint64_t> finished;
  std::map<uint64_t, uint64_t> workers;  // session → start clock
  uint64_t min_clock = 0;
};

// A shard's process, as far as the coordinator can tell.
struct FakeShard {
  uint64_t nonce = 0;
  bool up = true;
  uint32_t id = 0;
  uint64_t incarnation = 0;
  v1::Map map;
  v1::Catalogue catalogue;
  std::map<uint32_t, FakeSegment> segments;                     // by id; those it ever was primary of
  std::set<uint32_t> withheld;                                  // segments that do not commit now
  std::deque<absl::StatusOr<v1::SessionChangeReply>> scripted;  // answers instead of its own, oldest first
  int installs = 0;
  std::vector<v1::SessionChange> changes;  // that reached it

  bool IsPrimaryOf(uint32_t segment) const;
};

// The shards of a test, and the wire to them: calls queue up until Deliver.
class FakeShards final : public ShardCaller {
 public:
  void Install(ShardId shard, const std::string& address, v1::InstallRequest request,
               InstallDone done) override;
  void ChangeSession(ShardId shard, const std::string& address, v1::SessionChange change,
                     ChangeDone done) override;

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
  void DropCalls() { calls_.clear(); }
  size_t CallsUnderWay() const { return calls_.size(); }

  FakeShard& at(const std::string& name) { return shards_.at(name); }
  // What the segment's current primary knows.
  FakeSegment& Segment(uint32_t segment);
  // Sets the min clock of a job everywhere (all tests have one job at a time).
  void AdvanceMinClock(uint64_t min_clock);

  std::function<bool()> drop_calls = [] { return false; };  // true: calls get lost
  std::map<std::string, FakeShard>& all() { return shards_; }

 private:
  static std::string AddressOf(const FakeShard& shard);
  FakeShard* FindAt(const std::string& address);
  absl::StatusOr<v1::SessionChangeReply> Answer(FakeShard& shard, const v1::SessionChange& change);
  v1::JoinClusterRequest JoinRequest(const std::string& name) const;

  std::map<std::string, FakeShard> shards_;
  std::deque<std::function<void()>> calls_;
  uint64_t last_nonce_ = 100;
};

}  // namespace paceline::coordinator
