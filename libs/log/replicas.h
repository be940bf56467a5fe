#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "libs/base/ids.h"
#include "libs/log/lease.h"
#include "libs/log/log_tail.h"
#include "libs/log/record.h"
#include "libs/log/segment.h"
#include "libs/log/segment_image.h"
#include "libs/ring/segment_map.h"
#include "libs/world/clock.h"
#include "paceline/v1/coordinator.pb.h"
#include "paceline/v1/replication.pb.h"

namespace paceline::log {

// What a segment asks of those around it. Called from the segment's owner; must only take note. Thread-safe.
class ReplicationPort {
 public:
  virtual ~ReplicationPort() = default;
  // To the shard of `to`; in the order of the calls while the link stands, and lost when it breaks.
  virtual void Send(const ring::Member& to, v1::ReplicateRequest::Segment head, absl::Cord body) = 0;
  virtual void Send(const ring::Member& to, const v1::Beacon& beacon) = 0;
  // To the coordinator. May be lost; what is still wished is wished again. The answer is a configuration.
  virtual void Wish(v1::ConfigWish wish) = 0;
  // 0: the link does not stand now. Otherwise a number that is another one after each break. Links are dialed
  // to whoever is asked for.
  virtual uint64_t Link(const ring::Member& to) = 0;
  // For how long no coordinator has answered this shard; zero: one did just now, or nobody asks any.
  virtual absl::Duration NoCoordinator() const { return absl::ZeroDuration(); }
};

// The primary's part in replication: what its followers hold, what they are to be sent, how long each has
// lent it its place, and who ought to be in the next configuration. Protocol: docs/replication.md.
//
// A follower is a *learner*, which is sent the segment's image and then its log; an *awaited* learner, which
// has caught up and is waited for in every acknowledgement although no configuration names it yet; or a
// *replica*. A record is committed when every awaited learner and every replica holds it. One of these whose
// log disagrees keeps what it has and is asked out; only a learner is sent an image.
//
// Single owner, no locks. What is appended is O(1) beside the encoding of the record, which is left out when
// there have been no followers for a while.
class Replicas {
 public:
  // Uncommitted bytes of log beyond which no further parts are to be taken, and beyond which a learner that
  // has not come so far begins again.
  static constexpr uint64_t kBacklogMax = uint64_t{64} << 20;
  // An answer held back for so long, and the replica is asked out.
  static constexpr absl::Duration kHoldsUpMax = absl::Seconds(1);
  // Bytes of log that are kept though no follower needs them, and that are written after the last one went:
  // who was away for no more than that comes back by records, not by an image.
  static constexpr uint64_t kKeptMax = uint64_t{1} << 20;
  // What of an image is under way to one learner: pages, which are copies, and bytes in a frame of them.
  struct ImagePace {
    uint64_t pages = 64;
    size_t frame_bytes = size_t{512} << 10;
  };
  // Without a coordinator for so long a primary says so; and a replica that one has answered so much later
  // may take its place. More than lies between two beats: where the coordinator itself is gone nobody has
  // heard it so much later than others.
  static constexpr absl::Duration kNoCoordinator = absl::Seconds(2);

  // `numbers` gives out numbers of beacons and exchanges; it outlives the tenure, so that an answer to an
  // earlier one is never taken for one of this. All three may be null for a segment that never has followers.
  // With `durable` a record is held by a member once that one's disk would have it again after a loss of
  // power. With `disk` this shard has one of its own, of which nothing is known yet.
  Replicas(SegmentId segment, LogTail tail, const world::Clock* clock, std::shared_ptr<ReplicationPort> port,
           uint64_t* numbers, bool durable = false, bool disk = false);
  void SetPace(const ImagePace& pace) { pace_ = pace; }

  // A new epoch, with these replicas: those that were followers go on as they are.
  void Begin(Epoch epoch, const std::vector<ring::Member>& replicas);
  // A learner to be; nothing happens if it is a follower already.
  void Recruit(const ring::Member& learner);

  // `record` was applied as the next one, in the current epoch.
  void Appended(const Record& record);
  // Sends what there is to send.
  void Pump(const Segment& segment);

  // True: something may be committed now that was not.
  bool OnAck(const ring::Member& from, const v1::ReplicateReply::Ack& ack, const Segment& segment);
  // How the primary's own disk stands, and that it has the records up to `durable`. As OnAck.
  bool OnOwnDisk(v1::ReplicateReply::DiskState state, Lsn durable);
  // True: the lease is longer now.
  bool OnBeacon(const ring::Member& from, const v1::Beacon& beacon);
  // Links, beacons, wishes. Call every few tens of milliseconds.
  void OnTime(const Segment& segment);
  // A wish of the primary's own.
  void Ask(v1::ConfigWish wish) { port_->Wish(std::move(wish)); }

