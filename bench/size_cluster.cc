#include "bench/size_cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"
#include "libs/base/status.h"

namespace paceline::bench {
namespace {

constexpr char kJob[] = "job";

void Count(uint64_t bytes, Traffic& traffic) {
  traffic.messages += 1;
  traffic.bytes += bytes;
  traffic.largest = std::max(traffic.largest, bytes);
}

}  // namespace

absl::Status SizeCluster::CountingStore::Commit(absl::Span<const coordinator::Condition> conditions,
                                                absl::Span<const coordinator::Write> writes) {
  for (const coordinator::Write& write : writes) stored += write.value.value_or("").size();
  return store->Commit(conditions, writes);
}

SizeCluster::SizeCluster(ClusterSize size) : size_(size) {
  options_.shards = size.shards;
  options_.replicas = kReplicas;
  options_.ring_bits = size.ring_bits;
  options_.new_cluster = 1;
  options_.random = &random_;
  options_.session_timeout = absl::Hours(1);
}

SizeCluster::~SizeCluster() {
  core_.reset();
}

absl::Status SizeCluster::Start() {
  core_.reset();
  store_.reset();
  calls_.clear();
  ABSL_ASSIGN_OR_RETURN(auto store, coordinator::MemoryStore::Open(disk_));
  store_ = std::make_unique<CountingStore>(std::move(store));
  ABSL_ASSIGN_OR_RETURN(core_,
                        coordinator::CoordinatorCore::Create(options_, *store_, clock_, *this, probe_));
  return core_->WatchMap(0, [this](const std::shared_ptr<const v1::Map>& map) { OnMap(map); }).status();
}

absl::Status SizeCluster::Restart() {
  return Start();
}

void SizeCluster::OnMap(const std::shared_ptr<const v1::Map>& map) {
  map_ = map;
  primaries_.assign(shards_.size() + 1, {});
  for (int s = 0; s < map->segments_size(); ++s) {
    primaries_[map->segments(s).primary().shard()].push_back(static_cast<uint32_t>(s));
  }
}

absl::Status SizeCluster::Join() {
  if (core_ == nullptr) ABSL_RETURN_IF_ERROR(Start());
  const size_t number = shards_.size();
  v1::JoinClusterRequest request;
  request.set_feature_level(kFeatureLevel);
  request.set_name(absl::StrCat("shard-", number));
  request.set_address(absl::StrCat("shard-", number, ".paceline.svc.cluster.local:7071"));
  request.set_peer_address(absl::StrCat("shard-", number, ".paceline.svc.cluster.local:7072"));
  request.set_nonce(++last_nonce_);
  shards_.emplace_back();
  ABSL_ASSIGN_OR_RETURN(const v1::JoinClusterReply reply, core_->JoinCluster(request));
  shards_.back().incarnation = reply.incarnation();
  return absl::OkStatus();
}

void SizeCluster::Answer() {
  while (!calls_.empty()) {
    const std::function<void()> answer = std::move(calls_.front());
    calls_.pop_front();
    answer();
    (void)core_->NextDeadline();  // as after every visit
  }
}

v1::BeatRequest SizeCluster::BeatOf(uint32_t shard) const {
  v1::BeatRequest beat;
  beat.set_shard(shard);
  beat.set_incarnation(shards_[shard].incarnation);
  beat.set_map_version(shards_[shard].map_version);
  beat.set_catalogue_version(shards_[shard].catalogue_version);
  beat.set_rows(1000);
  beat.set_bytes(1 << 20);
  v1::JobClock& job = *beat.add_jobs();
  job.set_job(1);
  job.set_min_clock(100);
  for (uint32_t w = 0; w < std::min(size_.workers, 2u); ++w) {  // the slowest and the newest
    v1::WorkerClock& worker = *beat.add_workers();
    worker.set_job(1);
    worker.set_session(w + 1);
    worker.set_clock(100 + w % 3);
    worker.set_rank(w);
  }
  return beat;
}

absl::StatusOr<v1::OpenSessionReply> SizeCluster::Open() {
  v1::OpenSessionRequest request;
  request.set_feature_level(kFeatureLevel);
  request.set_job(kJob);
  request.set_client("worker");
  request.set_nonce(++last_nonce_);
  request.set_takes_compact_map(true);  // as the SDK
  absl::StatusOr<v1::OpenSessionReply> opened = absl::DeadlineExceededError("the session did not open");
  core_->OpenSession(request, absl::InfiniteFuture(), [this, &opened](auto reply) {
    opened = std::move(reply);
    if (opened.ok()) Count(opened->SerializeAsString().size(), to_clients_);
  });
  Answer();
  return opened;
}

absl::Status SizeCluster::MakeWorker(const v1::OpenSessionReply& session) {
  v1::JoinJobRequest request;
  request.set_session(session.session());
  request.set_token(session.secret());
  absl::Status joined = absl::DeadlineExceededError("the worker did not join");
  core_->JoinJob(request, absl::InfiniteFuture(), [&joined](auto reply) { joined = reply.status(); });
  Answer();
  return joined;
}

void SizeCluster::Watch() {
  const auto told = [this](const std::shared_ptr<const v1::Map>& map) {
    Count(map->SerializeAsString().size(), to_clients_);
  };
  (void)core_->WatchMap(map_->version(), told, /*takes_deltas=*/true);
}

absl::Status SizeCluster::Drop(uint32_t segment) {
  const v1::SegmentConfig config = map_->segments(static_cast<int>(segment));
  if (config.replicas().empty()) return absl::FailedPreconditionError("the segment has no replica");
  v1::ChangeConfigsRequest request;
  *request.mutable_from() = config.primary();
  v1::ConfigWish& wish = *request.add_wishes();
  wish.set_segment(segment);
  wish.set_epoch(config.epoch());
  wish.set_kind(v1::ConfigWish::DROP);
  *wish.add_members() = config.replicas(0);
  ABSL_ASSIGN_OR_RETURN(const v1::ChangeConfigsReply reply, core_->ChangeConfigs(request));
  Answer();
  const std::string& why_not = reply.segments(0).why_not();
  return why_not.empty() ? absl::OkStatus() : absl::FailedPreconditionError(why_not);
}

Traffic SizeCluster::TakeToShards() {
  for (const auto& [shard, messages] : messages_to_) {
    to_shards_.most_to_one = std::max(to_shards_.most_to_one, messages);
  }
  messages_to_.clear();
  return std::exchange(to_shards_, Traffic());
}

// -- the shards --

template <class Message>
std::string SizeCluster::Sent(ShardId shard, const Message& message) {
  std::string bytes = message.SerializeAsString();
  Count(bytes.size(), to_shards_);
  messages_to_[shard.v] += 1;
  return bytes;
}

void SizeCluster::Install(ShardId shard, const std::string&, v1::InstallRequest request, InstallDone done) {
  std::string bytes = Sent(shard, request);
  if (shard.v == 0) last_install_ = std::move(bytes);
  calls_.emplace_back([this, shard, request = std::move(request), done = std::move(done)] {
    Member& member = shards_[shard.v];
    member.map_version = std::max(member.map_version, request.map().version());
    member.catalogue_version = std::max(member.catalogue_version, request.catalogue().version());
    v1::InstallReply reply;
    reply.set_map_version(member.map_version);
    reply.set_catalogue_version(member.catalogue_version);
    done(reply);
  });
}

void SizeCluster::MakeChange(ShardId shard, const std::string&, v1::Change change, ChangeDone done) {
  Sent(shard, change);
  calls_.emplace_back([this, shard, done = std::move(done)] {
    v1::ChangeReply reply;
    reply.set_map_version(shards_[shard.v].map_version);
    for (const uint32_t segment : primaries_[shard.v]) reply.add_committed(segment);
    done(reply);
  });
}

void SizeCluster::Recruit(ShardId shard, const std::string&, v1::RecruitRequest request, RecruitDone done) {
  Sent(shard, request);
  calls_.emplace_back([request = std::move(request), done = std::move(done)] {
    v1::RecruitReply reply;
    for (const auto& segment : request.segments()) reply.add_taken(segment.segment());
    done(reply);
  });
}

void SizeCluster::HandOver(ShardId shard, const std::string&, v1::HandOverRequest request,
                           HandOverDone done) {
  Sent(shard, request);
  calls_.emplace_back([request = std::move(request), done = std::move(done)] {
    v1::HandOverReply reply;
    for (const auto& segment : request.segments()) reply.add_begun(segment.segment());
    done(reply);
  });
}

// Nothing that is measured makes these.
void SizeCluster::Fence(ShardId, const std::string&, v1::FenceRequest, FenceDone done) {
  calls_.emplace_back([done = std::move(done)] { done(absl::UnavailableError("not measured")); });
}
void SizeCluster::Identify(ShardId, const std::string&, v1::IdentifyRequest, IdentifyDone done) {
  calls_.emplace_back([done = std::move(done)] { done(absl::UnavailableError("not measured")); });
}
void SizeCluster::EmptyFolder(ShardId, const std::string&, v1::EmptyFolderRequest, EmptyFolderDone done) {
  calls_.emplace_back([done = std::move(done)] { done(absl::UnavailableError("not measured")); });
}

}  // namespace paceline::bench
