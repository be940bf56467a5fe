#pragma once

#include <algorithm>
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
#include "libs/log/move_pace.h"
#include "libs/log/record_codec.h"
#include "libs/log/segment.h"
#include "libs/log/segment_image.h"
#include "libs/ring/segment_map.h"
#include "libs/world/clock.h"
#include "paceline/v1/coordinator.pb.h"
#include "paceline/v1/replication.pb.h"

namespace paceline::log {

// How a segment reaches other shards and the coordinator. Called by the segment's owner; an implementation
// must only enqueue. Thread-safe.
class ReplicationPort {
 public:
  virtual ~ReplicationPort() = default;
  // Sends to the shard of `to`: in the order of calls while the link stands; frames are lost when it breaks.
  virtual void Send(const ring::Member& to, v1::ReplicateRequest::Segment head, absl::Cord body) = 0;
  virtual void Send(const ring::Member& to, const v1::Beacon& beacon) = 0;
  // Sends a wish to the coordinator. It may be lost; the primary repeats a wish that still holds. The answer
  // is a configuration.
  virtual void Wish(v1::ConfigWish wish) = 0;
  // 0: there is no link now. Otherwise a number that changes after each break. Asking for a shard makes the
  // port dial it.
  virtual uint64_t Link(const ring::Member& to) = 0;
  // How long no coordinator has answered this shard; zero: one just did, or no coordinator is asked.
  virtual absl::Duration NoCoordinator() const { return absl::ZeroDuration(); }
};

// The primary's half of replication: what its followers hold, what to send them, how long each has lent the
// primary its place, and which members the next configuration should have. Protocol: docs/replication.md.
//
// A follower is a *learner*, which is sent the segment's image and then its log; an *awaited* learner, which
// has caught up and is waited for in every acknowledgement although no configuration names it yet; or a
// *replica*. A record is committed when every awaited learner and every replica holds it. An awaited learner
// or replica whose log disagrees keeps its state and is asked out; only a plain learner is sent an image.
//
// Single owner, no locks. Appended is O(1) beside the encoding of the record, which is skipped when there
// have been no followers for a while.
//
// More than 15 members: a tenure's log, disk and followers change together, and each answer of a follower may
// move all of them.
class Replicas {
 public:
  // Bytes of uncommitted log beyond which no more parts should be taken; a learner that is further behind
  // starts again with an image. Four of the largest records, if they are more.
  static constexpr uint64_t kBacklogMax = uint64_t{64} << 20;
  // A replica that holds acknowledgements up for this long is asked out; for a second more with every 64 MiB
  // of the largest record, which is applied at once.
  static constexpr absl::Duration kHoldsUpMax = absl::Seconds(1);
  // Bytes of log kept although no follower needs them, and bytes still encoded after the last follower left.
  // A follower that missed no more than that returns by records instead of an image.
  static constexpr uint64_t kKeptMax = uint64_t{1} << 20;
  // Limits of an image in transfer to one learner: pages under way, which are copies, and bytes of pages in a
  // frame. And of a record: a larger one goes in pieces.
  struct ImagePace {
    uint64_t pages = 64;
    size_t frame_bytes = size_t{512} << 10;
    size_t record_bytes = size_t{2} << 20;
    std::shared_ptr<MovePace> limit = nullptr;  // of all images of the shard; nullptr: none
  };
  // After this long without a coordinator a primary says so in its beacons. A replica that a coordinator
  // answered that much later may then take its place. The time exceeds the interval between two beats: if the
  // coordinator itself is gone, no shard heard from it that much later than the others.
  static constexpr absl::Duration kNoCoordinator = absl::Seconds(2);

  // `numbers` issues the numbers of beacons and exchanges. It outlives this object, so that an answer to an
  // earlier primary's message is never taken for one to this primary. `clock`, `port` and `numbers` may be
  // null for a segment that never has followers. `durable`: a member holds a record only once its disk would
  // have it after a loss of power. `disk`: this shard has a disk, of whose state nothing is known yet.
  Replicas(SegmentId segment, LogTail tail, const world::Clock* clock, std::shared_ptr<ReplicationPort> port,
           uint64_t* numbers, bool durable = false, bool disk = false);
  void SetPace(const ImagePace& pace) { pace_ = pace; }

  // Begins a new epoch with these replicas. Those that were followers already keep their progress.
  void Begin(Epoch epoch, const std::vector<ring::Member>& replicas);
  // Adds a learner; does nothing if it is a follower already.
  void Recruit(const ring::Member& learner);

  // `record` was applied as the next record of the current epoch.
  void Appended(const AppliedRecord& record);
  // Sends followers the pages and records that are due.
  void Pump(const Segment& segment);

  // True: more records may be committed now.
  bool OnAck(const ring::Member& from, const v1::ReplicateReply::Ack& ack, const Segment& segment);
  // Reports the state of the primary's own disk, which has the records up to `durable`. Returns as OnAck.
  bool OnOwnDisk(v1::ReplicateReply::DiskState state, Lsn durable);
  // True: the lease now lasts longer.
  bool OnBeacon(const ring::Member& from, const v1::Beacon& beacon);
  // Maintains links, beacons and wishes. Once each follower is a replica that has every record and has
  // answered of late, it is enough to do so at each beat.
  NextVisit OnTime(const Segment& segment);
  // Sends a wish that the primary decided on itself.
  void Ask(v1::ConfigWish wish) { port_->Wish(std::move(wish)); }

