// The commands of a story.
#include "libs/log/testing.h"
#include "tests/stories/cluster.h"

namespace paceline::stories {
namespace {

uint64_t Number(const std::string& word) {
  uint64_t number = 0;
  EXPECT_TRUE(absl::SimpleAtoi(word, &number)) << word;
  return number;
}

class Acks final : public log::AckSink {
 public:
  explicit Acks(std::function<void(wire::Mark)> told) : told_(std::move(told)) {}
  void Committed(wire::Mark mark) override { told_(mark); }

 private:
  const std::function<void(wire::Mark)> told_;
};

struct Reading final : log::ReadSink {
  void Served(size_t, const wire::Certificate& c, const log::Wait&) override { served(c); }
  void Refused(size_t, v1::Refusal refusal) override { refused(refusal); }
  std::function<void(const wire::Certificate&)> served;
  std::function<void(const v1::Refusal&)> refused;
  uint64_t key = 0;
  float value = 0;
};

}  // namespace

std::string Cluster::Run(const std::string& line) {
  Words words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  const bool quietly = words[0] == "quietly";
  if (quietly) words.erase(words.begin());
  static const std::map<std::string, std::function<void(Cluster&, const Words&)>> kCommands = {
      {"cluster", &Cluster::Begin},
      {"open", &Cluster::Open},
      {"table", &Cluster::MakeTable},
      {"join", &Cluster::Join},
      {"push", &Cluster::Push},
      {"send-again", &Cluster::SendAgain},
      {"tick", &Cluster::Tick},
      {"read", &Cluster::Read},
      {"hold", [](Cluster& c, const Words& w) { c.held_.emplace(w[1], w[2]); }},
      {"let-go", [](Cluster& c, const Words&) { c.held_.clear(); }},
      {"cut",
       [](Cluster& c, const Words& w) {
         c.cut_off_.insert({{w[1], w[2]}, {w[2], w[1]}});
       }},
      {"mend", [](Cluster& c, const Words&) { c.cut_off_.clear(); }},
      {"kill", [](Cluster& c, const Words& w) { c.Find(w[1])->up = false; }},
      {"start", &Cluster::Start},
      {"pass", &Cluster::Pass},
      {"hand-over", &Cluster::AskHandOver},
      {"snapshot", &Cluster::TakeSnapshot},
      {"restore", &Cluster::Restore},
      {"state", &Cluster::ShowState}};
  const auto command = kCommands.find(words[0]);
  if (command == kCommands.end()) return absl::StrCat("there is no command '", words[0], "'\n");
  out_.clear();
  said_.clear();
  command->second(*this, words);
  Deliver();
  if (quietly) begun_ = clock.now;
  return quietly ? "" : out_;
}

// cluster SHARDS REPLICAS
void Cluster::Begin(const Words& words) {
  store_ = *coordinator::MemoryStore::Open(std::make_shared<coordinator::MemoryStore::Disk>());
  const coordinator::Options options{.replicas = static_cast<uint32_t>(Number(words[2])),
                                     .ring_bits = 0,
                                     .new_cluster = 7,
                                     .random = &random_,
                                     .snapshots = &files_};
  core_ = *coordinator::CoordinatorCore::Create(options, *store_, clock, *this, *this);
  for (uint64_t i = 0; i < Number(words[1]); ++i)
    Start({"start", std::string(1, static_cast<char>('a' + i))});
  Pass({"pass", "2000"});
}

// start SHARD
void Cluster::Start(const Words& words) {
  v1::JoinClusterRequest request;
  request.set_feature_level(kFeatureLevel);
  request.set_name(words[1]);
  request.set_address(words[1] + ":1");
  request.set_nonce(nodes_.size() + 1);
  auto reply = core_->JoinCluster(request);
  for (int tries = 0; !reply.ok() && tries < 10; ++tries) {
    Pass({"pass", "20"});
    reply = core_->JoinCluster(request);
  }
  const ring::Member member{ShardId(reply->shard()), Incarnation(reply->incarnation())};
  nodes_.push_back(std::make_unique<Node>(static_cast<World&>(*this), words[1], member));
}

// open CLIENT JOB
void Cluster::Open(const Words& words) {
  v1::OpenSessionRequest request;
  request.set_feature_level(kFeatureLevel);
  request.set_job(words[2]);
  request.set_client(words[1]);
  request.set_nonce(clients_.size() + 1);
  names.sessions[clients_.size() + 1] = words[1];
  Client& client = clients_[words[1]];
  core_->OpenSession(request, absl::InfiniteFuture(),
                     [this, &client, name = words[1], job = words[2]](auto reply) {
                       names.jobs[reply->job()] = job;
                       client.session = SessionId(reply->session());
                       client.job = JobId(reply->job());
                       client.secret = reply->secret();
                       Send(kCoordinator, name, "your session is open", [] {});
                     });
  Pass({"pass", "100"});
}

// table CLIENT NAME [aggregated]
void Cluster::MakeTable(const Words& words) {
  v1::OpenTableRequest request;
  request.set_session(clients_.at(words[1]).session.v);
  request.set_token(clients_.at(words[1]).secret);
  request.set_name(words[2]);
  request.set_create(words.size() > 3);
  request.mutable_schema()->set_kind(v1::TABLE_KIND_SPARSE);
  request.mutable_schema()->set_dim(1);
  request.mutable_schema()->set_aggregated(words.back() == "aggregated");
  request.mutable_schema()->mutable_rule()->mutable_add();
  const v1::OpenTableReply reply = core_->OpenTable(request).value();
  tables_[words[2]] = log::TableFromProto(reply.table()).value();
  names.tables.try_emplace(reply.table().id(), words[2]);
}

// join CLIENT …: they start together
void Cluster::Join(const Words& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    v1::JoinJobRequest request;
    request.set_session(clients_.at(words[i]).session.v);
    request.set_token(clients_.at(words[i]).secret);
    request.set_workers(static_cast<uint32_t>(words.size() - 1));
    core_->JoinJob(request, absl::InfiniteFuture(), [this, name = words[i]](auto reply) {
      clients_.at(name).clock = reply->start_clock();
      Send(kCoordinator, name, absl::StrCat("begin at clock ", reply->start_clock()), [] {});
    });
  }
  Pass({"pass", "100"});
}

