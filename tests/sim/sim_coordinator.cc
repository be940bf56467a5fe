#include "tests/sim/sim_coordinator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/wire/map_codec.h"
#include "services/coordinator/metadata/facts/keys.h"
#include "services/coordinator/metadata/facts/stored_map.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kShardTimeout = absl::Seconds(2);

}  // namespace

absl::Status FailingStore::Commit(absl::Span<const coordinator::Condition> conditions,
                                  absl::Span<const coordinator::Write> writes) {
  const Failure failure = std::exchange(next, Failure::kNone);
  if (failure != Failure::kNone) ++failed;
  if (failure != Failure::kBefore) {
    const absl::Status status = store_->Commit(conditions, writes);
    in_doubt = failure == Failure::kAfter;
    if (status.ok()) committed_(writes);
    in_doubt = false;
    if (failure == Failure::kNone) return status;
  }
  return absl::UnavailableError("the disk does not answer");
}

SimCoordinator::SimCoordinator(World& world, coordinator::Options options, SnapshotShare* share)
    : world_(world),
      options_(std::move(options)),
      disk_(std::make_shared<coordinator::MemoryStore::Disk>()),
      share_(share) {
  options_.random = &secrets_;
}

SimCoordinator::~SimCoordinator() = default;

void SimCoordinator::Start() {
  ++starts_;
  told_load_.clear();
  drains_in_doubt_ = false;
  if (newest_ == nullptr) copies_.push_back(*disk_);
  store_ = std::make_unique<FailingStore>(*coordinator::MemoryStore::Open(disk_), [this](auto writes) {
    if (newest_ != nullptr) return OnCommittedToOld(writes);
    OnCommitted(writes);
  });
  if (share_ != nullptr) {
    desk_ = std::make_unique<SimSnapshotDesk>(*share_, world_.scheduler, host_, [this] { Arm(); });
    options_.snapshots = desk_.get();
  }
  auto core = coordinator::CoordinatorCore::Create(options_, *store_, clock_, *this, *this);
  if (!core.ok()) {
    world_.verdict.Violated("Progress",
                            absl::StrCat("the coordinator does not start: ", core.status().ToString()));
    return;
  }
  core_ = *std::move(core);
  host_.up = true;
  armed_ = absl::InfiniteFuture();
  Arm();
}

void SimCoordinator::Kill() {
  host_.up = false;
  core_.reset();
  store_.reset();
  if (desk_ != nullptr) {
    desk_->Die();
    dead_desks_.push_back(std::move(desk_));
    share_->OnTakerGone();
  }
  world_.calls.Cut(host_);
}

void SimCoordinator::Terminate() {
  if (core_ != nullptr) core_->Stop();
  Kill();
}

bool SimCoordinator::StartAged(uint64_t map_version) {
  if (newest_ != nullptr || core_ != nullptr) return false;
  std::vector<size_t> older;
  for (size_t i = 0; i < copies_.size(); ++i) {
    // One that lacks something that every shard was told.
    v1::Map map;
    const auto entry = copies_[i].entries.find(coordinator::keys::kMap);
    const bool known = entry != copies_[i].entries.end() && map.ParseFromString(entry->second.value);
    if (known && map.version() < map_version && !before_doubt_.has_value()) older.push_back(i);
  }
  if (older.empty()) return false;
  const coordinator::MemoryStore::Disk& copy = copies_[older[world_.Below(older.size())]];
  newest_ = std::exchange(disk_, std::make_shared<coordinator::MemoryStore::Disk>(copy));
  aged_counters_.ParseFromString(copy.entries.at(std::string(coordinator::keys::kCounters)).value);
  Start();
  return true;
}

void SimCoordinator::BringStoreBack() {
  if (newest_ != nullptr) disk_ = std::exchange(newest_, nullptr);
}

