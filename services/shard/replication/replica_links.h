#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/base/retry.h"
#include "libs/log/replicas.h"
#include "libs/world/port.h"
#include "paceline/v1/replication.pb.h"
#include "services/shard/replication/peers.h"

namespace paceline::shard {

class Context;

// Dials a shard's Replicate streams: one to each shard that follows a segment of which this one is primary.
// The messages that gather meanwhile share a frame, beacons first. A link that breaks is dialed again, with
// growing pauses. It also sends the shard's wishes, one request at a time. Thread-safe.
class ReplicaLinks final : public log::ReplicationPort, public std::enable_shared_from_this<ReplicaLinks> {
 public:
  ReplicaLinks(Context& context, Peers& peers);
  ~ReplicaLinks() override;

  void Send(const ring::Member& to, v1::ReplicateRequest::Segment head, absl::Cord body) override;
  void Send(const ring::Member& to, const v1::Beacon& beacon) override;
  void Wish(v1::ConfigWish wish) override;
  uint64_t Link(const ring::Member& to) override;
  absl::Duration NoCoordinator() const override;
  // A coordinator that leads has answered a call that was made at `asked`.
  void HeardCoordinator(absl::Time asked);

  // Sends the wishes that gathered, one request at a time; those to hand over go without this.
  void SendWishes();
  // Asks the coordinator for the wishes of a primary that reaches none itself. `done` gets the answer, if
  // there is one.
  void Carry(v1::ChangeConfigsRequest request, std::function<void(v1::ChangeConfigsReply)> done);
  // Ends all links for good.
  void Stop();

 private:
  class Stream;
  struct Queued {
    v1::ReplicateRequest::Segment head;
    absl::Cord body;
  };
  struct LinkState {
    explicit LinkState(Backoff pauses) : backoff(std::move(pauses)) {}
    std::shared_ptr<Stream> stream;  // of the newest try
    std::shared_ptr<world::StreamPort> port;
    uint64_t life = 0;  // counts tries
    bool up = false;
    bool said_hello = false;
    absl::Time next_try = absl::InfinitePast();
    Backoff backoff;
    std::deque<Queued> segments;
    uint64_t taken = 0;                            // of `segments`, ever
    absl::flat_hash_map<uint32_t, uint64_t> last;  // of each segment the one queued last, counted as `taken`
    std::deque<v1::Beacon> beacons;
    std::map<uint32_t, v1::ConfigWish> wishes;  // to be carried, by segment
  };

  static void Queue(LinkState& link, v1::ReplicateRequest::Segment head, absl::Cord body);
  void Dial(const ring::Member& to, LinkState& link, const std::string& address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NextFrame(const ring::Member& to, uint64_t life, absl::Cord* frame);
  void OnReply(const ring::Member& to, uint64_t life, absl::Cord bytes);
  void OnBroken(const ring::Member& to, uint64_t life, const absl::Status& why);
  void HandOut(const ring::Member& from, v1::ReplicateReply reply);
  // Sends the wishes if one of them is to hand over.
  void SendUrgent() ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives wishes that no coordinator hears to all members that may reach one.
  void HaveCarried();
  void OnCarried(const v1::ChangeConfigsReply& reply);
  void OnAnswer(const v1::ChangeConfigsRequest& request, absl::StatusOr<v1::ChangeConfigsReply> reply);

  Context& context_;
  Peers& peers_;
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<ring::Member, LinkState> links_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, v1::ConfigWish> wishes_ ABSL_GUARDED_BY(mutex_);  // by segment: the newest counts
  bool asking_ ABSL_GUARDED_BY(mutex_) = false;
  bool urgent_ ABSL_GUARDED_BY(mutex_) = false;                          // a segment waits to be handed over
  std::map<uint32_t, v1::ConfigWish> to_carry_ ABSL_GUARDED_BY(mutex_);  // SWAP and KEEP, since the last time
  int carrying_ ABSL_GUARDED_BY(mutex_) = 0;                             // requests of others under way
  std::atomic<int64_t> coordinator_asked_{INT64_MIN};  // when, of what was answered last; us on the clock
};

}  // namespace paceline::shard
