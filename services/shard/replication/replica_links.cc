#include "services/shard/replication/replica_links.h"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "libs/base/feature_level.h"
#include "libs/ring/hash.h"
#include "libs/wire/map_codec.h"
#include "libs/wire/replicate_frame.h"
#include "services/shard/context.h"

namespace paceline::shard {
namespace {

// A frame of so many bytes takes no more segments.
constexpr uint64_t kFrameBytes = uint64_t{1} << 20;
// So many beacons wait for a peer that reads nothing. Later ones are dropped, as a broken link would.
constexpr size_t kBeaconsMax = size_t{1} << 16;
constexpr BackoffPolicy kPauses{.initial = absl::Milliseconds(20), .max = absl::Milliseconds(500)};

// `next` follows `before` in the same exchange: one may say both.
bool Continues(const v1::ReplicateRequest::Segment& before, const v1::ReplicateRequest::Segment& next) {
  return before.records() > 0 && next.records() > 0 && before.epoch() == next.epoch() &&
         before.transfer() == next.transfer() && before.lsn() + before.records() == next.lsn();
}

}  // namespace

// One try at a link. Reports to its ReplicaLinks and knows nothing else.
class ReplicaLinks::Stream : public world::StreamHandler {
 public:
  Stream(std::weak_ptr<ReplicaLinks> links, ring::Member to, uint64_t life)
      : links_(std::move(links)), to_(to), life_(life) {}

  void OnFrame(absl::Cord frame) override {
    if (const auto links = links_.lock()) links->OnReply(to_, life_, std::move(frame));
  }
  bool NextFrame(absl::Cord* frame) override {
    const auto links = links_.lock();
    return links != nullptr && links->NextFrame(to_, life_, frame);
  }
  void OnBroken(absl::Status why) override {
    if (const auto links = links_.lock()) links->OnBroken(to_, life_, why);
  }