// Nobody may be told a number that was given out before, nor a map.
void SimCoordinator::OnCommittedToOld(absl::Span<const coordinator::Write> writes) {
  namespace keys = coordinator::keys;
  for (const coordinator::Write& write : writes) {
    if (write.key == keys::kMap) {
      world_.verdict.Violated("Stale", "a coordinator on an older store makes a map");
    }
    // Shards may take it that a session ends by the word of such a one: its client, or its silence, has
    // asked.
    coordinator::SessionRecord session;
    if (absl::StartsWith(write.key, keys::kSessions) && write.value.has_value() &&
        session.ParseFromString(*write.value) && session.state() == coordinator::SessionRecord::CLOSING) {
      if (TrueSession* truth = world_.truth.Find(SessionId(session.id()))) truth->closing = true;
    }
    coordinator::CountersRecord now;
    if (write.key != keys::kCounters || !write.value.has_value() || !now.ParseFromString(*write.value))
      continue;
    now.set_closed_floor(aged_counters_.closed_floor());
    now.set_unopened(aged_counters_.unopened());
    now.set_change(aged_counters_.change());  // no shard is told it before all of them were heard
    if (now.SerializeAsString() == aged_counters_.SerializeAsString()) continue;
    world_.verdict.Violated(
        "Stale", absl::StrCat("a coordinator on an older store gives out numbers: ", now.ShortDebugString(),
                              " after ", aged_counters_.ShortDebugString()));
  }
}

void SimCoordinator::Visit(const std::function<void(coordinator::CoordinatorCore&)>& visit) {
  if (core_ == nullptr) return;
  visit(*core_);
  Arm();
}

void SimCoordinator::Arm() {
  if (core_ == nullptr) return;
  const absl::Time next = std::max(clock_.When(core_->NextDeadline()), world_.Now());
  if (next >= armed_) return;
  armed_ = next;
  world_.scheduler.At(next, [this, start = starts_] { OnTime(start); });
}

void SimCoordinator::OnTime(uint64_t start) {
  if (start != starts_ || core_ == nullptr) return;
  if (host_.Paused(world_.Now())) {
    world_.scheduler.At(host_.paused_until, [this, start] { OnTime(start); });
    return;
  }
  if (world_.Now() < armed_) return;
  armed_ = absl::InfiniteFuture();
  if (core_->NextDeadline() <= clock_.Now()) core_->OnTime();
  Arm();
}

void SimCoordinator::Install(ShardId, const std::string& address, v1::InstallRequest request,
                             InstallDone done) {
  Target& target = shards_.at(address);
  world_.calls.Call<v1::InstallReply>(
      host_, *target.host, kShardTimeout,
      [this, &target, request = std::move(request)](auto answer) {
        if (request.map().has_delta()) OnDelta(request.map());
        auto reply = target.shard->Install(request);
        CheckMapOf(*target.shard);
        answer(std::move(reply));
      },
      [this, done = std::move(done)](auto reply) {
        done(std::move(reply));
        Arm();
      });
}

void SimCoordinator::OnDelta(const v1::Map& sent) {
  world_.marks.Hit("a map travels as what has changed");
  if (sent.version() > sent.delta().from() + 1) world_.marks.Hit("changes of several maps travel as one");
}

// Owned: a map says what was committed under its number, however it has come.
void SimCoordinator::CheckMapOf(const shard::Shard& shard) {
  const auto view = shard.view();
  const auto committed = maps_.find(view->map_version().v);
  if (committed == maps_.end()) return;
  for (uint32_t s = 0; s < view->map->SegmentCount(); ++s) {
    if (view->map->ConfigOf(SegmentId(s)) ==
        wire::ConfigFromProto(committed->second.segments(static_cast<int>(s)))) {
      continue;
    }
    world_.verdict.Violated("Owned", absl::StrCat(shard.options().name, " has map ", view->map_version().v,
                                                  ", in which segment ", s, " is not as it was committed"));
  }
  if (view->map->shards().size() == static_cast<size_t>(committed->second.shards_size())) return;
  world_.verdict.Violated("Owned", absl::StrCat(shard.options().name, " has map ", view->map_version().v,
                                                " with other shards than were committed"));
}

