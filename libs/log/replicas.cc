#include "libs/log/replicas.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/planted.h"
#include "libs/wire/map_codec.h"

namespace paceline::log {
namespace {

// A learner that lacks at most this many records has caught up.
constexpr uint64_t kCaughtUp = 256;
// A position that was not told is asked for again so much later.
constexpr absl::Duration kAskAgain = absl::Seconds(1);

}  // namespace

Replicas::Replicas(SegmentId segment, LogTail tail, const world::Clock* clock,
                   std::shared_ptr<ReplicationPort> port, uint64_t* numbers, bool durable, bool disk)
    : segment_(segment),
      clock_(clock),
      port_(std::move(port)),
      numbers_(numbers),
      durable_(durable),
      own_disk_(disk ? v1::ReplicateReply::DISK_FILLS : v1::ReplicateReply::NO_DISK),
      tail_(std::move(tail)) {
  // No follower can return by the records of a log that begins here, or that never has other members.
  if (port_ == nullptr || tail_.end().lsn == Lsn()) alone_ = kKeptMax + 1;
}

void Replicas::Begin(Epoch epoch, const std::vector<ring::Member>& replicas) {
  epoch_ = epoch;
  std::erase_if(followers_, [&](const std::unique_ptr<Follower>& follower) {
    const bool named = std::find(replicas.begin(), replicas.end(), follower->member) != replicas.end();
    return !named && (follower->kind == Kind::kReplica || follower->leaving);
  });
  const absl::Time now = replicas.empty() ? absl::InfinitePast() : clock_->Now();
  for (const ring::Member& member : replicas) {
    Follower* follower = Find(member);
    if (follower == nullptr) {
      followers_.push_back(std::make_unique<Follower>());
      follower = followers_.back().get();
      follower->member = member;
      follower->since = now;
    }
    if (follower->kind != Kind::kReplica) follower->since = std::max(follower->since, now);
    follower->kind = Kind::kReplica;
    follower->leaving = false;
  }
  for (const auto& follower : followers_) {
    follower->fenced = false;
    // A follower joins only pieces of one epoch. It may refuse all that are under way, and then no answer
    // would send the rest.
    if (follower->state == State::kStreaming && follower->record_bytes_sent > 0) Probe(*follower);
  }
  next_wish_ = next_beacon_ = absl::InfinitePast();
  Commit();
}

void Replicas::Recruit(const ring::Member& learner) {
  if (Find(learner) != nullptr) return;
  followers_.push_back(std::make_unique<Follower>());
  followers_.back()->member = learner;
  followers_.back()->since = clock_->Now();
}

const Replicas::Follower* Replicas::Find(const ring::Member& member) const {
  const auto it = std::find_if(followers_.begin(), followers_.end(),
                               [&](const auto& follower) { return follower->member == member; });
  return it == followers_.end() ? nullptr : it->get();
}

Replicas::Follower* Replicas::Find(const ring::Member& member) {
  return const_cast<Follower*>(std::as_const(*this).Find(member));
}

void Replicas::Appended(const AppliedRecord& record) {
  if (!followers_.empty()) alone_ = 0;
  if (followers_.empty() && alone_ > kKeptMax) {
    tail_.Skip(epoch_);
    Commit();
    return;
  }
  backlog_ += record.bytes().size();
  largest_ = std::max<uint64_t>(largest_, record.bytes().size());
  if (followers_.empty()) alone_ += record.bytes().size();
  tail_.Append(epoch_, record.bytes());
  const absl::Time now = clock_->Now();
  for (const auto& follower : followers_) {
    follower->stuck_since = std::min(follower->stuck_since, now);
  }
  Commit();
}

v1::ReplicateRequest::Segment Replicas::Head(const Follower& follower) const {
  v1::ReplicateRequest::Segment head;
  head.set_segment(segment_.v);
  head.set_epoch(epoch_.v);
  head.set_committed(committed_.v);
  head.set_transfer(follower.exchange);
  head.set_awaited(Waited(follower));
  return head;
}

void Replicas::Probe(Follower& follower) {
  follower.state = State::kProbing;
  follower.exchange = ++*numbers_;
  follower.asked_in = epoch_;
  AskPosition(follower);
}

// Sends a frame without records: the answer says how far the follower's log agrees with this one.
void Replicas::AskPosition(Follower& follower) {
  follower.asked = clock_->Now();
  v1::ReplicateRequest::Segment head = Head(follower);
  head.set_lsn(tail_.end().lsn.v);
  head.set_lsn_epoch(tail_.end().epoch.v);
  port_->Send(follower.member, std::move(head), absl::Cord());
}

bool Replicas::OnAck(const ring::Member& from, const v1::ReplicateReply::Ack& ack, const Segment& segment) {
  Follower* follower = Find(from);
  if (follower == nullptr) return false;
  if (ack.transfer() != follower->exchange && !Planted(Bug::kEarlierAnswerCounts)) return false;
  const LogPosition position{.epoch = Epoch(ack.lsn_epoch()), .lsn = Lsn(ack.lsn())};
  const bool probed = follower->state == State::kProbing;
  switch (ack.state()) {
    case v1::ReplicateReply::HOLDS:
      if (position.lsn > follower->held) {
        follower->held = position.lsn;
        follower->stuck_since = clock_->Now();
        follower->record_bytes_most = 0;
      }
      follower->record_bytes_held = ack.record_bytes();
      if (ack.record_bytes() > follower->record_bytes_most) {
        follower->record_bytes_most = ack.record_bytes();
        follower->stuck_since = clock_->Now();
      }
      if (Lsn(ack.durable()) > follower->durable) follower->stuck_since = clock_->Now();
      follower->durable = Lsn(ack.durable());  // may fall, if its disk was given up
      follower->disk = ack.disk();
      follower->pages_held = std::max<uint64_t>(follower->pages_held, ack.pages());
      if (follower->state == State::kProbing) {
        StreamFrom(*follower, position.lsn);
      }
      break;
    case v1::ReplicateReply::BEHIND:
      // Otherwise its position is beyond the end, or of another epoch: its suffix is not part of this log.
      if (tail_.Continues(position)) {
        if (follower->state == State::kStreaming) {  // it missed a frame
          Probe(*follower);
          break;
        }
        follower->held = position.lsn;
        StreamFrom(*follower, position.lsn);
        follower->durable = Lsn(ack.durable());
        follower->disk = ack.disk();
        follower->whole = Lsn();
        break;
      }
      [[fallthrough]];
    case v1::ReplicateReply::NO_STATE:
      if (Waited(*follower) && !Planted(Bug::kImageToMember)) {
        Disagrees(*follower);
      } else {
        StartImage(*follower, segment);
      }
      break;
    default:  // FENCED: it knows a newer epoch; the configuration will name the primary
      // This primary has begun the epoch that the follower knows since it asked.
      if (follower->asked_in < epoch_ && Epoch(ack.epoch()) <= epoch_ &&
          (follower->state == State::kProbing || follower->state == State::kImage)) {
        Probe(*follower);
        break;
      }
      follower->fenced = Epoch(ack.epoch()) > epoch_;
      // Otherwise it would never be probed again in an epoch of this primary, nor be sent the rest of its
      // image (records of the next epoch follow). OnTime starts it again.
      if (follower->state == State::kProbing || follower->state == State::kImage) {
        follower->state = State::kDown;
      }
      break;
  }
  const Lsn counts = durable_ ? std::min(follower->held, follower->durable) : follower->held;
  if (counts >= tail_.end().lsn) follower->stuck_since = absl::InfiniteFuture();
  const bool grew = Commit();
  Pump(segment);
  // Beacons that came before it knew of this epoch were dropped.
  const absl::Time now = clock_->Now();
  if (probed && now >= follower->lent.until()) SendBeacon(*follower, now);
  return grew;
}

// If this primary ended, the follower's state could be the last copy of acknowledged records. It must not
// make room for an image while a configuration counts on it, so it is asked out and returns as a learner.
void Replicas::Disagrees(Follower& follower) {
  follower.state = State::kDisagrees;
  follower.held = follower.durable = Lsn();
  next_wish_ = absl::InfinitePast();
}

// From now on nothing is acknowledged that the learner does not hold. Only after that may a configuration
// name it: otherwise it could become primary without a record that was acknowledged in between. Its answer
// to this shows that it knows, and keeps what it holds.
void Replicas::Await(Follower& follower) {
  follower.kind = Kind::kAwaited;
  follower.since = clock_->Now();
  follower.awaited_from = tail_.end().lsn;
  if (!Planted(Bug::kPagesNotAwaited)) Probe(follower);
  next_beacon_ = absl::InfinitePast();
}

bool Replicas::OnBeacon(const ring::Member& from, const v1::Beacon& beacon) {
  Follower* follower = Find(from);
  if (follower == nullptr || Epoch(beacon.epoch()) != epoch_) return false;
  const absl::Time now = clock_->Now();
  const std::optional<absl::Duration> took = follower->lent.Answered(beacon.number(), now);
  if (!took.has_value()) return false;
  lease_.Observed(*took, now);
  if (beacon.coordinator_age_ms() > 0) {
    follower->coordinator_at =
        std::max(follower->coordinator_at, now - absl::Milliseconds(beacon.coordinator_age_ms() - 1));
  }
  return true;
}

std::optional<ring::Member> Replicas::Heir() const {
  const absl::Duration alone = port_ == nullptr ? absl::ZeroDuration() : port_->NoCoordinator();
  const bool cut_off = alone >= kNoCoordinator;
  if (!OwnDiskFails() && !cut_off) return std::nullopt;
  const absl::Time needed = clock_->Now() - alone + kNoCoordinator;
  for (const auto& follower : followers_) {
    if (!Holds(follower->member)) continue;
    if (durable_ && follower->disk != v1::ReplicateReply::DISK_READY) continue;
    if (!cut_off || follower->coordinator_at >= needed) return follower->member;
  }
  return std::nullopt;
}

bool Replicas::Leased() const {
  if (followers_.empty()) return true;
  const absl::Time now = clock_->Now();
  return std::all_of(followers_.begin(), followers_.end(), [&](const auto& follower) {
    return !Waited(*follower) || now < follower->lent.until();
  });
}

std::string Replicas::WaitsFor() const {
  std::vector<std::string> names;
  const absl::Time now = clock_->Now();
  for (const auto& follower : followers_) {
    if (Waited(*follower) && (now >= follower->lent.until() || HeldBy(*follower) < tail_.end().lsn)) {
      names.push_back(ring::ToString(follower->member));
    }
  }
  if (durable_ && own_durable_ < tail_.end().lsn) names.push_back("its own disk");
  return absl::StrJoin(names, ", ");
}

Lsn Replicas::HeldBy(const Follower& follower) const {
  const bool whole = follower.held >= follower.whole && follower.state != State::kImage;
  if (!whole && !Planted(Bug::kPagesNotAwaited) && !Planted(Bug::kRecordsAmidImage)) return Lsn();
  return durable_ ? std::min(follower.held, follower.durable) : follower.held;
}

bool Replicas::OnOwnDisk(DiskState state, Lsn durable) {
  if (state == own_disk_ && durable == own_durable_) return false;
  own_disk_ = state;
  own_durable_ = durable;
  return Commit();
}

bool Replicas::DiskCounts(const Follower& follower) const {
  if (durable_) return follower.disk == v1::ReplicateReply::DISK_READY;
  return follower.disk != v1::ReplicateReply::DISK_FILLS;
}

// After a loss of power all members are awaited, and the most advanced disk goes on. So a disk that stalls,
// or has no base yet, need not have the record: it could not bring it back anyway. If no disk could, the
// record waits.
void Replicas::NoteSafe() {
  std::optional<Lsn> least;
  bool disks = false;
  const auto count = [&](DiskState disk, Lsn durable) {
    disks |= disk != v1::ReplicateReply::NO_DISK;
    if (disk == v1::ReplicateReply::DISK_READY) least = std::min(least.value_or(durable), durable);
  };
  count(own_disk_, own_durable_);
  for (const auto& follower : followers_) {
    if (Waited(*follower)) count(follower->disk, follower->durable);
  }
  if (!disks) least = committed_;
  if (least.has_value()) safe_ = std::max(safe_, std::min(*least, committed_));
}

std::string Replicas::WaitsToBeSafe() const {
  if (committed_ < tail_.end().lsn) return WaitsFor();
  std::vector<std::string> names;
  const auto check = [&](DiskState disk, Lsn durable, std::string name) {
    if (disk != v1::ReplicateReply::NO_DISK && durable < tail_.end().lsn) names.push_back(std::move(name));
  };
  check(own_disk_, own_durable_, "its own disk");
  for (const auto& follower : followers_) {
    if (Waited(*follower)) {
      check(follower->disk, follower->durable,
            absl::StrCat("the disk of ", ring::ToString(follower->member)));
    }
  }
  return absl::StrJoin(names, ", ");
}

bool Replicas::Commit() {
  Lsn least = durable_ ? std::min(own_durable_, tail_.end().lsn) : tail_.end().lsn;
  for (const auto& follower : followers_) {
    if (Waited(*follower) && !Planted(Bug::kAckedBeforeReplicated))
      least = std::min(least, HeldBy(*follower));
  }
  CutTail();
  const bool grew = least > committed_;
  if (grew) committed_ = least;
  NoteSafe();
  return grew;
}

void Replicas::CutTail() {
  Lsn needed = tail_.end().lsn;
  for (const auto& follower : followers_) {
    if (follower->state == State::kDisagrees) continue;
    const bool image = follower->state == State::kImage || follower->held < follower->image;
    const Lsn from = image ? follower->image : follower->held;
    // A learner without contact holds no state that could be continued.
    if (follower->kind == Kind::kLearner &&
        (follower->state == State::kDown || follower->state == State::kProbing))
      continue;
    if (follower->kind == Kind::kLearner && tail_.bytes() > BacklogMax()) {
      follower->state = State::kDown;
      continue;
    }
    needed = std::min(needed, from);
  }
  tail_.CutTo(needed, kKeptMax);
  backlog_ = tail_.bytes();
}

NextVisit Replicas::OnTime(const Segment& segment) {
  if (followers_.empty()) return NextVisit::kNever;
  const absl::Time now = clock_->Now();
  if (now - last_on_time_ > kLease / 2) {  // this process stood still itself
    for (const auto& follower : followers_) {
      follower->since = std::max(follower->since, now);
      if (follower->stuck_since < now) follower->stuck_since = now;
    }
  }
  last_on_time_ = now;
  for (const auto& follower : followers_) {
    const uint64_t link = port_->Link(follower->member);
    if (link == 0 || link != follower->link) follower->state = State::kDown;
    follower->broke = link == 0 && (follower->broke || follower->link != 0);
    follower->link = link;
    if (link != 0 && follower->state == State::kDown) Probe(*follower);
    // It answers no primary that its map does not name, and remembers only some of those that asked.
    if (follower->state == State::kProbing && now >= follower->asked + kAskAgain) AskPosition(*follower);
  }
  for (const auto& follower : followers_) {
    if (follower->kind != Kind::kLearner) continue;
    const Lsn held = HeldBy(*follower);
    const bool caught_up =
        held != Lsn() && held.v + kCaughtUp >= tail_.end().lsn.v && tail_.BytesAfter(held) <= kKeptMax;
    const bool ready = caught_up && DiskCounts(*follower) && now < follower->lent.until();
    if (ready) Await(*follower);
  }
  SendBeacons(now);
  CheckFollowers(now);
  Pump(segment);
  const bool quiet = std::ranges::all_of(followers_, [now](const auto& follower) {
    return follower->kind == Kind::kReplica && follower->state == State::kStreaming &&
           follower->stuck_since == absl::InfiniteFuture() && follower->lent.until() > NextBeat(now);
  });
  return quiet ? NextVisit::kAtBeat : NextVisit::kSoon;
}

void Replicas::SendBeacons(absl::Time now) {
  if (now < next_beacon_) return;
  next_beacon_ = NextBeat(now) + absl::Floor(lease_.length() / kBeaconsALease, kBeat) - kBeat;
  for (const auto& follower : followers_) {
    if (follower->state != State::kDown) SendBeacon(*follower, now);
  }
}

void Replicas::SendBeacon(Follower& follower, absl::Time now) {
  const absl::Duration alone = std::min(port_->NoCoordinator(), absl::Hours(1));
  v1::Beacon beacon;
  beacon.set_segment(segment_.v);
  beacon.set_epoch(epoch_.v);
  beacon.set_number(++*numbers_);
  if (alone >= kNoCoordinator) {
    beacon.set_no_coordinator_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(alone)));
  }
  const absl::Duration lease = lease_.length();
  // Planted: the replica is told another lease than the primary counts on.
  beacon.set_lease_us(Planted(Bug::kLeaseOneSided) ? 1000
                                                   : static_cast<uint64_t>(absl::ToInt64Microseconds(lease)));
  follower.lent.Sent(beacon.number(), now, Planted(Bug::kLeaseOneSided) ? 8 * lease : lease);
  port_->Send(follower.member, beacon);
}

