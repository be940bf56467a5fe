#include "services/coordinator/metadata/test_util/test_cluster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/feature_level.h"
#include "libs/base/status.h"
#include "services/coordinator/metadata/facts/keys.h"

namespace paceline::coordinator {

absl::Status FaultyStore::Commit(absl::Span<const Condition> conditions, absl::Span<const Write> writes) {
  const absl::Status failed = absl::UnavailableError("the disk does not answer");
  if (crashed_ || broken) return failed;
  commits_ += 1;
  const bool struck = fault_ != Fault::kNone && commits_ == at_;
  if (struck && fault_ == Fault::kFailBefore) return failed;
  if (struck && fault_ == Fault::kFailLate) {
    late_ = {{conditions.begin(), conditions.end()}, {writes.begin(), writes.end()}};
    return failed;
  }
  const absl::Status status = store_->Commit(conditions, writes);
  if (late_.has_value()) {
    (void)store_->Commit(late_->first, late_->second);
    late_.reset();
  }
  if (struck && fault_ == Fault::kCrashAfter) crashed_ = true;
  return struck && fault_ == Fault::kFailAfter ? failed : status;
}

TestCluster::TestCluster(uint32_t shards, Options wanted) : options(std::move(wanted)) {
  options.shards = shards;
  options.random = &random_;
  (void)Restart();
}

TestCluster::~TestCluster() = default;

void TestCluster::Stop() {
  core_.reset();
  store_.reset();
  shards_.DropCalls();
}

absl::Status TestCluster::Restart() {
  Stop();
  store_ = std::make_unique<FaultyStore>(*MemoryStore::Open(disk_));
  store_->Plan(next_fault.first, next_fault.second);
  next_fault = {FaultyStore::Fault::kNone, 0};
  absl::StatusOr<std::unique_ptr<CoordinatorCore>> core =
      CoordinatorCore::Create(options, *store_, clock_, shards_, *probe);
  if (core.ok()) core_ = *std::move(core);
  if (core.ok() && beating) shards_.BeatAll(*core_);  // they have been trying all the time
  return core.status();
}

std::string TestCluster::SecretOf(uint64_t session) const {
  const auto entry = store_->Get(keys::Of(keys::kSessions, session));
  SessionRecord record;
  if (!entry.ok() || !entry->has_value() || !record.ParseFromString((*entry)->value)) return "";
  return record.secret();
}

void TestCluster::JoinShards() {
  for (uint32_t s = 0; s < options.shards; ++s) (void)shards_.Join(*core_, absl::StrCat("shard-", s));
  shards_.Deliver();
}

void TestCluster::Run(absl::Duration duration) {
  const absl::Time end = clock_.now + duration;
  while (clock_.now < end) {
    clock_.now = std::min(end, clock_.now + absl::Milliseconds(10));
    shards_.Deliver();
    if (clock_.now >= next_beat_) {
      next_beat_ = clock_.now + absl::Seconds(1);
      if (beating) shards_.BeatAll(*core_);
      for (const uint64_t session : kept_alive) (void)KeepAlive(session);
    }
    if (core_->NextDeadline() <= clock_.now) core_->OnTime();
    shards_.Deliver();
  }
}

Pending<v1::OpenSessionReply> TestCluster::OpenSession(const std::string& job, uint64_t nonce,
                                                       uint32_t timeout_ms) {
  v1::OpenSessionRequest request;
  request.set_feature_level(kFeatureLevel);
  request.set_job(job);
  request.set_client("a test");
  request.set_nonce(nonce);
  request.set_timeout_ms(timeout_ms);
  Pending<v1::OpenSessionReply> pending;
  pending.ticket = core_->OpenSession(request, absl::InfiniteFuture(), pending.done());
  return pending;
}

Pending<v1::JoinJobReply> TestCluster::JoinJob(uint64_t session, uint32_t workers, uint32_t rank_plus_one,
                                               uint32_t timeout_ms) {
  v1::JoinJobRequest request;
  request.set_session(session);
  request.set_token(SecretOf(session));
  request.set_workers(workers);
  request.set_rank_plus_one(rank_plus_one);
  request.set_timeout_ms(timeout_ms);
  Pending<v1::JoinJobReply> pending;
  pending.ticket = core_->JoinJob(request, absl::InfiniteFuture(), pending.done());
  return pending;
}

Pending<v1::FinishWorkerReply> TestCluster::FinishWorker(uint64_t session, uint32_t timeout_ms) {
  v1::FinishWorkerRequest request;
  request.set_session(session);
  request.set_token(SecretOf(session));
  request.set_timeout_ms(timeout_ms);
  Pending<v1::FinishWorkerReply> pending;
  pending.ticket = core_->FinishWorker(request, absl::InfiniteFuture(), pending.done());
  return pending;
}

absl::StatusOr<v1::RecoverSegmentsReply> TestCluster::AcceptLosses() {
  v1::RecoverSegmentsRequest request;
  const absl::StatusOr<v1::RecoverSegmentsReply> found = core_->RecoverSegments(request);
  if (!found.ok()) return found;
  for (const auto& segment : found->waiting()) {
    auto& loss = *request.add_accept_loss();
    loss.set_segment(segment.segment());
    loss.set_epoch(segment.epoch());
  }
  return core_->RecoverSegments(request);
}

Pending<v1::CloseSessionReply> TestCluster::CloseSession(uint64_t session, uint32_t timeout_ms) {
  v1::CloseSessionRequest request;
  request.set_session(session);
  request.set_token(SecretOf(session));
  request.set_timeout_ms(timeout_ms);
  Pending<v1::CloseSessionReply> pending;
  pending.ticket = core_->CloseSession(request, absl::InfiniteFuture(), pending.done());
  return pending;
}

absl::Status TestCluster::KeepAlive(uint64_t session, uint64_t clock) {
  v1::KeepAliveRequest request;
  request.set_session(session);
  request.set_token(SecretOf(session));
  request.set_clock(clock);
  return core_->KeepAlive(request).status();
}

absl::StatusOr<v1::OpenTableReply> TestCluster::OpenTable(uint64_t session, const std::string& name,
                                                          const v1::TableSchema& schema, bool create) {
  v1::OpenTableRequest request;
  request.set_session(session);
  request.set_token(SecretOf(session));
  request.set_name(name);
  *request.mutable_schema() = schema;
  request.set_create(create);
  return core_->OpenTable(request);
}

Pending<v1::DropTableReply> TestCluster::DropTable(uint64_t session, uint32_t table, uint32_t timeout_ms) {
  v1::DropTableRequest request;
  request.set_session(session);
  request.set_token(SecretOf(session));
  request.set_table(table);
  request.set_timeout_ms(timeout_ms);
  Pending<v1::DropTableReply> pending;
  pending.ticket = core_->DropTable(request, absl::InfiniteFuture(), pending.done());
  return pending;
}

Pending<v1::ChangeRuleReply> TestCluster::ChangeRule(v1::ChangeRuleRequest request) {
  request.set_token(SecretOf(request.session()));
  Pending<v1::ChangeRuleReply> pending;
  pending.ticket = core_->ChangeRule(request, absl::InfiniteFuture(), pending.done());
  return pending;
}

Pending<v1::DeleteJobReply> TestCluster::DeleteJob(const std::string& job, bool force, uint32_t timeout_ms) {
  v1::DeleteJobRequest request;
  request.set_job(job);
  request.set_force(force);
  request.set_timeout_ms(timeout_ms);
  return DeleteJob(request);
}

Pending<v1::DeleteJobReply> TestCluster::DeleteJob(const v1::DeleteJobRequest& request) {
  Pending<v1::DeleteJobReply> pending;
  pending.ticket = core_->DeleteJob(request, absl::InfiniteFuture(), pending.done());
  return pending;
}

uint64_t TestCluster::Opened(const std::string& job) {
  const auto pending = OpenSession(job, ++last_nonce_);
  Await(pending);
  if (!pending.status().ok()) return 0;
  kept_alive.insert(pending->session());
  return pending->session();
}

uint64_t TestCluster::Worker(const std::string& job) {
  const uint64_t session = Opened(job);
  const auto pending = JoinJob(session);
  Await(pending);
  return pending.status().ok() ? session : 0;
}

absl::Status TestCluster::MoveSegment(uint32_t segment, uint32_t shard) {
  v1::Map map;
  ABSL_ASSIGN_OR_RETURN(const uint64_t watcher,
                        core_->WatchMap(0, [&](const auto& newest) { map = *newest; }));
  core_->Unwatch(watcher);
  const v1::SegmentConfig& config = map.segments(static_cast<int>(segment));
  std::string primary;
  v1::Member to;
  for (const auto& [name, known] : shards_.all()) {
    if (known.id == config.primary().shard()) primary = name;
    if (known.id == shard) to = known.member();
  }
  std::vector<v1::ConfigWish> wishes;
  const auto wish = [&](v1::ConfigWish::Kind kind) {
    v1::ConfigWish& next = wishes.emplace_back();
    next.set_kind(kind);
    next.set_segment(segment);
    next.set_epoch(config.epoch() + wishes.size() - 1);
    *next.add_members() = to;
  };
  if (config.primary().shard() == shard) return absl::OkStatus();
  const bool member =
      std::ranges::any_of(config.replicas(), [&](const auto& replica) { return replica.shard() == shard; });
  if (!member) wish(v1::ConfigWish::ADD);
  wish(v1::ConfigWish::SWAP);
  ABSL_ASSIGN_OR_RETURN(const v1::ChangeConfigsReply reply, shards_.Wish(*core_, primary, wishes));
  for (const auto& answer : reply.segments()) {
    if (!answer.why_not().empty()) return absl::FailedPreconditionError(answer.why_not());
  }
  return absl::OkStatus();
}

std::string TestCluster::StateOf(uint64_t session) {
  const v1::StatusReply status = core_->Status();
  for (const auto& job : status.jobs()) {
    for (const auto& of_session : job.sessions()) {
      if (of_session.session() == session) return of_session.state();
    }
  }
  return "closed";
}

std::vector<std::string> TestCluster::Problems() {
  const v1::StatusReply status = core_->Status();
  return {status.problems().begin(), status.problems().end()};
}

int TestCluster::CountSegments(const std::function<bool(const FakeSegment&)>& holds) {
  int count = 0;
  for (uint32_t s = 0; s < uint32_t{1} << options.ring_bits; ++s) count += holds(shards_.Segment(s)) ? 1 : 0;
  return count;
}

v1::TableSchema SparseSchema(uint32_t dim) {
  v1::TableSchema schema;
  schema.set_kind(v1::TABLE_KIND_SPARSE);
  schema.set_dim(dim);
  schema.mutable_rule()->mutable_add();
  return schema;
}

}  // namespace paceline::coordinator