template <class Reply, class Request>
void SimCoordinator::Ask(const std::string& address,
                         void (shard::Shard::*ask)(const Request&,
                                                   std::function<void(absl::StatusOr<Reply>)>),
                         Request request, std::function<void(absl::StatusOr<Reply>)> done) {
  Target& target = shards_.at(address);
  world_.calls.Call<Reply>(
      host_, *target.host, kShardTimeout,
      [&target, ask, request = std::move(request)](auto answer) { (target.shard->*ask)(request, answer); },
      [this, done = std::move(done)](auto reply) {
        done(std::move(reply));
        Arm();
      });
}

// A shard makes no change for a coordinator with an older map than its own, nor for one of an earlier term
// than it knows of.
void SimCoordinator::MakeChange(ShardId, const std::string& address, v1::Change change, ChangeDone done) {
  if (change.has_cut()) {
    const v1::Change::TakeCut& cut = change.cut();
    world_.invariants.OnCutAsked(cut.id(), cut.at_once() ? std::nullopt : std::optional<Clock>(cut.clock()));
  }
  Target& target = shards_.at(address);
  world_.calls.Call<v1::ChangeReply>(
      host_, *target.host, kShardTimeout,
      [this, &target, change = std::move(change)](auto answer) {
        const auto view = target.shard->view();
        const bool overtaken = change.map_version() < view->map_version().v;
        const bool deposed = change.term() < view->term;
        if (!overtaken && !deposed) return target.shard->MakeChange(change, answer);
        if (overtaken) world_.marks.Hit("a map overtakes a change");
        if (deposed) world_.marks.Hit("a change of a deposed coordinator");
        target.shard->MakeChange(change, [this, view, change, answer, name = target.host->name](auto reply) {
          if (reply.ok() && reply->committed_size() > 0) {
            world_.verdict.Violated(
                "Stale", absl::StrCat(name, " has map ", view->map_version().v, " and knows of term ",
                                      view->term, ", and does what is asked: ", change.ShortDebugString()));
          }
          answer(std::move(reply));
        });
      },
      [this, done = std::move(done)](auto reply) {
        done(std::move(reply));
        Arm();
      });
}

void SimCoordinator::Fence(ShardId, const std::string& address, v1::FenceRequest request, FenceDone done) {
  Ask<v1::FenceReply>(address, &shard::Shard::Fence, std::move(request), std::move(done));
}

void SimCoordinator::Recruit(ShardId, const std::string& address, v1::RecruitRequest request,
                             RecruitDone done) {
  Ask<v1::RecruitReply>(address, &shard::Shard::Recruit, std::move(request), std::move(done));
}

void SimCoordinator::HandOver(ShardId, const std::string& address, v1::HandOverRequest request,
                              HandOverDone done) {
  Ask<v1::HandOverReply>(address, &shard::Shard::HandOver, std::move(request), std::move(done));
}

void SimCoordinator::Identify(ShardId, const std::string& address, v1::IdentifyRequest, IdentifyDone done) {
  Target& target = shards_.at(address);
  world_.calls.Call<v1::IdentifyReply>(
      host_, *target.host, kShardTimeout,
      [&target](auto answer) {
        v1::IdentifyReply reply;
        reply.set_nonce(target.shard->options().nonce);
        answer(reply);
      },
      [this, done = std::move(done)](auto reply) {
        done(std::move(reply));
        Arm();
      });
}

void SimCoordinator::EmptyFolder(ShardId, const std::string& address, v1::EmptyFolderRequest request,
                                 EmptyFolderDone done) {
  Ask<v1::EmptyFolderReply>(address, &shard::Shard::EmptyFolder, std::move(request), std::move(done));
}

