#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "libs/base/ids.h"
#include "libs/log/follower.h"
#include "libs/log/primary.h"
#include "libs/ring/segment_map.h"
#include "libs/table/look_ahead.h"
#include "services/shard/disk/segment_disk.h"
#include "services/shard/segment/load_meter.h"
#include "services/shard/segment/segment_role.h"

namespace paceline::shard {

// The part of a shard that every segment uses.
struct Surroundings {
  std::string shard_name;
  log::ShardSide shard;
  const world::Clock* clock = nullptr;
  std::shared_ptr<log::ReplicationPort> port;  // null: it never has followers and never is one
  const Disk* disk = nullptr;                  // null: nothing is kept on a disk
  bool durable = false;                        // records count as held once they are on the disk
  SegmentDisk::Pace disk_pace = {};
  log::Replicas::ImagePace image_pace = {};
};

// One segment as one shard sees it: primary, replica or learner here, lost here, or somewhere else. Judges
// each request by its epoch, and hands it to the primary or to the follower. Changes its role as
// segment_role.h says and in no other way. Protocol §3, §4; docs/replication.md. Only tasks of its executor
// touch it.
//
// More than 15 members: what its role is, and what must outlive any role: epochs, promises, loans, numbers.
class SegmentHost {
 public:
  using Role = shard::Role;

  // `batch` takes what is to be written to the disk, if there is one, and outlives this.
  SegmentHost(SegmentId id, const Surroundings& around, engine::Batch* batch = nullptr);

  // The shard has followed maps before it made this: the next is not the first that it hears of. Call before
  // anything else.
  void KnewMaps() { knew_maps_ = true; }

  // Takes the disk's copy as it was found. Call before anything else. REQUIRES: there is a disk.
  void Restore(std::optional<log::Segment> state, SegmentDisk::Found found);

  // Follows a newer map. Makes an empty segment only when the map names this very start of the shard for an
  // epoch that it has not served: an empty segment never replaces data that another start acknowledged.
  void Configure(const ring::SegmentMap& map, const ring::Member& self);
  // The same for this segment alone, by the answer to a wish.
  void OnConfig(const ring::SegmentConfig& config, MapVersion version, const ring::Member& self,
                int ring_bits);

  // The same by the answer to a wish that another shard has carried: it may name only members, in the next
  // epoch.
  void OnCarried(const ring::SegmentConfig& config, MapVersion version, const ring::Member& self,
                 int ring_bits);

  // -- clients --
  // Take or Serve is about to be called for these keys. A hint.
  void Foresee(TableId table, table::KeyView keys, table::LookAhead& ahead) const;
  // Judge the epoch (docs/wire.md §7) and do as Primary's.
  std::optional<v1::Refusal> Take(const log::Part& part, Epoch sender_epoch, absl::Time now);
  void Serve(log::Read read, Epoch sender_epoch, absl::Time now);
  std::optional<v1::Refusal> Subscribe(const log::SetChange& change, Epoch sender_epoch);
  // What a client says of the segment that it reads, or pushes to, under a value bound. If this shard is not
  // its primary the answer is that the client does not count; it learns who is when it pulls or pushes.
  void TakeReading(const log::ReadingNote& note, absl::Time now);
  // Sends followers what the calls before have written.
  void Flush();

  // -- other members --
  // Takes a frame of `from`. The caller sends the answer back, and so each one that `later` gets afterwards,
  // when the disk has progressed or failed. nullopt: as far as this shard knows no coordinator has named
  // `from` primary of that epoch. The shard does not follow it, and answers once it knows.
  using Answer = std::function<void(v1::ReplicateReply::Ack)>;
  std::optional<v1::ReplicateReply::Ack> Follow(const ring::Member& from,
                                                const v1::ReplicateRequest::Segment& frame,
                                                const absl::Cord& body, int ring_bits,
                                                Answer later = nullptr);
  // Takes a beacon of `from`; true: the caller answers it.
  bool OnBeacon(const ring::Member& from, const v1::Beacon& beacon);
  // The answer to a beacon that OnBeacon took.
  v1::Beacon AnswerTo(const v1::Beacon& beacon) const;
  // Answers of a follower.
  void OnAck(const ring::Member& from, const v1::ReplicateReply::Ack& ack) {
    if (primary() != nullptr) primary()->OnAck(from, ack);
  }
  void OnBeaconAnswer(const ring::Member& from, const v1::Beacon& beacon) {
    if (primary() != nullptr) primary()->OnBeacon(from, beacon);
  }

