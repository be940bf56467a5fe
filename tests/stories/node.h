#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "services/coordinator/metadata/test_util/test_shards.h"
#include "services/shard/segment/segment_host.h"
#include "tests/stories/told.h"

// The members of one segment, on shards that report their actions.
namespace paceline::stories {

inline constexpr char kCoordinator[] = "coordinator";

// The surroundings of a node.
class World {
 public:
  virtual ~World() = default;
  // `deliver` runs when the message arrives, or `lost` when it does not. Without `text` nobody is told of it.
  // A message that repeats the last one between two shards is told once.
  virtual void Send(const std::string& from, const std::string& to, const std::string& text,
                    std::function<void()> deliver, std::function<void()> lost = nullptr) = 0;
  virtual void Say(const std::string& what) = 0;
  virtual bool Reaches(const std::string& from, const std::string& to) const = 0;
  virtual class Node* At(const ring::Member& member) = 0;
  virtual void ToCoordinator(Node& from, v1::ConfigWish wish) = 0;
  Names names;
  coordinator::ManualClock clock;
  bool tells_beacons = false;
};

// One start of a shard.
class Node final : public log::RowMemory,
                   public log::StagingRoom,
                   public log::RecordSink,
                   public log::ReplicationPort {
 public:
  Node(World& world, std::string shard, ring::Member member)
      : name(std::move(shard)),
        self(member),
        around{.shard_name = name,
               .shard = std::shared_ptr<Node>(std::shared_ptr<void>(), this),
               .clock = &world.clock,
               .port = {std::shared_ptr<void>(), this}},
        host(SegmentId(0), around),
        world_(world) {}

  bool Admits(uint64_t) override { return true; }
  void Grown(int64_t) override {}
  void RowsUpdated(uint64_t) override {}
  void Applied(const log::Segment& segment, const log::AppliedRecord& applied) override {
    Say(absl::StrCat(applied.received() ? "has " : "logs ", segment.version().v, ": ",
                     std::visit(RecordTeller{world_.names}, applied.record())));
  }

  void Send(const ring::Member& to, v1::ReplicateRequest::Segment head, absl::Cord body) override {
    Node* other = world_.At(to);
    world_.Send(name, other->name, Told(head), [this, other, head, body] {
      const auto answer = [this, other](const v1::ReplicateReply::Ack& ack) {
        world_.Send(other->name, name, Told(ack), [this, other, ack] { host.OnAck(other->self, ack); });
      };
      if (const auto ack = other->host.Follow(self, head, body, /*ring_bits=*/0, answer)) answer(*ack);
    });
  }
  void Send(const ring::Member& to, const v1::Beacon& beacon) override {
    Node* other = world_.At(to);
    const std::string told =
        absl::StrCat("beacon ", beacon.number(), ", lend me ", beacon.lease_us() / 1000, " ms");
    world_.Send(name, other->name, world_.tells_beacons ? told : "", [this, other, beacon] {
      if (!other->host.OnBeacon(self, beacon)) return;
      const std::string lent = absl::StrCat("lent, from when beacon ", beacon.number(), " left");
      world_.Send(
          other->name, name, world_.tells_beacons ? lent : "",
          [this, other, answer = other->host.AnswerTo(beacon)] { host.OnBeaconAnswer(other->self, answer); });
    });
  }
  void Wish(v1::ConfigWish wish) override { world_.ToCoordinator(*this, std::move(wish)); }
  uint64_t Link(const ring::Member& to) override {
    const Node* other = world_.At(to);
    return up && other->up && world_.Reaches(name, other->name) ? 1 : 0;
  }

  void Say(const std::string& what) { world_.Say(absl::StrCat("    ", name, " ", what)); }
  log::Primary* primary() { return host.primary(); }

  const std::string name;
  const ring::Member self;
  const shard::Surroundings around;
  shard::SegmentHost host;
  v1::Map map;
  v1::Catalogue catalogue;
  bool up = true;

 private:
  World& world_;
};

}  // namespace paceline::stories
