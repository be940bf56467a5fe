#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/wire/compact_map.h"
#include "sdk/cpp/src/session/coordinator_api.h"
#include "sdk/cpp/src/testing/fake_cluster.h"

namespace paceline::sdk::testing {

// A coordinator of a FakeCluster. Answers lie ready until RunAll hands them out.
class FakeCoordinator final : public CoordinatorApi {
 public:
  explicit FakeCoordinator(FakeCluster& cluster) : cluster_(cluster) {}

  // Hands out the answers that are ready. True: there were some.
  bool RunAll() {
    bool some = false;
    for (auto it = finishing_.begin(); it != finishing_.end();) {
      if (!cluster_.Finish(it->request.session(), it->request.clock() + 1, it->request.seals())) {
        ++it;
        continue;
      }
      Answer(std::move(it->done), v1::FinishWorkerReply());
      it = finishing_.erase(it);
    }
    for (; !ready_.empty(); some = true) {
      auto next = std::move(ready_.front());
      ready_.pop_front();
      next();
    }
    return some;
  }

  // Tells all watchers the map as it is now.
  void PublishMap() {
    for (const auto& watch : watches_) {
      ready_.push_back([watch, map = cluster_.Map()] {
        if (watch->live) watch->on_map(map);
      });
    }
  }
  void BreakWatches() {
    for (const auto& watch : watches_)
      ready_.push_back([watch] { watch->on_end(absl::UnavailableError("gone")); });
    watches_.clear();
  }

  // While set, every call is answered with it.
  absl::Status failure;
  Clock start_clock = 0;
  uint32_t keep_alive_ms = 1000;
  // What it tells with keep-alives: the version of the catalogue, and the tables that have changed.
  uint64_t changes_version = 0;
  std::vector<v1::Table> changed;
  // While set, keep-alives wait for AnswerKeepAlives.
  bool hold_keep_alives = false;
  // While set, joins wait for EndJoins.
  bool hold_joins = false;
  std::string secret = "00112233445566778899aabbccddeeff";  // of the session

  // The requests that came.
  std::vector<v1::KeepAliveRequest> keep_alives;
  std::vector<v1::OpenTableRequest> tables_opened;
  std::vector<v1::FinishWorkerRequest> finishes;
  std::vector<v1::CloseSessionRequest> closes;
  std::vector<v1::DropTableRequest> drops;
  std::vector<v1::ChangeRuleRequest> rule_changes;
  int opens = 0;
  int joins = 0;
  bool compact_maps = true;   // as a cluster of level 2 sends them
  bool broken_maps = false;   // … and a byte too many
  bool knows_filters = true;  // it notes that updates are held back
  size_t watches() const { return watches_.size(); }
  uint64_t session = 0;

  void OpenSession(const v1::OpenSessionRequest& request, absl::Duration,
                   Callback<v1::OpenSessionReply> done) override {
    ++opens;
    v1::OpenSessionReply reply;
    session = 7;
    cluster_.OpenSession(session);
    reply.set_job(1);
    reply.set_session(session);
    *reply.mutable_map() = cluster_.Map();
    if (compact_maps && request.takes_compact_map()) {
      reply.set_compact_map(wire::Compact(reply.map()).SerializeAsString());
      if (broken_maps) reply.mutable_compact_map()->push_back('\x0f');
      reply.clear_map();
    }
    reply.mutable_catalogue()->set_version(1);
    reply.set_keep_alive_ms(keep_alive_ms);
    reply.set_secret(secret);
    Answer(std::move(done), reply);
  }
  void JoinJob(const v1::JoinJobRequest& request, absl::Duration, Callback<v1::JoinJobReply> done) override {
    CheckToken(request.token());
    joins += 1;
    if (hold_joins) return held_joins_.push_back(std::move(done));
    v1::JoinJobReply reply;
    reply.set_start_clock(start_clock);
    if (request.rank_plus_one() > 0) reply.set_rank(request.rank_plus_one() - 1);
    cluster_.Join(session, start_clock);
    Answer(std::move(done), reply);
  }
  void EndJoins(const absl::Status& status) {
    for (Callback<v1::JoinJobReply>& held : held_joins_) Answer(std::move(held), status);
    held_joins_.clear();
  }
  void KeepAlive(const v1::KeepAliveRequest& request, absl::Duration,
                 Callback<v1::KeepAliveReply> done) override {
    CheckToken(request.token());
    keep_alives.push_back(request);
    v1::KeepAliveReply reply;
    reply.set_map_version(cluster_.Map().version());
    reply.set_catalogue_version(changes_version);
    if (request.told_version() < changes_version) {
      for (const v1::Table& table : changed) *reply.add_changed() = table;
    }
    if (!hold_keep_alives) return Answer(std::move(done), reply);
    held_keep_alives_.push_back({.reply = reply, .done = std::move(done)});
  }
  // With what was to be told when each came.
  void AnswerKeepAlives() {
    hold_keep_alives = false;
    for (HeldKeepAlive& held : held_keep_alives_) Answer(std::move(held.done), std::move(held.reply));
    held_keep_alives_.clear();
  }
  void FinishWorker(const v1::FinishWorkerRequest& request, absl::Duration,
                    Callback<v1::FinishWorkerReply> done) override {
    CheckToken(request.token());
    finishes.push_back(request);
    if (!failure.ok()) return Answer(std::move(done), absl::StatusOr<v1::FinishWorkerReply>(failure));
    finishing_.push_back({.request = request, .done = std::move(done)});
  }
  void CloseSession(const v1::CloseSessionRequest& request, absl::Duration,
                    Callback<v1::CloseSessionReply> done) override {
    CheckToken(request.token());
    closes.push_back(request);
    cluster_.CloseSession(request.session());
    Answer(std::move(done), v1::CloseSessionReply());
  }
  void OpenTable(const v1::OpenTableRequest& request, absl::Duration,
                 Callback<v1::OpenTableReply> done) override {
    CheckToken(request.token());
    tables_opened.push_back(request);
    v1::OpenTableReply reply;
    auto known = tables_.find(request.name());
    if (known == tables_.end()) {
      if (!request.create()) return Answer(std::move(done), absl::NotFoundError("no such table"));
      v1::Table table;
      table.set_id(static_cast<uint32_t>(tables_.size()) + 1);
      table.set_job(1);
      table.set_name(request.name());
      *table.mutable_schema() = request.schema();
      cluster_.AddTable(table.id(), request.schema().dim());
      known = tables_.emplace(request.name(), table).first;
    }
    if (request.holds_back() && knows_filters) known->second.set_holds_back(true);
    *reply.mutable_table() = known->second;
    reply.set_catalogue_version(tables_.size() + 1);
    Answer(std::move(done), reply);
  }

