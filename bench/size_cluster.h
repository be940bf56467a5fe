#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"
#include "libs/world/random.h"
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/store/memory_store.h"

namespace paceline::bench {

struct ClusterSize {
  uint32_t shards = 0;
  int ring_bits = 0;
  uint32_t workers = 0;

  uint32_t segments() const { return uint32_t{1} << ring_bits; }
};

// Messages of one kind of receiver.
struct Traffic {
  uint64_t messages = 0;
  uint64_t bytes = 0;
  uint64_t largest = 0;      // bytes of one message
  uint64_t most_to_one = 0;  // messages to one receiver
};

// The coordinator's real core, a store in memory, and shards and clients that answer at once and do nothing.
// Whatever is sent is encoded, as an adapter has to.
class SizeCluster final : private coordinator::ShardCaller {
 public:
  static constexpr uint32_t kReplicas = 1;

  explicit SizeCluster(ClusterSize size);
  ~SizeCluster() override;

  coordinator::CoordinatorCore& core() { return *core_; }
  // The next shard joins.
  absl::Status Join();
  // Answers what was sent to shards, until nothing is.
  void Answer();
  void Beat(uint32_t shard) {
    (void)core_->Beat(BeatOf(shard));
    (void)core_->NextDeadline();
  }
  v1::BeatRequest BeatOf(uint32_t shard) const;
  // A session of the one job; nullopt: it did not open.
  absl::StatusOr<v1::OpenSessionReply> Open();
  absl::Status MakeWorker(const v1::OpenSessionReply& session);
  // A worker's client watches the map.
  void Watch();
  // The primary drops a replica of the segment.
  absl::Status Drop(uint32_t segment);
  // The coordinator ends, and starts from its store.
  absl::Status Restart();
  // Time passes.
  void Pass(absl::Duration duration) { clock_.now += duration; }

  const std::shared_ptr<const v1::Map>& map() const { return map_; }
  // The last whole map, or change of one, that shard 0 was sent.
  const std::string& last_install() const { return last_install_; }
  // What was sent since the last time.
  Traffic TakeToShards();
  Traffic TakeToClients() { return std::exchange(to_clients_, Traffic()); }
  // Bytes committed since the last time.
  uint64_t TakeStored() { return std::exchange(store_->stored, 0); }

 private:
  struct SetClock final : world::Clock {
    absl::Time Now() const override { return now; }
    absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  };
  // Counts what is committed.
  struct CountingStore final : coordinator::Store {
    explicit CountingStore(std::unique_ptr<coordinator::MemoryStore> opened) : store(std::move(opened)) {}
    absl::StatusOr<std::optional<coordinator::Entry>> Get(absl::string_view key) const override {
      return store->Get(key);
    }
    absl::StatusOr<std::vector<std::pair<std::string, coordinator::Entry>>> List(
        absl::string_view prefix) const override {
      return store->List(prefix);
    }
    absl::Status Commit(absl::Span<const coordinator::Condition> conditions,
                        absl::Span<const coordinator::Write> writes) override;
    std::unique_ptr<coordinator::MemoryStore> store;
    uint64_t stored = 0;
  };
  struct Member {
    uint64_t incarnation = 0;
    uint64_t map_version = 0;
    uint64_t catalogue_version = 0;
  };

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
  absl::Status Start();
  void OnMap(const std::shared_ptr<const v1::Map>& map);
  template <class Message>
  std::string Sent(ShardId shard, const Message& message);

  const ClusterSize size_;
  coordinator::Options options_;
  world::SplitMix64 random_{1};
  SetClock clock_;
  coordinator::Probe probe_;
  std::shared_ptr<coordinator::MemoryStore::Disk> disk_ = std::make_shared<coordinator::MemoryStore::Disk>();
  std::unique_ptr<CountingStore> store_;
  std::unique_ptr<coordinator::CoordinatorCore> core_;
  std::vector<Member> shards_;
  std::shared_ptr<const v1::Map> map_;
  std::vector<std::vector<uint32_t>> primaries_;  // segments, by shard
  std::deque<std::function<void()>> calls_;       // not answered yet
  Traffic to_shards_;
  std::map<uint32_t, uint64_t> messages_to_;
  Traffic to_clients_;
  std::string last_install_;
  uint64_t last_nonce_ = 0;
};

}  // namespace paceline::bench