  // -- the coordinator --
  v1::FenceReply::Segment Fence(const v1::FenceRequest::Segment& request);
  // True: the primary of that epoch is here, and knows the learner.
  bool Recruit(Epoch epoch, const ring::Member& learner);
  // True: a hand-over is under way.
  bool HandOver(Epoch epoch, const ring::Member& to);

  // Deadlines, beacons, wishes. Call when it said the last time, soon after any other call that may change
  // something, and when the disk begins to fail.
  log::NextVisit OnTime(absl::Time now);

  // nullptr unless this shard is primary.
  log::Primary* primary() { return std::get_if<log::Primary>(&state_); }
  const log::Primary* primary() const { return std::get_if<log::Primary>(&state_); }
  // Marks what went to the disk since the last call, if somebody waits for it; OnDurable tells that it is
  // synced. nullopt: nothing went, or nobody waits.
  std::optional<SegmentDisk::Mark> TakeMark() { return disk_ == nullptr ? std::nullopt : disk_->TakeMark(); }
  void OnDurable(const SegmentDisk::Mark& mark);

  // nullptr: there is no disk.
  const SegmentDisk* disk() const { return disk_.get(); }
  // nullptr unless it follows, or has a part of a copy.
  const log::Follower* follower() const {
    const Following* following = this->following();
    return following == nullptr ? nullptr : following->follower.get();
  }
  // Its state of the segment, in any role; nullptr: it has no whole one.
  const log::Segment* state() const {
    if (primary() != nullptr) return &primary()->segment();
    return follower() == nullptr ? nullptr : follower()->segment();
  }

  // What clients ask of it since it became primary here; nullptr: nothing yet, or it is not primary.
  LoadMeter* load() { return primary() != nullptr && load_tenure_ == tenure_ ? load_.get() : nullptr; }

  // Counts the times this shard became primary; 0 while it is not. A tick that named the segment earlier in
  // the same tenure still speaks for it.
  uint64_t tenure() const { return primary() != nullptr ? tenure_ : 0; }
  Role role() const { return static_cast<Role>(state_.index()); }
  // The configuration names this shard, or may do so before it hears of that: a primary sends it a copy, or
  // it has promised the coordinator to go on with what it has.
  bool MayBeMember() const;
  SegmentId id() const { return id_; }
  Epoch epoch() const { return epoch_; }

  // Counts events since the start of the process.
  struct Events {
    uint64_t gained = 0;      // it became primary in place of another member
    uint64_t given_up = 0;    // it was primary, and is no more
    uint64_t hand_overs = 0;  // it began to hand the segment over
    uint64_t fenced = 0;      // it promised the coordinator to follow an earlier epoch no more
    uint64_t not_fenced = 0;  // it did not, and said why
  };
  const Events& events() const { return events_; }

 private:
  // -- its role --

  // Its copy of what a primary sends, or sent.
  struct Following {
    std::unique_ptr<log::Follower> follower;
    Answer later;                // where its last answer went
    bool restored = false;       // what it holds came from the disk, and nobody has spoken to it since
    bool may_be_needed = false;  // it was left out because it disagreed with the only member that is left
  };
  struct Elsewhere {
    std::string awaits;  // not empty: an earlier start was its primary, and it will be served again, after …
  };
  struct Replica {
    Following following;
    absl::Time next_wish = absl::InfinitePast();
  };
  struct Learner {
    Following following;
    std::string awaits = {};                             // as Elsewhere's
    absl::Time left_out_since = absl::InfiniteFuture();  // and not spoken to since
    bool taught = false;  // a primary has sent frames: it may be a member before this shard knows
  };
  struct Lost {
    std::string message;
    Following following = {};  // its follower may be null, and holds a part at most
  };
  using State = std::variant<Elsewhere, log::Primary, Replica, Learner, Lost>;  // in the order of Role

  // -- changes of its role (segment_host_roles.cc) --