// The store holds every decision.
void SimCoordinator::OnCommitted(absl::Span<const coordinator::Write> writes) {
  namespace keys = coordinator::keys;
  // Ends before beginnings: a job's tables go in the commit that says so.
  for (const coordinator::Write& write : writes) {
    coordinator::ShardRecord shard;
    if (absl::StartsWith(write.key, keys::kShards)) {
      const bool drains = write.value.has_value() && shard.ParseFromString(*write.value) && shard.draining();
      draining_.erase(std::string(write.key));
      if (drains) draining_.emplace(write.key, shard.info().shard());
      drains_in_doubt_ |= store_->in_doubt;
    }
    if (!write.value.has_value()) continue;
    coordinator::SessionRecord session;
    coordinator::JobRecord job;
    coordinator::TableDropRecord drop;
    v1::Table table;
    if (write.key == keys::kMap) OnMap(coordinator::ReadMap(*store_)->value());
    if (absl::StartsWith(write.key, keys::kSessions) && session.ParseFromString(*write.value))
      OnCommitted(session);
    if (absl::StartsWith(write.key, keys::kJobs) && job.ParseFromString(*write.value)) OnCommitted(job);
    if (absl::StartsWith(write.key, keys::kTables) && table.ParseFromString(*write.value)) OnCommitted(table);
    if (absl::StartsWith(write.key, keys::kDrops) && drop.ParseFromString(*write.value)) {
      world_.truth.OnDropDecided(TableId(drop.table()));
      world_.marks.Hit("a table is dropped");
      world_.Trace(absl::StrCat("table ", drop.table(), " (", drop.name(), ") is to be dropped"));
    }
  }
  // A drop whose commit was reported as failed is taken back: its table is there again.
  std::set<uint32_t> put_back;
  for (const coordinator::Write& write : writes) {
    v1::Table table;
    const bool is_table = write.value.has_value() && absl::StartsWith(write.key, keys::kTables);
    if (is_table && table.ParseFromString(*write.value)) put_back.insert(table.id());
  }
  for (const coordinator::Write& write : writes) {
    if (!write.value.has_value()) OnDeleted(write.key, put_back);
  }
}

void SimCoordinator::OnCommitted(const coordinator::SessionRecord& record) {
  using coordinator::SessionRecord;
  const SessionId id(record.id());
  world_.Trace(absl::StrCat("session ", id.v, " (", record.client(), ") is ",
                            SessionRecord::State_Name(record.state()), " ", record.reason()));
  TrueSession* truth = world_.truth.Find(id);
  if (truth == nullptr) truth = &world_.truth.Add(id, JobId(record.job()), record.client());
  // After a commit that took effect and was reported as failed, the next session takes the same number.
  truth->job = JobId(record.job());
  truth->client = record.client();
  if (record.state() == SessionRecord::JOINING) truth->start = record.start_clock();
  truth->worker |= record.state() == SessionRecord::JOINING;
  truth->finished |= record.state() == SessionRecord::FINISHED;
  truth->closing |= record.state() == SessionRecord::CLOSING;
}

JobId SimCoordinator::JobNamed(const std::string& name) {
  JobId id;
  if (host_.Paused(world_.Now())) return id;
  Visit([&](coordinator::CoordinatorCore& core) {
    const v1::StatusReply status = core.Status();
    for (const v1::JobStatus& job : status.jobs()) {
      if (job.name() == name) id = JobId(job.job());
    }
  });
  return id;
}

void SimCoordinator::OnCommitted(const coordinator::JobRecord& job) {
  world_.truth.OnJob(JobId(job.id()), job.name());
  for (const uint32_t table : job.closing_tables()) world_.truth.OnDropDecided(TableId(table));
  const coordinator::JobRecord before = std::exchange(jobs_[job.id()], job);
  if (job.deleting() && !before.deleting() && !before.has_load()) {
    world_.Trace(absl::StrCat("job ", job.id(), " (", job.name(), ") is to be deleted"));
    if (absl::StrContains(job.name(), ":replaced-")) world_.marks.Hit("a job is replaced");
    world_.invariants.Meant(JobId(job.id()));
  }
  OnLoadEnded(before, job);
}

