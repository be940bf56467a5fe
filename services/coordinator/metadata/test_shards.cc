#include "services/coordinator/metadata/test_shards.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace paceline::coordinator {
namespace {

// True: the record is committed.
bool Change(const v1::SessionChange& change, FakeSegment& segment, uint32_t id,
            v1::SessionChangeReply& reply) {
  const uint64_t session = change.session();
  const bool closed = segment.closed.contains(session);
  switch (change.action()) {
    case v1::SessionChange::OPEN:
      if (!closed) segment.open.insert(session);
      return !closed;
    case v1::SessionChange::JOIN:
      if (closed || !segment.open.contains(session)) return false;
      if (segment.workers.contains(session) || segment.finished.contains(session)) return true;
      if (segment.min_clock > change.start_clock()) {
        auto* behind = reply.add_join_refused();
        behind->set_segment(id);
        behind->set_min_clock(segment.min_clock);
        return false;
      }
      segment.workers[session] = change.start_clock();
      return true;
    case v1::SessionChange::FINISH:
      segment.workers.erase(session);
      segment.finished.insert(session);
      return true;
    case v1::SessionChange::EVICT:
      segment.open.erase(session);
      segment.workers.erase(session);
      segment.closed.insert(session);
      return true;
    default:
      return false;
  }
}

}  // namespace

bool FakeShard::IsPrimaryOf(uint32_t segment) const {
  if (segment >= static_cast<uint32_t>(map.segments_size())) return false;
  const v1::Member& primary = map.segments(static_cast<int>(segment)).primary();
  return primary.shard() == id && primary.incarnation() == incarnation;
}

// Each start has an address of its own, so that a call to an earlier one goes nowhere.
std::string FakeShards::AddressOf(const FakeShard& shard) {
  return absl::StrCat("host:", shard.nonce);
}

FakeShard* FakeShards::FindAt(const std::string& address) {
  for (auto& [name, shard] : shards_) {
    if (shard.up && AddressOf(shard) == address) return &shard;
  }
  return nullptr;
}

v1::JoinClusterRequest FakeShards::JoinRequest(const std::string& name) const {
  const FakeShard& shard = shards_.at(name);
  v1::JoinClusterRequest request;
  request.set_feature_level(1);
  request.set_name(name);
  request.set_address(AddressOf(shard));
  request.set_nonce(shard.nonce);
  return request;
}

absl::Status FakeShards::Join(CoordinatorCore& core, const std::string& name) {
  shards_[name] = FakeShard();
  shards_[name].nonce = ++last_nonce_;
  return JoinAgain(core, name).status();
}

absl::StatusOr<v1::JoinClusterReply> FakeShards::JoinAgain(CoordinatorCore& core, const std::string& name) {
  const absl::StatusOr<v1::JoinClusterReply> reply = core.JoinCluster(JoinRequest(name));
  if (reply.ok()) {
    shards_[name].id = reply->shard();
    shards_[name].incarnation = reply->incarnation();
  }
  return reply;
}

absl::StatusOr<v1::BeatReply> FakeShards::Beat(CoordinatorCore& core, const std::string& name) {
  const FakeShard& shard = shards_.at(name);
  v1::BeatRequest beat;
  beat.set_shard(shard.id);
  beat.set_incarnation(shard.incarnation);
  beat.set_map_version(shard.map.version());
  beat.set_catalogue_version(shard.catalogue.version());
  uint64_t smallest = UINT64_MAX;
  for (const auto& [id, segment] : shard.segments) smallest = std::min(smallest, segment.min_clock);
  if (!shard.segments.empty()) {
    v1::JobClock& job = *beat.add_jobs();
    job.set_job(1);
    job.set_min_clock(smallest);
  }
  return core.Beat(beat);
}

void FakeShards::BeatAll(CoordinatorCore& core) {
  for (auto& [name, shard] : shards_) {
    if (shard.up) (void)Beat(core, name);
  }
}

void FakeShards::Install(ShardId, const std::string& address, v1::InstallRequest request, InstallDone done) {
  if (drop_calls()) return;
  calls_.push_back([this, address, request = std::move(request), done = std::move(done)] {
    FakeShard* shard = FindAt(address);
    if (shard == nullptr) return done(absl::UnavailableError("connection refused"));
    shard->installs += 1;
    if (request.map().version() > shard->map.version()) shard->map = request.map();
    if (request.catalogue().version() > shard->catalogue.version()) shard->catalogue = request.catalogue();
    v1::InstallReply reply;
    reply.set_map_version(shard->map.version());
    reply.set_catalogue_version(shard->catalogue.version());
    done(reply);
  });
}

void FakeShards::ChangeSession(ShardId, const std::string& address, v1::SessionChange change,
                               ChangeDone done) {
  if (drop_calls()) return;
  calls_.push_back([this, address, change = std::move(change), done = std::move(done)] {
    FakeShard* shard = FindAt(address);
    done(shard == nullptr ? absl::UnavailableError("connection refused") : Answer(*shard, change));
  });
}

absl::StatusOr<v1::SessionChangeReply> FakeShards::Answer(FakeShard& shard, const v1::SessionChange& change) {
  shard.changes.push_back(change);
  if (!shard.scripted.empty()) {
    absl::StatusOr<v1::SessionChangeReply> reply = shard.scripted.front();
    shard.scripted.pop_front();
    return reply;
  }
  v1::SessionChangeReply reply;
  reply.set_map_version(shard.map.version());
  for (uint32_t s = 0; s < static_cast<uint32_t>(shard.map.segments_size()); ++s) {
    if (!shard.IsPrimaryOf(s)) continue;
    if (shard.withheld.contains(s)) {
      reply.add_waits(absl::StrCat("segment ", s, ": 3 of 4 parts applied"));
    } else if (Change(change, shard.segments[s], s, reply)) {
      reply.add_committed(s);
    }
  }
  return reply;
}

void FakeShards::Deliver() {
  while (!calls_.empty()) {
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    call();
  }
}

FakeSegment& FakeShards::Segment(uint32_t segment) {
  static FakeSegment nobody;
  for (auto& [name, shard] : shards_) {
    if (shard.up && shard.IsPrimaryOf(segment)) return shard.segments[segment];
  }
  return nobody;
}

void FakeShards::AdvanceMinClock(uint64_t min_clock) {
  for (auto& [name, shard] : shards_) {
    for (auto& [id, segment] : shard.segments) segment.min_clock = min_clock;
  }
}

}  // namespace paceline::coordinator