bool Replicas::Holds(const ring::Member& member) const {
  const Follower* follower = Find(member);
  return follower != nullptr && follower->kind == Kind::kReplica && follower->state == State::kStreaming &&
         HeldBy(*follower) == tail_.end().lsn;
}

bool Replicas::HasReplica(const ring::Member& member) const {
  const Follower* follower = Find(member);
  return follower != nullptr && follower->kind == Kind::kReplica;
}

std::vector<v1::LearnerProgress> Replicas::Progress(const Segment& segment) const {
  std::vector<v1::LearnerProgress> progress;
  for (const auto& follower : followers_) {
    if (follower->kind == Kind::kReplica) continue;
    v1::LearnerProgress& one = progress.emplace_back();
    one.set_segment(segment_.v);
    *one.mutable_learner() = wire::ToProto(follower->member);
    const uint64_t sent = std::max<uint64_t>(1, follower->pages_sent);
    one.set_bytes_moved(follower->bytes_sent / sent * std::min(follower->pages_held, sent));
    if (follower->state == State::kImage) {
      one.set_bytes_left(segment.bytes() - std::min(segment.bytes(), one.bytes_moved()));
    }
  }
  return progress;
}

size_t Replicas::learners() const {
  return static_cast<size_t>(std::count_if(followers_.begin(), followers_.end(),
                                           [](const auto& f) { return f->kind != Kind::kReplica; }));
}

size_t Replicas::replicas() const {
  return followers_.size() - learners();
}

}  // namespace paceline::log