void SimCoordinator::OnLoadEnded(const coordinator::JobRecord& before, const coordinator::JobRecord& now) {
  if (!before.has_load() || now.has_load() || now.deleting()) return;
  std::map<TableId, TableId> tables;
  for (int i = 0; i < before.load().to_size(); ++i)
    tables[TableId(before.load().to(i))] = TableId(before.load().from(i));
  world_.Trace(
      absl::StrCat("job ", now.id(), " (", now.name(), ") is there, as of ", before.load().snapshot()));
  world_.invariants.OnLoaded(JobId(now.id()), before.load().id(), before.load().snapshot(), tables);
}

void SimCoordinator::OnCommitted(const v1::Table& table) {
  static const std::map<std::string, Purpose> kPurposes = {
      {"counts", Purpose::kCounts},   {"assigns", Purpose::kAssigns}, {"folded", Purpose::kFolded},
      {"scratch", Purpose::kScratch}, {"rates", Purpose::kRates},     {"means", Purpose::kMeans},
      {"wide", Purpose::kCounts}};
  const v1::Table before = std::exchange(tables_[table.id()], table);
  world_.truth.OnTable(TableId(table.id()), JobId(table.job()), kPurposes.at(table.name()),
                       table.schema().mean());
  if (table.rule_change() <= before.rule_change()) return;  // as it was, or taken back
  world_.marks.Hit(table.rule_clock() == 0 ? "rates change at once" : "rates change at a clock");
  world_.Trace(absl::StrCat("rates of table ", table.id(), " have changed: ", table.ShortDebugString()));
  const std::optional<Clock> clock =
      table.rule_clock() == 0 ? std::nullopt : std::optional<Clock>(table.rule_clock());
  if (table.bound() != before.bound()) world_.marks.Hit("a bound changes");
  world_.invariants.OnRatesDone(TableId(table.id()), table.rule_change(), clock, table.bound());
}

void SimCoordinator::OnDeleted(const std::string& key, const std::set<uint32_t>& put_back) {
  namespace keys = coordinator::keys;
  const auto number = [&key](absl::string_view prefix) {
    uint32_t value = 0;
    return absl::SimpleAtoi(absl::string_view(key).substr(prefix.size()), &value) ? value : 0;
  };
  // A record may be deleted that was never there.
  if (absl::StartsWith(key, keys::kDrops)) {
    const uint32_t table = number(keys::kDrops);
    if (put_back.contains(table)) {
      world_.truth.OnDropTakenBack(TableId(table));
    } else {
      world_.invariants.OnDropDone(TableId(table));
    }
  }
  if (!absl::StartsWith(key, keys::kJobs)) return;
  const auto job = jobs_.find(number(keys::kJobs));
  if (job == jobs_.end()) return;
  world_.marks.Hit("a job is deleted");
  world_.Trace(absl::StrCat("job ", job->first, " (", job->second.name(), ") is deleted"));
  for (const uint32_t table : job->second.closing_tables()) world_.invariants.OnDropDone(TableId(table));
  // After a commit that took effect and was reported as failed, the next job takes the same number.
  jobs_.erase(job);
}

