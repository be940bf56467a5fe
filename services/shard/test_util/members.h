#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libs/log/testing.h"
#include "services/shard/segment/segment_host.h"
#include "services/shard/test_util/test_disk.h"

// The members of one segment, on three shards that exchange frames in memory.
namespace paceline::shard::testing_members {

inline constexpr SegmentId kSegment{0};
inline constexpr JobId kJob{1};
inline constexpr SessionId kA{7};

class TestClock : public world::Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
};

class TestBudget : public log::RowMemory, public log::StagingRoom, public log::RecordSink {
 public:
  bool Admits(uint64_t) override { return !full; }
  void Grown(int64_t by) override { bytes += by; }
  void RowsUpdated(uint64_t) override {}
  void Installed(const log::Segment&) override { ++images; }
  void Answered(const log::Segment&, Epoch) override { ++answers; }
  bool full = false;
  int64_t bytes = 0;
  int images = 0;   // that were taken
  int answers = 0;  // reads that were answered, and times that parts were acknowledged
};

class Acks : public log::AckSink {
 public:
  void Committed(wire::Mark mark) override { numbers.push_back(mark.number); }
  void Wake() override { ++wakes; }
  std::vector<PartNumber> numbers;
  int wakes = 0;
};

class Answers : public log::ReadSink {
 public:
  void Served(size_t, const wire::Certificate& certificate, const log::Wait& wait) override {
    certificates.push_back(certificate);
    waits.push_back(wait);
  }
  void Refused(size_t, v1::Refusal refusal) override { refusals.push_back(std::move(refusal)); }
  std::vector<wire::Certificate> certificates;
  std::vector<log::Wait> waits;
  std::vector<v1::Refusal> refusals;
};

struct Node;

// Carries frames between nodes; links can be cut.
class Net {
 public:
  struct Message {
    ring::Member from, to;
    std::function<void(Node&)> deliver;
  };
  std::set<std::pair<ring::Member, ring::Member>> linked;  // from, to: somebody asked for it
  bool Cut(const ring::Member& a, const ring::Member& b) const {
    return cut.contains({a, b}) || cut.contains({b, a});
  }
  std::deque<Message> messages;
  std::function<bool(const v1::ReplicateRequest::Segment&)> held_up;  // frames that stay in `under_way`
  std::deque<Message> under_way;
  std::set<std::pair<ring::Member, ring::Member>> cut;  // both hear of it
  std::set<ring::Member> stalled;                       // they stand still; their links stand
  std::map<ring::Member, Node*> nodes;
  std::vector<std::pair<ring::Member, v1::ConfigWish>> wishes;
};

class Port : public log::ReplicationPort {
 public:
  Port(Net& net, ring::Member self) : net_(net), self_(self) {}
  void Send(const ring::Member& to, v1::ReplicateRequest::Segment head, absl::Cord body) override;
  void Send(const ring::Member& to, const v1::Beacon& beacon) override;
  void Wish(v1::ConfigWish wish) override { net_.wishes.emplace_back(self_, std::move(wish)); }
  uint64_t Link(const ring::Member& to) override {
    net_.linked.emplace(self_, to);
    return net_.Cut(self_, to) ? 0 : 1;
  }
  absl::Duration NoCoordinator() const override { return no_coordinator; }
  absl::Duration no_coordinator;

 private:
  Net& net_;
  const ring::Member self_;
};

// A node's disk is synced by Sync.
enum class Disks { kNone, kWrittenBehind, kAcksDurable };

struct Node {
  Node(Net& net, const TestClock& clock, uint32_t shard, Disks disks = Disks::kNone,
       log::Replicas::ImagePace image_pace = {})
      : self{.shard = ShardId(shard), .incarnation = Incarnation(shard + 1)},
        budget(std::make_shared<TestBudget>()),
        port(std::make_shared<Port>(net, self)),
        around{.shard_name = "shard",
               .shard = budget,
               .clock = &clock,
               .port = port,
               .disk = disks == Disks::kNone ? nullptr : &disk,
               .durable = disks == Disks::kAcksDurable,
               .image_pace = image_pace},
        host(kSegment, around, &batch) {
    net.nodes[self] = this;
  }
  void Sync() {
    batch = engine::Batch();
    if (const auto mark = host.TakeMark()) host.OnDurable(*mark);
  }
  const ring::Member self;
  std::shared_ptr<TestBudget> budget;
  TestDisk disk;
  engine::Batch batch;
  const std::shared_ptr<Port> port;
  const Surroundings around;
  SegmentHost host;
};

inline void Port::Send(const ring::Member& to, v1::ReplicateRequest::Segment head, absl::Cord body) {
  std::deque<Net::Message>& queue = net_.held_up && net_.held_up(head) ? net_.under_way : net_.messages;
  queue.push_back(
      {self_, to, [this, to, head, body](Node& node) {
         const auto answer = [this, to](const v1::ReplicateReply::Ack& ack) {
           net_.messages.push_back({to, self_, [to, ack](Node& back) { back.host.OnAck(to, ack); }});
         };
         if (const auto ack = node.host.Follow(self_, head, body, /*ring_bits=*/0, answer)) answer(*ack);
       }});
}