  // The data that comes with an event.
  struct Cause {
    const ring::SegmentConfig* config = nullptr;
    ring::Member self = {};
    int ring_bits = 0;
    log::Segment* state = nullptr;  // restored
  };
  void LinkWithMembers(const ring::SegmentConfig& config, const ring::Member& self) const;
  void TellWhetherLost(const ring::SegmentConfig& config, const Cause& cause);
  void On(Event event, const Cause& cause);
  void Do(Action action, const Cause& cause);
  Standing StandingNow() const;
  // nullptr: it is elsewhere, or primary.
  static auto* FollowingOf(auto& state) {
    if (auto* replica = std::get_if<Replica>(&state)) return &replica->following;
    if (auto* learner = std::get_if<Learner>(&state)) return &learner->following;
    auto* lost = std::get_if<Lost>(&state);
    return lost == nullptr ? nullptr : &lost->following;
  }
  Following* following() { return FollowingOf(state_); }
  const Following* following() const { return FollowingOf(state_); }
  Following TakeFollowing();

  void MakePrimary(log::Primary::State state, const ring::SegmentConfig& config);
  void BeginEmpty(const ring::SegmentConfig& config, int ring_bits);
  void TakeOver(const ring::SegmentConfig& config);
  void StepDown();
  void FollowRestored(log::Segment state);
  void BeginToFollow(log::Follower follower);
  void Count();
  void LeaveOut(const ring::SegmentConfig& config, const ring::Member& self);
  void Drop();
  void TellLostHere();
  void TellLostBefore(const ring::Member& self);
  log::Primary::State Nothing(int ring_bits) const;
  // If an earlier start was its primary; otherwise empty.
  static std::string WhoTakesOver(const ring::SegmentConfig& config, const ring::Member& self);
  v1::Refusal Moved() const;

  // To follow no epoch before this one.
  void Promise(Epoch epoch);
  v1::FenceReply::Segment JudgeFence(const v1::FenceRequest::Segment& request);
  v1::FenceReply::Segment JudgeRecovery(const v1::FenceRequest::Segment& request);
  // The event that a client waits for; empty: none is known.
  std::string Awaits() const;
  // The meter of this tenure. REQUIRES: it is primary.
  LoadMeter& LoadNow();
  // The refusal of a request with this epoch; nullopt: the segment serves it.
  std::optional<v1::Refusal> Misrouted(Epoch sender_epoch) const;
  // Puts the disk's progress into the last answer; true: that is news.
  bool NoteDisk();
  // Tells the primary, here or elsewhere.
  void TellOfDisk();
  // It follows no epoch older than this.
  Epoch Newest() const { return std::max(epoch_, fenced_); }
  // A frame of its primary comes too late.
  bool IsOver(Epoch epoch) const;
  // The coordinator has named it: anybody who reaches this shard may say that it is primary of some epoch.
  bool IsNamed(const ring::Member& primary, Epoch epoch) const;
  // Lets a member that it did not follow begin again, now that it is named.
  void AnswerNamed();
  // This sender has begun a later exchange since: an image of this one would replace what is held by now. A
  // link that broke may still deliver when the next one is at work; nobody waits for an answer to that.
  bool IsLate(const ring::Member& from, uint64_t transfer) {
    if (from == sender_ && transfer < transfer_) return true;
    sender_ = from;
    transfer_ = transfer;
    return false;
  }
  // The time for which it keeps a copy that no configuration counts on.
  absl::Duration LeftOverMax(const Following& following) const;
  void WishToTakeOver(Replica& replica, absl::Time now);

  const SegmentId id_;
  const Surroundings& around_;
  log::ShardSide shard_;
  std::shared_ptr<SegmentDisk> disk_;
  State state_;
  Epoch epoch_;                 // of the newest configuration that is known
  ring::Member primary_named_;  // its primary
  Epoch fenced_;                // promised to the coordinator …
  absl::Time fenced_at_;        // … at this time
  // The members that claim to be primary of a newer epoch, and are not followed.
  struct Unnamed {
    Epoch epoch;
    uint64_t transfer = 0;
    Answer answer;
  };
  std::map<ring::Member, Unnamed> unnamed_;
  MapVersion map_version_;
  bool knew_maps_ = false;
  ring::Member sender_;               // that was followed last
  uint64_t transfer_ = 0;             // the number of the newest exchange that it has begun
  v1::ReplicateReply::Ack last_ack_;  // as a follower, the last time it was one
  log::PrimaryWatch watch_;           // what was lent counts in whichever role
  absl::Time last_on_time_ = absl::InfinitePast();
  uint64_t numbers_ = 0;  // of beacons and exchanges, over all tenures
  uint64_t tenure_ = 0;
  std::unique_ptr<LoadMeter> load_;  // null: clients have asked for nothing yet
  uint64_t load_tenure_ = 0;         // in which it counts
  Events events_;
};

}  // namespace paceline::shard