 private:
  const std::weak_ptr<ReplicaLinks> links_;
  const ring::Member to_;
  const uint64_t life_;
};

ReplicaLinks::ReplicaLinks(Context& context, Peers& peers) : context_(context), peers_(peers) {}
ReplicaLinks::~ReplicaLinks() = default;

void ReplicaLinks::Stop() {
  std::map<ring::Member, LinkState> ended;  // their ports are let go of without the lock
  MutexLock lock(&mutex_);
  stopped_ = true;
  ended.swap(links_);
}

void ReplicaLinks::Queue(LinkState& link, v1::ReplicateRequest::Segment head, absl::Cord body) {
  const auto last = link.last.find(head.segment());
  if (last != link.last.end() && last->second >= link.taken) {
    Queued& before = link.segments[last->second - link.taken];
    if (Continues(before.head, head) && before.body.size() + body.size() <= kFrameBytes) {
      before.head.set_records(before.head.records() + head.records());
      before.head.set_committed(head.committed());
      before.body.Append(std::move(body));
      return;
    }
  }
  link.last[head.segment()] = link.taken + link.segments.size();
  link.segments.push_back({.head = std::move(head), .body = std::move(body)});
}

void ReplicaLinks::Send(const ring::Member& to, v1::ReplicateRequest::Segment head, absl::Cord body) {
  std::shared_ptr<world::StreamPort> port;
  {
    MutexLock lock(&mutex_);
    const auto link = links_.find(to);
    if (link == links_.end() || !link->second.up) return;
    Queue(link->second, std::move(head), std::move(body));
    port = link->second.port;
  }
  // A push is of many segments, each of which comes here.
  if (port != nullptr) port->KickSoon();
}

void ReplicaLinks::Send(const ring::Member& to, const v1::Beacon& beacon) {
  std::shared_ptr<world::StreamPort> port;
  {
    MutexLock lock(&mutex_);
    const auto link = links_.find(to);
    if (link == links_.end() || !link->second.up || link->second.beacons.size() >= kBeaconsMax) return;
    link->second.beacons.push_back(beacon);
    port = link->second.port;
  }
  if (port != nullptr) port->KickSoon();
}

uint64_t ReplicaLinks::Link(const ring::Member& to) {
  const auto view = context_.view();
  const ring::ShardInfo* info = view->map == nullptr ? nullptr : view->map->FindShard(to.shard);
  MutexLock lock(&mutex_);
  if (stopped_) return 0;
  auto [it, fresh] = links_.try_emplace(to, Backoff(kPauses));
  LinkState& link = it->second;
  if (link.up) return link.life;
  // An earlier start of the shard is never reached again.
  if (link.stream == nullptr && info != nullptr && info->incarnation == to.incarnation &&
      context_.clock().Now() >= link.next_try) {
    Dial(to, link, info->ForPeers());
  }
  return 0;
}

void ReplicaLinks::Dial(const ring::Member& to, LinkState& link, const std::string& address) {
  ++link.life;
  link.said_hello = false;
  link.stream = std::make_shared<Stream>(weak_from_this(), to, link.life);
  link.port = peers_.dialer().Dial(address, world::StreamKind::kReplicate, link.stream);
}

bool ReplicaLinks::NextFrame(const ring::Member& to, uint64_t life, absl::Cord* frame) {
  wire::ReplicateFrame next;
  {
    const auto view = context_.view();
    MutexLock lock(&mutex_);
    const auto it = links_.find(to);
    if (it == links_.end() || it->second.life != life) return false;
    LinkState& link = it->second;
    if (!std::exchange(link.said_hello, true)) {
      v1::ReplicateHello& hello = *next.head.mutable_hello();
      hello.set_feature_level(kFeatureLevel);
      hello.set_cluster(view->cluster);
      *hello.mutable_from() = wire::ToProto(view->self);
      *hello.mutable_target() = wire::ToProto(to);
    } else {
      if (link.segments.empty() && link.beacons.empty() && link.wishes.empty()) return false;
      for (auto& [segment, wish] : std::exchange(link.wishes, {})) *next.head.add_wishes() = std::move(wish);
      for (v1::Beacon& beacon : link.beacons) *next.head.add_beacons() = std::move(beacon);
      link.beacons.clear();
      for (uint64_t bytes = 0; bytes < kFrameBytes && !link.segments.empty(); ++link.taken) {
        Queued& queued = link.segments.front();
        bytes += queued.head.ByteSizeLong() + queued.body.size();
        next.Add(std::move(queued.head), queued.body);
        link.segments.pop_front();
      }
    }
  }
  *frame = wire::Encode(next);
  context_.probe().ReplicateSent(Probe::Of(next.head, frame->size()));
  return true;
}

void ReplicaLinks::OnReply(const ring::Member& to, uint64_t life, absl::Cord bytes) {
  v1::ReplicateReply reply;
  std::shared_ptr<world::StreamPort> end;
  {
    MutexLock lock(&mutex_);
    const auto it = links_.find(to);
    if (it == links_.end() || it->second.life != life) return;
    LinkState& link = it->second;
    const bool read = reply.ParseFromString(std::string(bytes));
    if (!read || !reply.refused().empty()) {
      end = std::move(link.port);
    } else if (reply.has_hello()) {
      link.up = true;
      link.backoff.Reset();
    }
  }
  if (end != nullptr) return end->Close(absl::CancelledError("refused"));
  if (reply.has_carried()) OnCarried(reply.carried());
  if (reply.acks_size() > 0 || reply.beacons_size() > 0) HandOut(to, std::move(reply));
}

void ReplicaLinks::HandOut(const ring::Member& from, v1::ReplicateReply reply) {
  if (context_.view()->map == nullptr) return;
  const auto said = std::make_shared<const v1::ReplicateReply>(std::move(reply));
  const int beacons = said->beacons_size();
  const auto segment_of = [said, beacons](int i) {
    return SegmentId(i < beacons ? said->beacons(i).segment() : said->acks(i - beacons).segment());
  };
  const auto hand_over = [this, from, said, beacons, segment_of](const std::vector<int>& mine) {
    for (const int i : mine) {
      SegmentHost& host = context_.host(segment_of(i));
      i < beacons ? host.OnBeaconAnswer(from, said->beacons(i)) : host.OnAck(from, said->acks(i - beacons));
    }
  };
  context_.Deal(std::views::iota(0, beacons + said->acks_size()), segment_of, hand_over);
}

void ReplicaLinks::OnBroken(const ring::Member& to, uint64_t life, const absl::Status&) {
  std::shared_ptr<Stream> stream;  // let go of without the lock
  std::shared_ptr<world::StreamPort> port;
  MutexLock lock(&mutex_);
  const auto it = links_.find(to);
  if (it == links_.end() || it->second.life != life) return;
  LinkState& link = it->second;
  stream = std::move(link.stream);
  port = std::move(link.port);
  link.up = false;
  link.taken += link.segments.size();
  link.segments.clear();
  link.last.clear();
  link.beacons.clear();
  link.wishes.clear();
  link.next_try = context_.clock().Now() + link.backoff.Next(ring::Mix64(life, to.incarnation.v));
}

void ReplicaLinks::Wish(v1::ConfigWish wish) {
  const SegmentId segment(wish.segment());
  const bool hand_over = wish.kind() == v1::ConfigWish::SWAP || wish.kind() == v1::ConfigWish::KEEP;
  {
    MutexLock lock(&mutex_);
    if (hand_over) to_carry_[segment.v] = wish;
    wishes_[segment.v] = std::move(wish);
    if (!hand_over) return;
    urgent_ = true;
  }
  // Nobody serves the segment until the answer comes: it goes without a visit, with those of the other
  // segments that make one in the same task.
  context_.executor(segment).Run([weak = weak_from_this()] {
    if (const auto links = weak.lock()) links->SendUrgent();
  });
}

void ReplicaLinks::SendUrgent() {
  {
    MutexLock lock(&mutex_);
    if (!urgent_) return;
  }
  SendWishes();
}

absl::Duration ReplicaLinks::NoCoordinator() const {
  const int64_t asked = coordinator_asked_.load(std::memory_order_relaxed);
  if (asked == INT64_MIN) return absl::ZeroDuration();  // nobody here asks one
  return std::max(context_.clock().Now() - absl::FromUnixMicros(asked), absl::ZeroDuration());
}

void ReplicaLinks::HeardCoordinator(absl::Time asked) {
  const int64_t now = absl::ToUnixMicros(asked);
  int64_t before = coordinator_asked_.load(std::memory_order_relaxed);
  while (before < now && !coordinator_asked_.compare_exchange_weak(before, now)) {
  }
}

void ReplicaLinks::HaveCarried() {
  std::vector<std::shared_ptr<world::StreamPort>> ports;
  {
    MutexLock lock(&mutex_);
    const auto wishes = std::exchange(to_carry_, {});
    if (wishes.empty() || NoCoordinator() < log::Replicas::kNoCoordinator) return;
    for (auto& [to, link] : links_) {
      if (!link.up || link.port == nullptr) continue;
      for (const auto& [segment, wish] : wishes) link.wishes[segment] = wish;
      ports.push_back(link.port);
    }
  }
  for (const auto& port : ports) port->KickSoon();
}

void ReplicaLinks::Carry(v1::ChangeConfigsRequest request, std::function<void(v1::ChangeConfigsReply)> done) {
  constexpr int kCarryingMax = 4;
  if (NoCoordinator() >= log::Replicas::kNoCoordinator) return;  // nobody hears this shard either
  {
    MutexLock lock(&mutex_);
    if (stopped_ || carrying_ == kCarryingMax) return;
    ++carrying_;
  }
  peers_.ChangeConfigs(std::move(request), [weak = weak_from_this(), done = std::move(done)](auto reply) {
    const auto links = weak.lock();
    if (links == nullptr) return;
    {
      MutexLock lock(&links->mutex_);
      --links->carrying_;
    }
    if (reply.ok()) done(*std::move(reply));
  });
}

void ReplicaLinks::SendWishes() {
  HaveCarried();
  v1::ChangeConfigsRequest request;
  {
    const auto view = context_.view();
    MutexLock lock(&mutex_);
    if (wishes_.empty() || asking_ || stopped_) return;
    asking_ = true;
    request.set_cluster(view->cluster);
    if (view->map != nullptr) request.set_map_version(view->map->version().v);
    *request.mutable_from() = wire::ToProto(view->self);
    for (auto& [segment, wish] : wishes_) *request.add_wishes() = std::move(wish);
    wishes_.clear();
    urgent_ = false;
  }
  peers_.ChangeConfigs(request, [weak = weak_from_this(), request](auto reply) {
    if (const auto links = weak.lock()) links->OnAnswer(request, std::move(reply));
  });
}

// Another shard brings this answer: it can end a tenure only by a change that this shard has asked for.
void ReplicaLinks::OnCarried(const v1::ChangeConfigsReply& reply) {
  const auto view = context_.view();
  for (const v1::ChangeConfigsReply::Segment& answer : reply.segments()) {
    const SegmentId segment(answer.segment());
    if (view->map == nullptr || !view->map->Contains(segment) || !answer.has_config()) continue;
    context_.executor(segment).Run([this, segment, view, config = wire::ConfigFromProto(answer.config()),
                                    version = MapVersion(reply.map_version())] {
      context_.host(segment).OnCarried(config, version, view->self, view->map->ring_bits());
    });
  }
}

void ReplicaLinks::OnAnswer(const v1::ChangeConfigsRequest&, absl::StatusOr<v1::ChangeConfigsReply> reply) {
  {
    MutexLock lock(&mutex_);
    asking_ = false;
    if (stopped_) return;
  }
  if (!reply.ok()) return;  // the segments repeat their wishes
  const auto view = context_.view();
  for (const v1::ChangeConfigsReply::Segment& answer : reply->segments()) {
    const SegmentId segment(answer.segment());
    if (view->map == nullptr || !view->map->Contains(segment) || !answer.has_config()) continue;
    context_.executor(segment).Run([this, segment, view, config = wire::ConfigFromProto(answer.config()),
                                    version = MapVersion(reply->map_version())] {
      context_.host(segment).OnConfig(config, version, view->self, view->map->ring_bits());
      context_.VisitSoon();
    });
  }
  SendUrgent();  // those that came meanwhile
}

}  // namespace paceline::shard