  void DropTable(const v1::DropTableRequest& request, absl::Duration,
                 Callback<v1::DropTableReply> done) override {
    CheckToken(request.token());
    drops.push_back(request);
    v1::DropTableReply reply;
    reply.set_catalogue_version(++last_catalogue_);
    Answer(std::move(done), reply);
  }
  void ChangeRule(const v1::ChangeRuleRequest& request, absl::Duration,
                  Callback<v1::ChangeRuleReply> done) override {
    CheckToken(request.token());
    rule_changes.push_back(request);
    v1::ChangeRuleReply reply;
    reply.mutable_table()->set_id(request.table());
    reply.mutable_table()->set_rule_clock(request.at_clock() + 1);
    reply.set_catalogue_version(++last_catalogue_);
    Answer(std::move(done), reply);
  }

  // Work queues: a test says what is answered.
  std::vector<v1::ReportWorkRequest> work_reports;
  std::function<absl::StatusOr<v1::ReportWorkReply>(const v1::ReportWorkRequest&)> on_work;
  void OpenWork(const v1::OpenWorkRequest& request, absl::Duration,
                Callback<v1::OpenWorkReply> done) override {
    CheckToken(request.token());
    v1::OpenWorkReply reply;
    reply.set_queue(1);
    Answer(std::move(done), reply);
  }
  void ReportWork(const v1::ReportWorkRequest& request, absl::Duration,
                  Callback<v1::ReportWorkReply> done) override {
    CheckToken(request.token());
    work_reports.push_back(request);
    Answer(std::move(done), on_work(request));
  }

  std::unique_ptr<Watch> WatchMap(uint64_t known, absl::AnyInvocable<void(v1::Map)> on_map,
                                  absl::AnyInvocable<void(absl::Status)> on_end) override {
    auto watch = std::make_shared<Watching>();
    watch->on_map = std::move(on_map);
    watch->on_end = std::move(on_end);
    if (!failure.ok()) {
      ready_.push_back([watch, why = failure] { watch->on_end(why); });
      return std::make_unique<Handle>(watch);
    }
    watches_.push_back(watch);
    if (cluster_.Map().version() > known) {
      ready_.push_back([watch, map = cluster_.Map()] {
        if (watch->live) watch->on_map(map);
      });
    }
    return std::make_unique<Handle>(watch);
  }

 private:
  struct Watching {
    bool live = true;
    absl::AnyInvocable<void(v1::Map)> on_map;
    absl::AnyInvocable<void(absl::Status)> on_end;
  };
  struct Handle final : Watch {
    explicit Handle(std::shared_ptr<Watching> w) : watching(std::move(w)) {}
    ~Handle() override { watching->live = false; }
    std::shared_ptr<Watching> watching;
  };

  void CheckToken(const std::string& token) {
    if (token != secret) cluster_.violations.emplace_back("a call does not show the session's secret");
  }
  template <class Reply>
  void Answer(Callback<Reply> done, absl::StatusOr<Reply> reply) {
    if (!failure.ok()) reply = failure;
    auto shared = std::make_shared<Callback<Reply>>(std::move(done));
    ready_.push_back([shared, reply = std::move(reply)] { (*shared)(reply); });
  }
  template <class Reply>
  void Answer(Callback<Reply> done, Reply reply) {
    Answer(std::move(done), absl::StatusOr<Reply>(std::move(reply)));
  }
  template <class Reply>
  void Answer(Callback<Reply> done, absl::Status status) {
    Answer(std::move(done), absl::StatusOr<Reply>(std::move(status)));
  }

  std::vector<Callback<v1::JoinJobReply>> held_joins_;
  struct Finishing {
    v1::FinishWorkerRequest request;
    Callback<v1::FinishWorkerReply> done;
  };

  struct HeldKeepAlive {
    v1::KeepAliveReply reply;
    Callback<v1::KeepAliveReply> done;
  };

  FakeCluster& cluster_;
  std::vector<HeldKeepAlive> held_keep_alives_;
  std::list<Finishing> finishing_;  // not in the logs yet
  std::deque<std::function<void()>> ready_;
  std::vector<std::shared_ptr<Watching>> watches_;
  std::map<std::string, v1::Table> tables_;
  uint64_t last_catalogue_ = 100;
};

}  // namespace paceline::sdk::testing
