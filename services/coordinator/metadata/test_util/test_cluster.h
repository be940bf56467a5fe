#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/metadata/test_util/test_shards.h"
#include "services/coordinator/store/memory_store.h"

namespace paceline::coordinator {

// A store that fails when a test wants it to.
class FaultyStore final : public Store {
 public:
  enum class Fault {
    kNone,
    kCrashAfter,  // the commit takes effect, and nothing after it
    kFailBefore,  // the commit fails and took no effect
    kFailAfter,   // the commit fails, but did take effect
    kFailLate,    // the commit fails, and is on its way all the same: it arrives after the next one
  };

  explicit FaultyStore(std::unique_ptr<MemoryStore> store) : store_(std::move(store)) {}
  absl::StatusOr<std::optional<Entry>> Get(absl::string_view key) const override { return store_->Get(key); }
  absl::StatusOr<std::vector<std::pair<std::string, Entry>>> List(absl::string_view prefix) const override {
    return store_->List(prefix);
  }
  absl::Status Commit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) override;

  // The fault strikes the `at`-th commit from now on, counted from 1; 0: never.
  void Plan(Fault fault, int at) { fault_ = fault, at_ = at, commits_ = 0; }
  bool crashed() const { return crashed_; }
  int commits() const { return commits_; }
  bool broken = false;  // every commit fails

 private:
  std::unique_ptr<MemoryStore> store_;
  Fault fault_ = Fault::kNone;
  int at_ = 0;
  int commits_ = 0;
  bool crashed_ = false;
  // The commit that is on its way.
  std::optional<std::pair<std::vector<Condition>, std::vector<Write>>> late_;
};

// The answer to a request, when it comes.
template <class Reply>
class Pending {
 public:
  Done<Reply> done() const {
    return [answer = answer_](absl::StatusOr<Reply> reply) { answer->emplace(std::move(reply)); };
  }
  bool answered() const { return answer_->has_value(); }
  absl::Status status() const {
    return answered() ? (*answer_)->status() : absl::UnknownError("no answer yet");
  }
  const Reply& operator*() const { return ***answer_; }
  const Reply* operator->() const { return &***answer_; }
  Ticket ticket = 0;

 private:
  std::shared_ptr<std::optional<absl::StatusOr<Reply>>> answer_ =
      std::make_shared<std::optional<absl::StatusOr<Reply>>>();
};

// A coordinator with fake shards, a store in memory and a clock that the test moves.
class TestCluster {
 public:
  // Of 8 segments, unless the test says otherwise.
  explicit TestCluster(uint32_t shards = 2, Options options = {.ring_bits = 3});
  ~TestCluster();

  CoordinatorCore& core() { return *core_; }
  FakeShards& shards() { return shards_; }
  ManualClock& clock() { return clock_; }
  FaultyStore& store() { return *store_; }

  // Ends the coordinator as a crash does, and starts a new one from the same store. Its store is given the
  // fault planned by `next_fault`, which counts from its first commit.
  absl::Status Restart();
  void Stop();
  // A copy of the store as it is now. Its coordinator must have ended.
  MemoryStore::Disk StoreCopy() const { return *disk_; }
  void PutStore(const MemoryStore::Disk& copy) {
    *disk_ = copy;
    disk_->in_use = false;
  }
  // Another coordinator has begun to lead on the store.
  void TakeTermElsewhere() { disk_->entries.at("term").value = "1000"; }
  // Joins shard-0, shard-1, … and lets the map reach them.
  void JoinShards();
  // Time passes: calls are delivered, shards beat every second, sessions in kept_alive keep alive.
  void Run(absl::Duration duration);
  // The primary of the segment has handed it over: `shard` is its primary in the next map.
  absl::Status MoveSegment(uint32_t segment, uint32_t shard);
  // … until the request is answered, at most a minute.
  template <class Reply>
  void Await(const Pending<Reply>& pending) {
    for (int i = 0; i < 6000 && !pending.answered(); ++i) Run(absl::Milliseconds(10));
  }

  Pending<v1::OpenSessionReply> OpenSession(const std::string& job, uint64_t nonce, uint32_t timeout_ms = 0);
  Pending<v1::JoinJobReply> JoinJob(uint64_t session, uint32_t workers = 0, uint32_t rank_plus_one = 0,
                                    uint32_t timeout_ms = 0);
  Pending<v1::FinishWorkerReply> FinishWorker(uint64_t session, uint32_t timeout_ms = 0);
  Pending<v1::CloseSessionReply> CloseSession(uint64_t session, uint32_t timeout_ms = 0);
  absl::Status KeepAlive(uint64_t session, uint64_t clock = 0);
  absl::StatusOr<v1::OpenTableReply> OpenTable(uint64_t session, const std::string& name,
                                               const v1::TableSchema& schema, bool create = true);
  Pending<v1::DropTableReply> DropTable(uint64_t session, uint32_t table, uint32_t timeout_ms = 0);
  Pending<v1::ChangeRuleReply> ChangeRule(v1::ChangeRuleRequest request);
  Pending<v1::DeleteJobReply> DeleteJob(const std::string& job, bool force = false, uint32_t timeout_ms = 0);
  Pending<v1::DeleteJobReply> DeleteJob(const v1::DeleteJobRequest& request);
  // Accepts every loss that segments wait for.
  absl::StatusOr<v1::RecoverSegmentsReply> AcceptLosses();
  // The secret that the store has for the session; empty: it has ended, or was never opened.
  std::string SecretOf(uint64_t session) const;
  // A session that is open; its number.
  uint64_t Opened(const std::string& job);
  // A session that is a worker.
  uint64_t Worker(const std::string& job);
  // The state of a session as Status tells it; "closed" if it is not there.
  std::string StateOf(uint64_t session);
  std::vector<std::string> Problems();

  // Counts the segments in which the predicate holds.
  int CountSegments(const std::function<bool(const FakeSegment&)>& holds);

  Options options;
  Probe* probe = &default_probe_;
  std::set<uint64_t> kept_alive;
  bool beating = true;
  std::pair<FaultyStore::Fault, int> next_fault{FaultyStore::Fault::kNone, 0};

 private:
  Probe default_probe_;
  world::SplitMix64 random_{1};
  ManualClock clock_;
  std::shared_ptr<MemoryStore::Disk> disk_ = std::make_shared<MemoryStore::Disk>();
  std::unique_ptr<FaultyStore> store_;
  FakeShards shards_;
  std::unique_ptr<CoordinatorCore> core_;
  absl::Time next_beat_ = absl::InfinitePast();
  uint64_t last_nonce_ = 1000;
};

// A sparse table that adds.
v1::TableSchema SparseSchema(uint32_t dim = 4);

}  // namespace paceline::coordinator
