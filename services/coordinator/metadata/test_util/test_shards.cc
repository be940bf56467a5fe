#include "services/coordinator/metadata/test_util/test_shards.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"
#include "services/coordinator/metadata/placement/config_wishes.h"

namespace paceline::coordinator {
namespace {

// Follows a map that says what has changed since another one.
void Follow(const v1::Map& sent, v1::Map& map) {
  if (map.version() < sent.delta().from() || map.version() == 0) return;
  map.set_version(sent.version());
  map.set_feature_level(sent.feature_level());
  for (const auto& changed : sent.delta().segments())
    *map.mutable_segments(static_cast<int>(changed.segment())) = changed.config();
  std::map<uint32_t, v1::ShardInfo> shards;
  for (const v1::ShardInfo& info : map.shards()) shards[info.shard()] = info;
  for (const uint32_t shard : sent.delta().forgotten()) shards.erase(shard);
  for (const v1::ShardInfo& info : sent.delta().shards()) shards[info.shard()] = info;
  map.clear_shards();
  for (const auto& [id, info] : shards) *map.add_shards() = info;
}

void Pass(uint32_t id, uint64_t clock, v1::ChangeReply& reply) {
  v1::ChangeReply::Passed& passed = *reply.add_passed();
  passed.set_segment(id);
  passed.set_clock(clock);
}

// True: the record is committed.
bool ChangeSession(const v1::Change& change, FakeSegment& segment, uint32_t id, v1::ChangeReply& reply) {
  const uint64_t session = change.subject().id();
  const bool closed = segment.closed.contains(session);
  switch (change.action_case()) {
    case v1::Change::kOpen:
      if (!closed) segment.open.insert(session);
      return !closed;
    case v1::Change::kJoin:
      if (closed || !segment.open.contains(session)) return false;
      if (segment.workers.contains(session) || segment.finished.contains(session)) return true;
      if (segment.min_clock > change.join().start_clock()) {
        Pass(id, segment.min_clock, reply);
        return false;
      }
      segment.workers[session] = change.join().start_clock();
      return true;
    case v1::Change::kFinish:
      segment.workers.erase(session);
      segment.finished.insert(session);
      return true;
    case v1::Change::kEvict:
      segment.open.erase(session);
      segment.workers.erase(session);
      segment.closed.insert(session);
      return true;
    default:
      return false;
  }
}

void Fail(const std::string& why, bool lost, uint32_t id, v1::ChangeReply& reply) {
  v1::ChangeReply::Failure& failure = *reply.add_failures();
  failure.set_segment(id);
  failure.set_why(why);
  failure.set_lost(lost);
}

bool Take(const v1::Change::TakeCut& cut, FakeSegment& segment, uint32_t id, v1::ChangeReply& reply) {
  if (!segment.cannot_snapshot.empty()) {
    Fail(segment.cannot_snapshot, /*lost=*/false, id, reply);
    return false;
  }
  if (!cut.at_once() && segment.min_clock > cut.clock() && segment.cut < cut.id()) {
    Pass(id, segment.min_clock, reply);
    return false;
  }
  if (!cut.at_once() && segment.min_clock < cut.clock()) {
    reply.add_waits("the min clock");
    return false;
  }
  segment.cut = std::max(segment.cut, cut.id());
  if (std::exchange(segment.cut_is_lost, false)) {
    Fail("another primary", /*lost=*/true, id, reply);
    return false;
  }
  v1::SnapshotFile& file = *reply.add_files();
  file.set_name(absl::StrCat("segment-", id, ".cut-", cut.id()));
  file.set_segment(id);
  file.set_cut(cut.id());
  file.set_clock(cut.at_once() ? segment.min_clock : cut.clock());
  file.set_exact(true);
  file.set_rows(10);
  segment.write_snapshot(cut.snapshot(), file.name());
  return true;
}

bool ChangeRates(const v1::Change& change, FakeSegment& segment, uint32_t id, v1::ChangeReply& reply) {
  const v1::Change::ChangeRule& rule = change.rule();
  if (!rule.at_once() && segment.min_clock > rule.clock()) {
    Pass(id, segment.min_clock, reply);
    return false;
  }
  std::vector<FakeRates>& rates = segment.rates[rule.table().id()];
  const bool again = !rates.empty() && rates.back().number >= rule.number();
  if (again && rates.back().clock >= rule.clock()) return true;
  rates.push_back({.number = rule.number(),
                   .lr = rule.rule().sgd().learning_rate(),
                   .clock = rule.at_once() ? segment.min_clock : rule.clock(),
                   .at_once = rule.at_once(),
                   .bound = rule.bound()});
  return true;
}

bool Change(const v1::Change& change, FakeSegment& segment, uint32_t id, v1::ChangeReply& reply) {
  if (change.number() != 0 && change.number() <= segment.change_floor) {
    reply.add_late(id);
    return false;
  }
  switch (change.action_case()) {
    case v1::Change::kDrop:
      segment.dropped.insert(static_cast<uint32_t>(change.subject().id()));
      return true;
    case v1::Change::kRule:
      return ChangeRates(change, segment, id, reply);
    case v1::Change::kClose:
      segment.closed_jobs.insert(change.job());
      segment.dropped.insert(change.close().tables().begin(), change.close().tables().end());
      return true;
    case v1::Change::kCut:
      return Take(change.cut(), segment, id, reply);
    case v1::Change::kLoad:
      if (!segment.cannot_snapshot.empty()) {
        Fail(segment.cannot_snapshot, /*lost=*/false, id, reply);
        return false;
      }
      segment.loaded = change.load().id();
      segment.min_clock = change.load().clock();
      return true;
    default:
      return ChangeSession(change, segment, id, reply);
  }
}

}  // namespace

bool FakeShard::IsPrimaryOf(uint32_t segment) const {
  if (segment >= static_cast<uint32_t>(map.segments_size())) return false;
  const v1::Member& primary = map.segments(static_cast<int>(segment)).primary();
  return primary.shard() == id && primary.incarnation() == incarnation;
}

bool FakeShard::IsReplicaOf(uint32_t segment) const {
  return segment < static_cast<uint32_t>(map.segments_size()) &&
         HasReplica(map.segments(static_cast<int>(segment)), member());
}

v1::Member FakeShard::member() const {
  v1::Member member;
  member.set_shard(id);
  member.set_incarnation(incarnation);
  return member;
}

// Each start has an address of its own, so that a call to an earlier one goes nowhere.
std::string FakeShards::AddressOf(const FakeShard& shard) {
  return absl::StrCat("host:", shard.nonce);
}

// As a shard of level 1 is, at the address for clients.
std::string FakeShards::PeerAddressOf(const FakeShard& shard) {
  return shard.level < 2 ? AddressOf(shard) : absl::StrCat("peers:", shard.nonce);
}

FakeShard* FakeShards::FindAt(const std::string& address) {
  for (auto& [name, shard] : shards_) {
    if (shard.up && PeerAddressOf(shard) == address) return &shard;
  }
  return nullptr;
}

std::string FakeShards::NameAt(const std::string& address) {
  const FakeShard* target = FindAt(address);
  for (const auto& [name, shard] : shards_) {
    if (&shard == target) return name;
  }
  return "";
}

v1::JoinClusterRequest FakeShards::JoinRequest(CoordinatorCore& core, const std::string& name) const {
  const FakeShard& shard = shards_.at(name);
  v1::JoinClusterRequest request;
  request.set_feature_level(shard.level);
  request.set_name(name);
  request.set_address(AddressOf(shard));
  if (shard.level >= 2) request.set_peer_address(PeerAddressOf(shard));
  request.set_nonce(shard.nonce);
  request.set_keeps_data(disks.contains(name));
  if (!proves_ends) return request;
  // A folder that is nobody's, so that whatever the store says is right.
  v1::DataFolder& folder = *request.mutable_folder();
  folder.set_place(absl::StrCat("folder of ", name));
  request.set_ask(true);
  const auto asked = core.JoinCluster(request);
  request.set_ask(false);
  if (!asked.ok()) return request;
  *folder.mutable_previous() = asked->stamp();
  folder.mutable_newest()->set_count(asked->stamp().count() + 1);
  folder.mutable_newest()->set_random(shard.nonce);
  return request;
}

absl::Status FakeShards::Join(CoordinatorCore& core, const std::string& name) {
  shards_[name] = FakeShard();
  shards_[name].nonce = ++last_nonce_;
  shards_[name].level = level;
  shards_[name].name = name;
  return JoinAgain(core, name).status();
}

absl::StatusOr<v1::JoinClusterReply> FakeShards::JoinAgain(CoordinatorCore& core, const std::string& name) {
  const absl::StatusOr<v1::JoinClusterReply> reply = core.JoinCluster(JoinRequest(core, name));
  if (reply.ok()) {
    shards_[name].id = reply->shard();
    shards_[name].incarnation = reply->incarnation();
  }
  return reply;
}

absl::StatusOr<v1::BeatReply> FakeShards::Beat(CoordinatorCore& core, const std::string& name) {
  const FakeShard& shard = shards_.at(name);
  v1::BeatRequest beat = shard.says;
  beat.set_shard(shard.id);
  beat.set_incarnation(shard.incarnation);
  beat.set_map_version(shard.map.version());
  beat.set_catalogue_version(shard.catalogue.version());
  uint64_t smallest = UINT64_MAX;
  for (const auto& [id, segment] : shard.segments) smallest = std::min(smallest, segment.min_clock);
  if (!shard.segments.empty()) {
    for (const uint32_t id : jobs_with_clocks) {
      v1::JobClock& job = *beat.add_jobs();
      job.set_job(id);
      job.set_min_clock(smallest);
    }
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
    if (request.map().has_delta() && shard->refuses_deltas) return done(absl::InvalidArgumentError("map"));
    shard->deltas += request.map().has_delta() ? 1 : 0;
    v1::Map sent = request.map();
    if (!request.whole_map().empty()) sent.ParseFromString(request.whole_map());
    if (sent.version() > shard->map.version()) {
      sent.has_delta() ? Follow(sent, shard->map) : shard->map.Swap(&sent);
    }
    if (request.catalogue().version() > shard->catalogue.version()) shard->catalogue = request.catalogue();
    v1::InstallReply reply;
    reply.set_map_version(shard->map.version());
    reply.set_catalogue_version(shard->catalogue.version());
    done(reply);
  });
}