inline void Port::Send(const ring::Member& to, const v1::Beacon& beacon) {
  net_.messages.push_back({self_, to, [this, to, beacon](Node& node) {
                             if (!node.host.OnBeacon(self_, beacon)) return;
                             net_.messages.push_back(
                                 {to, self_, [to, answer = node.host.AnswerTo(beacon)](Node& back) {
                                    back.host.OnBeaconAnswer(to, answer);
                                  }});
                           }});
}

class ReplicationTest : public ::testing::Test {
 protected:
  ReplicationTest() : ReplicationTest(Disks::kNone) {
    Configure(1, 0, {1});
    Pass(absl::Milliseconds(40));
    Open(kA);
  }
  explicit ReplicationTest(Disks disks, log::Replicas::ImagePace image_pace = {})
      : a(net, clock, 0, disks, image_pace),
        b(net, clock, 1, disks, image_pace),
        c(net, clock, 2, disks, image_pace) {}

  void Configure(uint64_t epoch, uint32_t primary, const std::vector<uint32_t>& replicas) {
    for (Node* node : {&a, &b, &c}) ConfigureAt(*node, epoch, primary, replicas);
  }
  void ConfigureAt(Node& node, uint64_t epoch, uint32_t primary, const std::vector<uint32_t>& replicas) {
    ring::SegmentConfig config{.epoch = Epoch(epoch), .primary = At(primary).self, .replicas = {}};
    for (uint32_t replica : replicas) config.replicas.push_back(At(replica).self);
    node.host.OnConfig(config, MapVersion(epoch), node.self, /*ring_bits=*/0);
  }
  Node& At(uint32_t shard) { return *std::array<Node*, 3>{&a, &b, &c}[shard]; }

  void Deliver() {
    std::deque<Net::Message> later;
    while (!net.messages.empty()) {
      Net::Message message = std::move(net.messages.front());
      net.messages.pop_front();
      if (net.stalled.contains(message.to)) {
        later.push_back(std::move(message));
      } else if (!net.Cut(message.from, message.to)) {
        message.deliver(*net.nodes.at(message.to));
      }
    }
    net.messages = std::move(later);
  }
  // Lets time pass, with everything that is sent delivered.
  void Pass(absl::Duration duration) {
    for (const absl::Time end = clock.now + duration; clock.now < end;) {
      clock.now += absl::Milliseconds(10);
      for (Node* node : {&a, &b, &c}) {
        if (!net.stalled.contains(node->self)) node->host.OnTime(clock.now);
      }
      Deliver();
    }
  }
  void CutOff(Node& node) {
    for (Node* other : {&a, &b, &c}) {
      if (other != &node) net.cut.emplace(node.self, other->self);
    }
  }

  void Open(SessionId session) {
    const v1::Change change = log::ChangeOf(v1::Change::kOpen, session, kJob);
    std::string why;
    std::optional<Clock> behind;
    for (int i = 0; i < 3; ++i) {
      const bool committed = a.host.primary()->Change(change, {}, &why, &behind);
      a.host.Flush();
      EXPECT_EQ(committed, i > 0) << "only once the replica holds it: " << why;
      Deliver();
    }
  }
  std::optional<v1::Refusal> Push(Node& node, PartNumber number, float by) {
    auto refusal = node.host.Take({.update = log::MakeUpdate(kA, number, {{5, by}}, 0),
                                   .job = kJob,
                                   .table = log::SumTable(kJob),
                                   .acks = acks},
                                  Epoch(1), clock.now);
    node.host.Flush();
    return refusal;
  }
  std::shared_ptr<Answers> Pull(Node& node, Clock min_clock = 0, PartNumber own = 0) {
    auto answers = std::make_shared<Answers>();
    node.host.Serve({.session = kA,
                     .job = kJob,
                     .table = log::SumTable(kJob),
                     .keys = absl::string_view(reinterpret_cast<const char*>(&key), sizeof(key)),
                     .out = reinterpret_cast<std::byte*>(&value),
                     .own = own,
                     .min_clock = min_clock,
                     .deadline = clock.now + absl::Seconds(30),
                     .sink = answers},
                    Epoch(1), clock.now);
    return answers;
  }
  bool Fence(Node& node, uint64_t epoch, bool only_if_silent) {
    v1::FenceRequest::Segment request;
    request.set_epoch(epoch);
    request.set_only_if_silent(only_if_silent);
    return node.host.Fence(request).fenced();
  }
  std::vector<v1::ConfigWish> Wishes(const Node& node, v1::ConfigWish::Kind kind) {
    std::vector<v1::ConfigWish> found;
    for (const auto& [from, wish] : net.wishes)
      if (from == node.self && wish.kind() == kind) found.push_back(wish);
    return found;
  }

  const uint64_t key = 5;
  float value = -1;
  TestClock clock;
  Net net;
  Node a, b, c;
  std::shared_ptr<Acks> acks = std::make_shared<Acks>();
};

}  // namespace paceline::shard::testing_members