// Owned: every key has one segment, every segment one configuration on distinct shards. (Which a SegmentMap
// guarantees; beyond it, nothing goes back.)
void SimCoordinator::OnMap(const v1::Map& map) {
  const auto valid = wire::MapFromProto(map);
  if (!valid.ok()) world_.verdict.Violated("Owned", valid.status().ToString());
  // A map that its author does not know of, and so has told nobody, may be taken back.
  if (before_doubt_.has_value() && map.version() == before_doubt_->version()) map_ = *before_doubt_;
  before_doubt_.reset();
  if (store_->in_doubt) before_doubt_ = map_;
  // Its author also writes the present one again, with the commit after one that has failed.
  if (!store_->in_doubt && map.version() != map_.version()) map_at_ = clock_.Now();
  if (map.version() < map_.version()) {
    world_.verdict.Violated("Owned", absl::StrCat("map ", map.version(), " follows map ", map_.version()));
  }
  for (int s = 0; s < std::min(map_.segments_size(), map.segments_size()); ++s) {
    const v1::SegmentConfig& before = map_.segments(s);
    const v1::SegmentConfig& now = map.segments(s);
    const bool same = before.SerializeAsString() == now.SerializeAsString();
    if (!same) world_.Trace(absl::StrCat("segment ", s, ": ", now.ShortDebugString()));
    if (!same) world_.invariants.OnConfig(SegmentId(static_cast<uint32_t>(s)), before, map);
    if (same ? now.epoch() == before.epoch() : now.epoch() > before.epoch()) continue;
    world_.verdict.Violated("Owned", absl::StrCat("segment ", s, ": another configuration in epoch ",
                                                  now.epoch(), ", before it was ", before.epoch()));
  }
  map_ = map;
  maps_[map.version()] = map;
  on_map();
}

void SimCoordinator::OnHandedOut(uint64_t session, uint64_t nonce) {
  world_.invariants.anybody_was_told = true;
  const auto [it, fresh] = handed_out_.emplace(session, nonce);
  if (fresh || it->second == nonce) return;
  world_.verdict.Violated("Once", absl::StrCat("session ", session, " was given to two clients"));
}

void SimCoordinator::OnSnapshotTold(const std::string& name) {
  share_->OnTold(name);
  world_.Trace(absl::StrCat("snapshot ", name, " is complete"));
  world_.invariants.Cut(name, share_->contents());
}

void SimCoordinator::CheckFloor() {
  using coordinator::SessionRecord;
  if (store_ == nullptr) return;
  coordinator::CountersRecord counters;
  counters.ParseFromString(store_->Get(coordinator::keys::kCounters).value()->value);
  std::map<uint64_t, SessionRecord::State> records;
  const auto entries = store_->List(coordinator::keys::kSessions);
  for (const auto& [key, entry] : *entries) {
    SessionRecord record;
    record.ParseFromString(entry.value);
    records[record.id()] = record.state();
  }
  // Numbers below it that have no record are closed, or were given to nobody: the next close moves on over
  // them.
  if (records.empty()) return;
  const auto [first, state] = *records.begin();
  if (first > counters.closed_floor() && state != SessionRecord::CLOSED) return;
  world_.verdict.Violated(
      "Progress", absl::StrCat("the floor stands at ", counters.closed_floor(), "; session ", first,
                               ", the first that has a record, is ", SessionRecord::State_Name(state)));
}

void SimCoordinator::SessionMoved(const coordinator::SessionRecord& session,
                                  coordinator::SessionRecord::State was) {
  using coordinator::SessionRecord;
  if (session.state() == SessionRecord::CLOSING && was != SessionRecord::CLOSING) {
    if (session.evicted() && !session.join_refused()) on_evicted(SessionId(session.id()));
    if (session.evicted())
      world_.marks.Hit(session.join_refused() ? "a join is refused" : "a session is evicted");
    if (was == SessionRecord::FINISHING) world_.marks.Hit("a session is closed while it finishes");
    if (was == SessionRecord::JOINING) world_.marks.Hit("a session is closed while it joins");
  }
}

void SimCoordinator::StoreBehind(const absl::Status& why) {
  world_.Trace(absl::StrCat("coordinator: ", why.message()));
  world_.marks.Hit("an older store is refused");
  if (newest_ == nullptr) world_.verdict.Violated("Stale", absl::StrCat("the newest store: ", why.message()));
}

void SimCoordinator::Paused(absl::Duration) {
  world_.marks.Hit("the coordinator finds that it was paused");
}

}  // namespace paceline::sim