void FakeShards::MakeChange(ShardId, const std::string& address, v1::Change change, ChangeDone done) {
  if (drop_calls()) return;
  const auto* action = v1::Change::descriptor()->FindFieldByNumber(change.action_case());
  auto& queue = hold(action->name(), NameAt(address)) ? held_ : calls_;
  queue.push_back([this, address, change = std::move(change), done = std::move(done)] {
    FakeShard* shard = FindAt(address);
    done(shard == nullptr ? absl::UnavailableError("connection refused") : Answer(*shard, change));
  });
}

absl::StatusOr<v1::ChangeReply> FakeShards::Answer(FakeShard& shard, const v1::Change& change) {
  shard.changes.push_back(change);
  if (!shard.scripted.empty()) {
    absl::StatusOr<v1::ChangeReply> reply = shard.scripted.front();
    shard.scripted.pop_front();
    return reply;
  }
  v1::ChangeReply reply;
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

template <class Request, class Done>
void FakeShards::Queue(const std::string& call, const std::string& address, Request request, Done done) {
  if (drop_calls()) return;
  auto& queue = hold(call, NameAt(address)) ? held_ : calls_;
  queue.push_back([this, address, request = std::move(request), done = std::move(done)] {
    FakeShard* shard = FindAt(address);
    if (shard == nullptr) return done(absl::UnavailableError("connection refused"));
    if (!Same(request.target(), shard->member())) return done(absl::FailedPreconditionError("not me"));
    done(Answer(*shard, request));
  });
}

void FakeShards::Fence(ShardId, const std::string& address, v1::FenceRequest request, FenceDone done) {
  Queue("Fence", address, std::move(request), std::move(done));
}
void FakeShards::Recruit(ShardId, const std::string& address, v1::RecruitRequest request, RecruitDone done) {
  Queue("Recruit", address, std::move(request), std::move(done));
}
void FakeShards::HandOver(ShardId, const std::string& address, v1::HandOverRequest request,
                          HandOverDone done) {
  Queue("HandOver", address, std::move(request), std::move(done));
}

v1::FenceReply FakeShards::Answer(FakeShard& shard, const v1::FenceRequest& request) {
  shard.fences.push_back(request);
  v1::FenceReply reply;
  for (const auto& asked : request.segments()) {
    v1::FenceReply::Segment& segment = *reply.add_segments();
    segment.set_segment(asked.segment());
    const bool before = shard.fenced[asked.segment()] >= asked.epoch();
    if (asked.only_if_silent() && !before && shard.not_silent.contains(asked.segment())) {
      segment.set_why_not("its primary sends beacons");
      continue;
    }
    uint64_t& fenced = shard.fenced[asked.segment()];
    fenced = std::max(fenced, asked.epoch());
    segment.set_fenced(true);
    if (asked.left_over()) {
      const auto [epoch, lsn] = shard.left_over[asked.segment()];
      segment.set_lsn_epoch(epoch);
      segment.set_lsn(lsn);
      continue;
    }
    if (asked.restored()) {
      const auto disk = disks.find(shard.name);
      if (disk == disks.end() || !disk->second.contains(asked.segment())) continue;
      const auto [epoch, lsn] = disk->second.at(asked.segment());
      segment.set_lsn_epoch(epoch);
      segment.set_lsn(lsn);
      continue;
    }
    const auto log = shard.logs.try_emplace(asked.segment(), 1, 1).first->second;
    segment.set_lsn_epoch(log.first);
    segment.set_lsn(log.second);
  }
  return reply;
}

v1::RecruitReply FakeShards::Answer(FakeShard& shard, const v1::RecruitRequest& request) {
  shard.recruits.push_back(request);
  v1::RecruitReply reply;
  for (const auto& segment : request.segments()) {
    if (shard.IsPrimaryOf(segment.segment())) reply.add_taken(segment.segment());
  }
  return reply;
}

v1::HandOverReply FakeShards::Answer(FakeShard& shard, const v1::HandOverRequest& request) {
  shard.hand_overs.push_back(request);
  v1::HandOverReply reply;
  for (const auto& segment : request.segments()) {
    if (shard.IsPrimaryOf(segment.segment())) reply.add_begun(segment.segment());
  }
  return reply;
}

void FakeShards::Identify(ShardId, const std::string& address, v1::IdentifyRequest, IdentifyDone done) {
  if (drop_calls()) return;
  auto& queue = hold("Identify", NameAt(address)) ? held_ : calls_;
  queue.push_back([this, address, done = std::move(done)] {
    FakeShard* shard = FindAt(address);
    if (shard == nullptr) return done(absl::UnavailableError("connection refused"));
    v1::IdentifyReply reply;
    reply.set_nonce(shard->nonce);
    done(reply);
  });
}

absl::StatusOr<v1::EmptyFolderReply> FakeShards::Answer(FakeShard& shard, const v1::EmptyFolderRequest&) {
  if (!shard.keeps_folder.empty()) return absl::FailedPreconditionError(shard.keeps_folder);
  shard.emptied += 1;
  shard.says.set_emptied(true);
  return v1::EmptyFolderReply();
}

void FakeShards::EmptyFolder(ShardId, const std::string& address, v1::EmptyFolderRequest request,
                             EmptyFolderDone done) {
  Queue("EmptyFolder", address, std::move(request), std::move(done));
}

absl::StatusOr<v1::ChangeConfigsReply> FakeShards::Wish(CoordinatorCore& core, const std::string& name,
                                                        const std::vector<v1::ConfigWish>& wishes) {
  v1::ChangeConfigsRequest request;
  *request.mutable_from() = shards_.at(name).member();
  for (const v1::ConfigWish& wish : wishes) *request.add_wishes() = wish;
  return core.ChangeConfigs(request);
}

void FakeShards::LetGo() {
  for (auto& call : std::exchange(held_, {})) calls_.push_back(std::move(call));
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