void Cluster::SendPart(const std::string& client, const log::Part& part) {
  Node& to = Primary();
  std::shared_ptr<log::AckSink>& sink = sinks_[{client, &to}];
  if (sink == nullptr) {
    sink = std::make_shared<Acks>([this, client, &to](wire::Mark mark) {
      Send(to.name, client, absl::StrCat("committed up to part ", mark.number), [this, client, mark] {
        std::erase_if(clients_.at(client).parts, [&](const log::Part& waiting) {
          return waiting.update.line == mark.line && waiting.update.number <= mark.number;
        });
      });
    });
  }
  log::Part sent = part;
  sent.acks = sink;
  Send(client, to.name, Told(names, part.update), [this, client, &to, sent] {
    const size_t staged = to.primary() == nullptr ? 0 : to.primary()->staging().bytes();
    const auto refusal = to.host.Take(sent, to.host.epoch(), clock.now);
    if (to.primary() != nullptr && to.primary()->staging().bytes() > staged)
      to.Say("keeps the part until its clock is over");
    if (refusal.has_value()) {
      Send(to.name, client,
           absl::StrCat(v1::Refusal::Reason_Name(refusal->reason()), ": ", refusal->message()), [] {});
    }
  });
}

// push CLIENT TABLE KEY VALUE
void Cluster::Push(const Words& words) {
  Client& client = clients_.at(words[1]);
  const auto table = tables_.at(words[2]);
  const Line line = table->schema.aggregated ? Line::kAggregated : Line::kArrival;
  keys_.insert(Number(words[3]));
  log::Update update =
      log::MakeUpdate(client.session, ++client.numbers.At(line),
                      {{Number(words[3]), static_cast<float>(Number(words[4]))}}, client.clock);
  update.line = line;
  update.table = table->id;
  client.parts.push_back({.update = update, .job = client.job, .table = table, .acks = nullptr});
  SendPart(words[1], client.parts.back());
}

// send-again CLIENT
void Cluster::SendAgain(const Words& words) {
  for (const log::Part& part : clients_.at(words[1]).parts) SendPart(words[1], part);
}

// tick CLIENT
void Cluster::Tick(const Words& words) {
  Client& client = clients_.at(words[1]);
  if (words.back() != "again") ++client.clock;
  Node& to = Primary();
  const PartNumber arrival = client.numbers.At(Line::kArrival),
                   aggregated = client.numbers.At(Line::kAggregated);
  Send(words[1], to.name,
       absl::StrCat("I am at clock ", client.clock, "; before it are my parts up to ", arrival,
                    ", and up to ", aggregated, " of aggregated tables"),
       [&to, client] {
         if (to.primary() != nullptr) to.primary()->Tick(client.session, client.clock, client.numbers);
       });
}

// read CLIENT TABLE KEY [MIN_CLOCK]
void Cluster::Read(const Words& words) {
  const Client& client = clients_.at(words[1]);
  Node& to = Primary();
  auto sink = std::make_shared<Reading>();
  sink->key = Number(words[3]);
  const Clock min_clock = words.size() > 4 ? Number(words[4]) : 0;
  const std::string row = absl::StrCat(words[2], "[", words[3], "]");
  const auto with = [](Clock c) {
    return c == 0 ? "" : absl::StrCat(", with all updates of clocks below ", c);
  };
  sink->served = [this, with, &to, row, client = words[1], reading = sink.get()](const wire::Certificate& c) {
    Send(to.name, client,
         absl::StrCat(row, " = ", reading->value, ", as of record ", c.version.v, " in epoch ", c.epoch.v,
                      with(c.min_clock)),
         [] {});
  };
  sink->refused = [this, &to, client = words[1]](const v1::Refusal& refusal) {
    Send(to.name, client, refusal.message(), [] {});
  };
  log::Read read;
  read.session = client.session;
  read.job = client.job;
  read.table = tables_.at(words[2]);
  read.keys = absl::string_view(reinterpret_cast<const char*>(&sink->key), sizeof(sink->key));
  read.out = reinterpret_cast<std::byte*>(&sink->value);
  read.min_clock = min_clock;
  read.sink = sink;
  Send(words[1], to.name, absl::StrCat("read ", row, with(min_clock)), [this, &to, read] {
    const size_t parked = to.primary() == nullptr ? 0 : to.primary()->parked();
    to.host.Serve(read, to.host.epoch(), clock.now);
    if (to.primary() != nullptr && to.primary()->parked() > parked)
      to.Say("keeps the read until it may answer");
  });
}

