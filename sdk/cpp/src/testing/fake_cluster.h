#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "libs/base/ids.h"
#include "libs/wire/frame.h"
#include "libs/wire/packed.h"
#include "paceline/v1/shard.pb.h"

namespace paceline::sdk::testing {

// Shards as docs/wire.md describes them, in the fewest lines that keep its rules: numbers in order and once,
// marks, sealed ticks, bounded reads. All shards share one memory, so that a segment moves by a word; what a
// crash would lose is what was applied and not committed. One job.
//
// Tables add; a row that was never pushed is zeros. Parts on the line of aggregated tables are staged and
// enter the log when the min clock passes theirs.
class FakeCluster {
 public:
  struct Entry {
    uint64_t session = 0;
    Line line = Line::kArrival;
    PartNumber number = 0;
    Clock clock = 0;
    uint32_t table = 0;
    std::vector<uint64_t> keys;
    std::vector<float> values;
  };
  // Refuses a part, if it returns something; asked before any other rule.
  using Judge =
      std::function<std::optional<v1::Refusal>(const v1::PushRequest& head, const wire::PartEntry& part)>;

  FakeCluster(int ring_bits, uint32_t shards);

  // -- what the coordinator would do --
  v1::Map Map() const;
  void AddTable(uint32_t table, uint32_t dim) { dims_[table] = dim; }
  void OpenSession(uint64_t session) { open_.insert(session); }
  void CloseSession(uint64_t session) { open_.erase(session); }
  void Join(uint64_t session, Clock clock);
  // The last tick. False: not all its parts are in the log yet.
  bool Finish(uint64_t session, Clock clock, const std::string& seals);
  // The primary goes elsewhere, with or without what was not committed.
  void Move(uint32_t segment, uint32_t to, bool lose_uncommitted);
  // The shard is a replica of the segment from the next map on, for the map only.
  void AddReplica(uint32_t segment, uint32_t shard);
  // The shard is reached elsewhere from the next map on.
  void Relocate(uint32_t shard, std::string address);
  // Forgets committed parts too: numbers above `last` of every session.
  void Lose(uint32_t segment, PartNumber last);

  // -- streams --
  class Stream {
   public:
    // Takes a frame in; answers come from NextReply.
    void OnFrame(const absl::Cord& frame);
    std::optional<absl::Cord> NextReply();

   private:
    friend class FakeCluster;
    Stream(FakeCluster& cluster, uint32_t shard, bool push) : cluster_(cluster), shard_(shard), push_(push) {}
    void OnPush(const v1::PushRequest& head, const std::string& keys, const std::string& values);
    void OnTick(const v1::Tick& tick);
    // The parts want their rows back.
    void OnRead(const v1::PushPullRequest& head, const std::string& keys);
    std::optional<absl::Cord> NextRows();
    v1::Welcome Welcome() const;

    FakeCluster& cluster_;
    const uint32_t shard_;
    const bool push_;
    uint64_t session_ = 0;
    uint64_t frames_ = 0;
    uint64_t received_told_ = 0;
    std::optional<v1::PushReply> reply_;
    std::map<std::pair<uint32_t, uint32_t>, PartNumber> told_;  // committed marks, by segment and line
    std::map<uint32_t, std::map<uint32_t, PartNumber>> named_;  // by segment: seals by line, while primary
    std::map<uint32_t, std::set<uint32_t>> ever_;  // by segment: lines of which ticks have said something
    std::map<uint32_t, uint64_t> named_epoch_;
    std::vector<absl::Cord> pull_replies_;
    struct Parked {
      v1::PullRequest head;
      std::string keys;
    };
    std::vector<Parked> parked_;
  };
  std::unique_ptr<Stream> Accept(const std::string& address, bool push);
  static std::string AddressOf(uint32_t shard) { return "shard-" + std::to_string(shard) + ":1"; }

  // -- what tests look at and turn --
  bool auto_commit = true;  // what is applied is committed at once
  void CommitAll();
  std::set<uint32_t> speechless;  // segments whose primary does not know yet that it is: ticks do not count
  Judge judge;
  uint64_t id = 7;
  uint64_t answers_as = 7;  // the cluster that the shards say they are of
  v1::Hello last_hello;
  uint32_t feature_level = 1;   // the shards'
  uint64_t granted = 16 << 20;  // at level 2, on each stream
  uint64_t window_bytes = 16 << 20;
  uint64_t frame_bytes_max = 8 << 20;

  const std::vector<Entry>& LogOf(uint32_t segment) const { return segments_[segment].log; }
  uint32_t SegmentCount() const { return static_cast<uint32_t>(segments_.size()); }
  uint32_t PrimaryOf(uint32_t segment) const { return segments_[segment].primary; }
  PartNumber Applied(uint32_t segment, uint64_t session, Line line) const;
  size_t StagedIn(uint32_t segment) const { return segments_[segment].staged.size(); }
  Clock MinClock(uint32_t segment) const;
  std::vector<float> Row(uint32_t segment, uint32_t table, uint64_t key) const;
  std::vector<std::string> violations;  // of the rules, by the client

 private:
  struct Worker {
    Clock clock = 0;    // counted
    Clock claimed = 0;  // said, with what it is sealed at
    std::map<uint32_t, PartNumber> seals;
  };
  struct Segment {
    uint64_t epoch = 1;
    uint64_t began = 0;  // records there were when the epoch did
    uint32_t primary = 0;
    std::vector<uint32_t> replicas;
    std::vector<Entry> log;
    size_t committed = 0;  // of log
    std::vector<Entry> staged;
    std::map<uint64_t, Worker> workers;
    Clock min_clock = 0;
  };

  std::optional<v1::Refusal> Take(uint32_t shard, uint64_t session, const v1::PushRequest& head,
                                  const wire::PartEntry& part, Entry entry);
  std::optional<v1::Refusal> Misrouted(uint32_t shard, const wire::PartEntry& part) const;
  void Count(Segment& segment);
  void Fold(Segment& segment);
  PartNumber Here(uint32_t segment, uint64_t session, Line line) const;
  bool Serve(uint32_t shard, uint64_t session, const Stream::Parked& pull, absl::Cord* reply) const;
  PartNumber Committed(const Segment& segment, uint64_t session, Line line) const;

  uint32_t shards_;
  std::vector<std::string> addresses_;
  uint64_t version_ = 1;
  std::vector<Segment> segments_;
  std::map<uint32_t, uint32_t> dims_;
  std::set<uint64_t> open_;
};

}  // namespace paceline::sdk::testing