  // Every awaited learner and replica holds the records up to here.
  Lsn committed() const { return committed_; }
  // … and what has a disk that works would have them again after a loss of power of all. Without a member
  // with a disk the same as committed().
  Lsn safe() const { return safe_; }
  // Whether the primary may answer at this moment: all whom it waits for have lent it their places.
  bool Leased() const;
  // Whom it waits for, for messages; empty: nobody.
  std::string WaitsFor() const;
  // … for the last record to be safe.
  std::string WaitsToBeSafe() const;
  bool Backlogged() const { return backlog_ > kBacklogMax; }
  // Nothing can be acknowledged here: what is acknowledged is on disks, and this shard's does not work.
  bool OwnDiskFails() const { return durable_ && own_disk_ == v1::ReplicateReply::DISK_STALLS; }
  // The replica that is to have this primary's place, as it serves better: its disk works and this one's does
  // not, or it reaches the coordinator and this one does not. nullopt: none, or there is no reason.
  std::optional<ring::Member> Heir() const;

  // The replica holds every record, and is spoken to.
  bool Holds(const ring::Member& member) const;
  bool HasReplica(const ring::Member& member) const;
  bool Knows(const ring::Member& member) const { return Find(member) != nullptr; }
  size_t learners() const;
  size_t replicas() const;
  // Records written that not all whom it waits for hold.
  uint64_t uncommitted() const { return tail_.end().lsn.v - committed_.v; }
  // What is asked of followers; zero: there are none.
  absl::Duration lease() const { return followers_.empty() ? absl::ZeroDuration() : lease_.length(); }
  Epoch epoch() const { return epoch_; }
  const LogTail& tail() const { return tail_; }
  LogTail TakeTail() && { return std::move(tail_); }

 private:
  using DiskState = v1::ReplicateReply::DiskState;
  enum class Role { kLearner, kAwaited, kReplica };
  enum class State {
    kDown,       // there is no link
    kProbing,    // asked how far its log has come
    kImage,      // the image is under way
    kStreaming,  // gets each record
    kDisagrees,  // a member whose log is none of this one's: asked out, and sent beacons only
  };
  struct Follower {
    ring::Member member;
    Role role = Role::kLearner;
    State state = State::kDown;
    uint64_t link = 0;
    bool broke = false;     // its link stood, and does not now
    uint64_t exchange = 0;  // answers to others are not meant
    Lsn held;               // as it said last
    Lsn durable;            // of these, on its disk
    DiskState disk = v1::ReplicateReply::NO_DISK;
    Lsn sent;
    Lsn image;  // where its image begins
    Lsn whole;  // pages are of versions up to here: less is not a state of the segment
    std::optional<PageWalk> walk;
    bool walked = false;
    uint64_t pages_sent = 0, pages_held = 0;
    LentTime lent;
    absl::Time since;                                  // when it became what it is
    Lsn awaited_from;                                  // what must be held before it may be added
    absl::Time stuck_since = absl::InfiniteFuture();   // has had records before it, without any progress
    bool leaving = false;                              // it is to be left out of the next epoch
    absl::Time coordinator_at = absl::InfinitePast();  // when one has answered it, as it says
  };

  const Follower* Find(const ring::Member& member) const;
  Follower* Find(const ring::Member& member);
  // What it is known to hold as a state that could be gone on from.
  Lsn HeldBy(const Follower& follower) const;
  static bool Waited(const Follower& follower) { return follower.role != Role::kLearner; }
  void Probe(Follower& follower);
  void StartImage(Follower& follower, const Segment& segment);
  void Disagrees(Follower& follower);
  void SendPages(Follower& follower, const Segment& segment);
  void SendRecords(Follower& follower);
  v1::ReplicateRequest::Segment Head(const Follower& follower) const;
  // A loss of power of all members soon after it was added would not leave disks without a base only.
  bool DiskCounts(const Follower& follower) const;
  // True: it grew.
  bool Commit();
  void NoteSafe();
  void CutTail();
  void Await(Follower& follower);
  void SendBeacons(absl::Time now);
  void CheckFollowers(absl::Time now);
  bool Failing(const Follower& follower, absl::Time now) const;
  void Wish(v1::ConfigWish::Kind kind, const std::vector<ring::Member>& members);

  SegmentId segment_;
  const world::Clock* clock_;
  std::shared_ptr<ReplicationPort> port_;
  uint64_t* numbers_;
  bool durable_;
  ImagePace pace_;
  Lsn own_durable_;
  DiskState own_disk_ = v1::ReplicateReply::NO_DISK;
  Epoch epoch_;
  LogTail tail_;
  Lsn committed_;
  Lsn safe_;
  uint64_t backlog_ = 0;
  uint64_t alone_ = 0;  // bytes written since the last follower went
  std::vector<std::unique_ptr<Follower>> followers_;
  LeaseLength lease_;
  absl::Time next_beacon_ = absl::InfinitePast();
  absl::Time next_wish_ = absl::InfinitePast();
  absl::Time last_on_time_ = absl::InfinitePast();
};

}  // namespace paceline::log