  // Every awaited learner and replica holds the records up to here.
  Lsn committed() const { return committed_; }
  // Every working disk of a member has the records up to here: they would survive a loss of power of all
  // members. If no member has a disk this equals committed().
  Lsn safe() const { return safe_; }
  // True if the primary may answer now: every member it waits for has lent it its place.
  bool Leased() const;
  // The members that the primary waits for, for messages; empty: none.
  std::string WaitsFor() const;
  // The same, until the last record is safe.
  std::string WaitsToBeSafe() const;
  bool Backlogged() const { return backlog_ > BacklogMax(); }
  // True if nothing can be acknowledged here: acknowledgements require the disk, and this shard's does not
  // work.
  bool OwnDiskFails() const { return durable_ && own_disk_ == v1::ReplicateReply::DISK_STALLS; }
  // The replica that should become primary because it serves better: its disk works and this one's does not,
  // or it reaches the coordinator and this shard does not. nullopt: there is none, or no reason.
  std::optional<ring::Member> Heir() const;

  // True if the replica holds every record and its link stands.
  bool Holds(const ring::Member& member) const;
  bool HasReplica(const ring::Member& member) const;
  // How far those are that are not replicas yet.
  std::vector<v1::LearnerProgress> Progress(const Segment& segment) const;
  size_t learners() const;
  size_t replicas() const;
  // Records that not every member it waits for holds.
  uint64_t uncommitted() const { return tail_.end().lsn.v - committed_.v; }
  // The lease asked of followers; zero: there are none.
  absl::Duration lease() const { return followers_.empty() ? absl::ZeroDuration() : lease_.length(); }
  Epoch epoch() const { return epoch_; }
  const LogTail& tail() const { return tail_; }
  LogTail TakeTail() && { return std::move(tail_); }

 private:
  using DiskState = v1::ReplicateReply::DiskState;
  enum class Kind { kLearner, kAwaited, kReplica };
  enum class State {
    kDown,       // there is no link
    kProbing,    // asked how far its log has come
    kImage,      // an image is under way
    kStreaming,  // gets each record
    kDisagrees,  // a member whose log has diverged: asked out, and sent only beacons
  };
  struct Follower {
    ring::Member member;
    Kind kind = Kind::kLearner;
    State state = State::kDown;
    uint64_t link = 0;
    bool broke = false;     // its link stood earlier, and does not now
    uint64_t exchange = 0;  // only answers with this number count
    absl::Time asked;       // for its position, the last time
    Epoch asked_in;         // the epoch of the exchange
    Lsn held;               // the last record that it reported to hold
    Lsn durable;            // the last of these on its disk
    DiskState disk = v1::ReplicateReply::NO_DISK;
    Lsn sent;
    uint64_t record_bytes_sent = 0,
             record_bytes_held = 0;  // bytes of the record after `sent`, where it goes in pieces
    uint64_t record_bytes_most = 0;  // bytes of the record after `held` that it ever held
    Lsn image;                       // version of its image
    Lsn whole;  // pages are of versions up to here: a smaller version is no state of the segment
    std::optional<PageWalk> walk;
    bool walked = false;
    uint64_t pages_sent = 0, pages_held = 0;
    uint64_t bytes_sent = 0;  // of these pages
    LentTime lent;
    absl::Time since;                                  // start of its present kind
    Lsn awaited_from;                                  // it must hold this before it may be added
    absl::Time stuck_since = absl::InfiniteFuture();   // has had records to hold since, without progress
    bool leaving = false;                              // a wish for an epoch without it is out
    bool fenced = false;                               // it takes no frame of this epoch
    absl::Time coordinator_at = absl::InfinitePast();  // when a coordinator last answered it, as it says
  };

  const Follower* Find(const ring::Member& member) const;
  Follower* Find(const ring::Member& member);
  // The last record of the state it is known to hold and could continue from.
  Lsn HeldBy(const Follower& follower) const;
  static bool Waited(const Follower& follower) { return follower.kind != Kind::kLearner; }
  // REQUIRES: it is awaited. It has answered since.
  static bool KnowsItIsAwaited(const Follower& follower);
  // Begins an exchange by asking for the follower's position.
  void Probe(Follower& follower);
  void AskPosition(Follower& follower);
  void StartImage(Follower& follower, const Segment& segment);
  void Disagrees(Follower& follower);
  void SendPages(Follower& follower, const Segment& segment);
  // Records from the one after `lsn` on are sent.
  void StreamFrom(Follower& follower, Lsn lsn);
  void SendRecords(Follower& follower);
  // Sends a frame of records, or the pieces of a large record. False: more of them when some have come.
  bool SendPieces(Follower& follower, const v1::ReplicateRequest::Segment& head, const absl::Cord& body);
  v1::ReplicateRequest::Segment Head(const Follower& follower) const;
  // True if its disk counts: were it added now and all members lost power soon, disks without a base would
  // not be all that is left.
  bool DiskCounts(const Follower& follower) const;
  // True: committed_ grew.
  bool Commit();
  void NoteSafe();
  void CutTail();
  absl::Duration HoldsUpMax() const {
    return kHoldsUpMax + absl::Seconds(static_cast<int64_t>(largest_ >> 26));
  }
  uint64_t BacklogMax() const { return std::max(kBacklogMax, 4 * largest_); }
  void Await(Follower& follower);
  void SendBeacons(absl::Time now);
  void SendBeacon(Follower& follower, absl::Time now);
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
  uint64_t largest_ = 0;  // bytes of the largest record
  uint64_t alone_ = 0;    // bytes written since the last follower left
  std::vector<std::unique_ptr<Follower>> followers_;
  LeaseLength lease_;
  absl::Time next_beacon_ = absl::InfinitePast();
  absl::Time next_wish_ = absl::InfinitePast();
  absl::Time last_on_time_ = absl::InfinitePast();
};

}  // namespace paceline::log