// pass MILLISECONDS [beacons]
void Cluster::Pass(const Words& words) {
  tells_beacons = words.back() == "beacons";
  Deliver();
  for (const absl::Time end = clock.now + absl::Milliseconds(Number(words[1])); clock.now < end;) {
    clock.now += absl::Milliseconds(10);
    const bool beats = absl::ToUnixMillis(clock.now) % 1000 == 0;
    for (const auto& node : nodes_) {
      if (!node->up) continue;
      node->host.OnTime(clock.now);
      if (!beats || !Reaches(node->name, kCoordinator)) continue;
      v1::BeatRequest beat;
      beat.set_shard(node->self.shard.v);
      beat.set_incarnation(node->self.incarnation.v);
      beat.set_map_version(node->map.version());
      beat.set_catalogue_version(node->catalogue.version());
      (void)core_->Beat(beat);
    }
    for (const auto& [name, client] : clients_) {
      v1::KeepAliveRequest alive;
      alive.set_session(client.session.v);
      alive.set_token(client.secret);
      alive.set_clock(client.clock);
      if (beats) (void)core_->KeepAlive(alive);
    }
    if (core_->NextDeadline() <= clock.now) core_->OnTime();
    Deliver();
  }
  tells_beacons = false;
}

// hand-over SHARD
void Cluster::AskHandOver(const Words& words) {
  v1::HandOverShardRequest request;
  request.set_shard(words[1]);
  core_->HandOverShard(request, absl::InfiniteFuture(), [this](auto reply) {
    Send(kCoordinator, "operator", absl::StrCat("handed over: ", reply->handed_over(), " segment"), [] {});
  });
}

// snapshot JOB
void Cluster::TakeSnapshot(const Words& words) {
  v1::CreateSnapshotRequest request;
  request.set_job(words[1]);
  core_->CreateSnapshot(request, absl::InfiniteFuture(), [this](auto reply) {
    Send(kCoordinator, "operator",
         reply.ok() ? absl::StrCat("snapshot ", reply->snapshot().name(), " is complete, as of clock ",
                                   reply->snapshot().clock())
                    : reply.status().ToString(),
         [] {});
  });
}

// restore SNAPSHOT JOB
void Cluster::Restore(const Words& words) {
  v1::RestoreSnapshotRequest request;
  request.set_snapshot(words[1]);
  request.set_job(words[2]);
  core_->RestoreSnapshot(request, absl::InfiniteFuture(), [this, job = words[2]](auto reply) {
    if (reply.ok()) names.jobs[reply->job()] = job;
    Send(kCoordinator, "operator",
         reply.ok() ? absl::StrCat("job ", job, " is there; its workers begin at clock ", reply->clock())
                    : reply.status().ToString(),
         [] {});
  });
}

// state: what each member has
void Cluster::ShowState(const Words&) {
  static const char* const kRoles[] = {"elsewhere", "primary", "replica", "learner", "lost"};
  for (const auto& node : nodes_) {
    const log::Segment* segment = node->host.state();
    if (node.get() != Find(node->name)) continue;
    std::string told =
        absl::StrCat(node->name, ": ", node->up ? kRoles[static_cast<int>(node->host.role())] : "dead");
    if (node->up && segment != nullptr) {
      absl::StrAppend(&told, " in epoch ", node->host.epoch().v, ", ", segment->version().v, " records");
      if (const log::Primary* primary = node->primary()) {
        absl::StrAppend(&told, " of which ", primary->replicas().committed().v, " are committed",
                        primary->MayAnswer() ? "" : ", may not answer");
      }
      for (const auto& [id, job] : segment->jobs()) {
        if (job.min_clock() > 0)
          absl::StrAppend(&told, ", min clock of ", names.jobs.at(id.v), " ", job.min_clock());
      }
      for (const auto& [id, table] : segment->tables()) {
        for (const uint64_t key : keys_) {
          float value = 0;
          table->rows.Read(table::KeyView(&key, 1), reinterpret_cast<std::byte*>(&value));
          if (value != 0) absl::StrAppend(&told, ", ", names.Of(id), "[", key, "] = ", value);
        }
      }
    }
    absl::StrAppend(&out_, told, "\n");
  }
}

}  // namespace paceline::stories
