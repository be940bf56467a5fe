#include "tools/paceline/admin.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libs/world/real_clock.h"
#include "libs/world/system_random.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/json.h"
#include "tools/paceline/lists.h"
#include "tools/paceline/rates.h"
#include "tools/paceline/say.h"

namespace paceline::tool {
namespace {

constexpr absl::Duration kStatusTimeout = absl::Seconds(5);
// The coordinator asks the Kubernetes API meanwhile, for five seconds at most.
constexpr absl::Duration kStopTimeout = absl::Seconds(8);
constexpr absl::Duration kLookAgain = absl::Milliseconds(100);
constexpr absl::Duration kDrainLook = absl::Milliseconds(500);

absl::StatusOr<v1::StatusReply> Status(const AdminOptions& options) {
  return Coordinator(options.coordinator).Status(kStatusTimeout);
}

absl::Status NoSuchJob(const std::string& job) {
  return absl::NotFoundError(
      absl::StrCat("job '", job, "' does not exist; `paceline job list` shows those that do"));
}

// The table that the options name.
absl::StatusOr<v1::Table> NamedTable(const AdminOptions& options) {
  const absl::StatusOr<v1::StatusReply> status = Status(options);
  if (!status.ok()) return status.status();
  if (const v1::Table* table = FindTable(*status, options.job, options.table)) return *table;
  if (FindJob(*status, options.job) == nullptr) return NoSuchJob(options.job);
  return absl::NotFoundError(absl::StrCat("job '", options.job, "' has no table '", options.table,
                                          "'; `paceline table list ", options.job, "` shows those it has"));
}

int ListJobs(const AdminOptions& options) {
  const absl::StatusOr<v1::StatusReply> status = Status(options);
  if (!status.ok()) return Complain(status.status(), options.coordinator);
  return Print(options.json ? JsonList(status->jobs()) : JobsText(*status));
}

int DeleteJob(const AdminOptions& options) {
  const absl::StatusOr<v1::StatusReply> status = Status(options);
  if (!status.ok()) return Complain(status.status(), options.coordinator);
  v1::DeleteJobRequest request;
  request.set_job(options.job);
  request.set_nonce(world::SystemRandom().Next());
  for (const v1::JobStatus& job : status->jobs()) {
    // The last: a load, if there is one, not the job that it replaces.
    if (job.name() == options.job) request.set_job_id(job.job());
  }
  request.set_force(options.force);
  const auto deleted =
      Coordinator(options.coordinator)
          .Ask(&v1::Coordinator::Stub::DeleteJob, std::move(request), absl::Seconds(options.timeout_s));
  if (!deleted.ok()) {
    const bool open = absl::IsFailedPrecondition(deleted.status());
    const int code = Complain(deleted.status(), options.coordinator);
    if (open) std::fputs("  (--force closes its sessions)\n", stderr);
    return code;
  }
  if (options.json) return Print(Json(*deleted));
  return Print(absl::StrCat("job '", options.job, "' is deleted\n"));
}

int ListTables(const AdminOptions& options) {
  const absl::StatusOr<v1::StatusReply> status = Status(options);
  if (!status.ok()) return Complain(status.status(), options.coordinator);
  if (!options.job.empty() && FindJob(*status, options.job) == nullptr) {
    return Complain(NoSuchJob(options.job), options.coordinator);
  }
  if (!options.json) return Print(TablesText(*status, options.job));
  const v1::JobStatus* job = FindJob(*status, options.job);
  std::vector<v1::Table> tables;
  for (const v1::Table& table : status->tables()) {
    if (options.job.empty() || (job != nullptr && table.job() == job->job())) tables.push_back(table);
  }
  return Print(JsonList(tables));
}

int DropTable(const AdminOptions& options) {
  const absl::StatusOr<v1::Table> table = NamedTable(options);
  if (!table.ok()) return Complain(table.status(), options.coordinator);
  v1::DropTableRequest request;
  request.set_job(options.job);
  request.set_table(table->id());
  const auto dropped =
      Coordinator(options.coordinator)
          .Ask(&v1::Coordinator::Stub::DropTable, std::move(request), absl::Seconds(options.timeout_s));
  if (!dropped.ok()) return Complain(dropped.status(), options.coordinator);
  if (options.json) return Print(Json(*dropped));
  return Print(absl::StrCat("table '", options.table, "' (", table->id(), ") of job '", options.job,
                            "' is dropped\n"));
}

int SetRates(const AdminOptions& options) {
  const absl::StatusOr<v1::Table> table = NamedTable(options);
  if (!table.ok()) return Complain(table.status(), options.coordinator);
  absl::StatusOr<v1::Rule> rule = WithRates(table->schema().rule(), options.rates);
  if (!rule.ok()) return Complain(std::string(rule.status().message()));
  v1::ChangeRuleRequest request;
  request.set_job(options.job);
  request.set_table(table->id());
  *request.mutable_rule() = *std::move(rule);
  if (options.now) request.set_now(true);
  if (options.at_clock.has_value()) request.set_at_clock(*options.at_clock);
  const auto changed =
      Coordinator(options.coordinator)
          .Ask(&v1::Coordinator::Stub::ChangeRule, std::move(request), absl::Seconds(options.timeout_s));
  if (!changed.ok()) return Complain(changed.status(), options.coordinator);
  if (options.json) return Print(Json(changed->table()));
  const uint64_t clock = changed->table().rule_clock();
  return Print(absl::StrCat("table '", options.table, "' of job '", options.job,
                            "': ", RuleText(changed->table().schema().rule()),
                            clock == 0 ? " at once" : absl::StrCat(" from clock ", clock, " on"), "\n"));
}

// 0 only if no segment stays: callers then stop the shard.
int HandOver(const AdminOptions& options) {
  v1::HandOverShardRequest request;
  request.set_shard(options.shard);
  const auto done =
      Coordinator(options.coordinator)
          .Ask(&v1::Coordinator::Stub::HandOverShard, std::move(request), absl::Seconds(options.timeout_s));
  if (!done.ok()) return Complain(done.status(), options.coordinator);
  if (options.json) {
    (void)Print(Json(*done));
  } else {
    (void)Print(HandOverText(options.shard, *done));
  }
  return done->kept().empty() ? 0 : 1;
}

int ListShards(const AdminOptions& options) {
  const absl::StatusOr<v1::StatusReply> status = Status(options);
  if (!status.ok()) return Complain(status.status(), options.coordinator);
  return Print(options.json ? JsonList(status->shards()) : ShardsText(*status));
}

// With the number that follows the last one, so that a repetition of this request which arrives late does not
// undo a later one; again, if somebody else's came between.
absl::StatusOr<v1::DrainShardsReply> AskToDrain(const AdminOptions& options,
                                                const std::vector<std::string>& shards) {
  v1::DrainShardsRequest request;
  for (const std::string& shard : shards) request.add_shards(shard);
  request.set_cancel(options.cancel);
  request.set_nonce(world::SystemRandom().Next());
  for (const absl::Time end = world::MonotonicNow() + kStatusTimeout;; absl::SleepFor(kLookAgain)) {
    const absl::StatusOr<v1::StatusReply> status = Status(options);
    if (!status.ok()) return status.status();
    // A standby knows no number: then the one that leads takes it as it comes.
    request.set_number(status->standby() ? 0 : status->drains() + 1);
    absl::StatusOr<v1::DrainShardsReply> reply =
        Coordinator(options.coordinator).Ask(&v1::Coordinator::Stub::DrainShards, request, kStatusTimeout);
    if (!absl::IsAborted(reply.status()) || world::MonotonicNow() > end) return reply;
  }
}

// How far the shards are, from the status. One that was removed meanwhile has nothing and may go.
v1::DrainShardsReply DrainOf(const v1::StatusReply& status, const std::vector<std::string>& shards) {
  v1::DrainShardsReply reply;
  for (const std::string& name : shards) {
    v1::DrainShardsReply::Shard& one = *reply.add_shards();
    one.set_shard(name);
    const auto it =
        std::ranges::find_if(status.shards(), [&](const auto& shard) { return shard.info().name() == name; });
    if (it == status.shards().end()) {
      one.mutable_drain()->set_may_go(true);
    } else if (it->has_drain()) {
      *one.mutable_drain() = it->drain();
    }
  }
  return reply;
}

// Until all may go, or one does not drain any more, or `end`.
int AwaitDrain(const AdminOptions& options, absl::Time end) {
  std::string said;
  uint64_t map_version = 0;  // an older one is of a coordinator that may not know these shards
  while (true) {
    const absl::StatusOr<v1::StatusReply> status = Status(options);
    if (status.ok() && !status->standby() && status->map_version() >= map_version) {
      map_version = status->map_version();
      const v1::DrainShardsReply now = DrainOf(*status, options.shards);
      std::string text = DrainText(now, status->moves());
      if (text != said && !options.json) {
        (void)Print(text);
        std::fflush(stdout);
        said = std::move(text);
      }
      const auto may_go = [](const auto& shard) { return shard.drain().may_go(); };
      if (std::ranges::all_of(now.shards(), may_go)) return options.json ? Print(Json(now)) : 0;
      const auto ended =
          std::ranges::find_if(now.shards(), [](const auto& shard) { return !shard.has_drain(); });
      if (ended != now.shards().end())
        return Complain(absl::StrCat("the drain of ", ended->shard(), " was cancelled"));
    }
    if (world::MonotonicNow() > end) {
      return status.ok() ? Complain("they still drain, and go on to; ask again with the same command")
                         : Complain(status.status(), options.coordinator);
    }
    absl::SleepFor(kDrainLook);
  }
}

// 0 if the shards drain, as they are not wanted any more; kStays if they stay; kNoAnswer if no coordinator
// answers, or the one that leads knows too little yet: callers ask again.
int AskWhetherUnwanted(const AdminOptions& options) {
  constexpr int kStays = 3;
  constexpr int kNoAnswer = 4;
  const absl::Duration timeout = std::min(kStopTimeout, absl::Seconds(options.timeout_s));
  for (const std::string& shard : options.shards) {
    v1::StopShardRequest request;
    request.set_shard(shard);
    const auto reply =
        Coordinator(options.coordinator).Ask(&v1::Coordinator::Stub::StopShard, std::move(request), timeout);
    if (!reply.ok()) {
      const int code = Complain(reply.status(), options.coordinator);
      return absl::IsUnavailable(reply.status()) || absl::IsDeadlineExceeded(reply.status()) ? kNoAnswer
                                                                                             : code;
    }
    (void)Print(absl::StrCat(reply->why(), "\n"));
    if (!reply->drains()) return kStays;
  }
  return 0;
}

int Drain(const AdminOptions& options) {
  const absl::Time end = world::MonotonicNow() + absl::Seconds(options.timeout_s);
  if (options.if_unwanted) {
    const int stays = AskWhetherUnwanted(options);
    return stays != 0 || !options.wait ? stays : AwaitDrain(options, end);
  }
  const auto reply = AskToDrain(options, options.shards);
  if (!reply.ok()) return Complain(reply.status(), options.coordinator);
  if (options.wait && !options.cancel) return AwaitDrain(options, end);
  return Print(options.json ? Json(*reply) : DrainText(*reply, {}));
}

// A running shard drains first, and is asked again until it has marked its folder.
int RemoveShard(const AdminOptions& options) {
  Coordinator coordinator(options.coordinator);
  const absl::Time end = world::MonotonicNow() + absl::Seconds(options.timeout_s);
  v1::RemoveShardRequest request;
  request.set_shard(options.shard);
  bool drains = false;
  while (true) {
    const auto removed = coordinator.Ask(&v1::Coordinator::Stub::RemoveShard, request, kStatusTimeout);
    if (removed.ok() && options.json) return Print(Json(*removed));
    if (removed.ok()) {
      return Print(absl::StrCat("shard '", options.shard, "' is removed",
                                removed->emptied()
                                    ? "; its folder is marked as emptied\n"
                                    : "; it was not running: the cluster refuses its folder from now on\n"));
    }
    // A drained shard that has ended is forgotten without being asked for.
    if (drains && absl::IsNotFound(removed.status())) {
      if (options.json) return Print(Json(v1::RemoveShardReply()));
      return Print(absl::StrCat("shard '", options.shard, "' has drained, and is removed\n"));
    }
    const bool member = absl::IsFailedPrecondition(removed.status());
    if (world::MonotonicNow() > end || (!absl::IsAborted(removed.status()) && !member)) {
      return Complain(removed.status(), options.coordinator);
    }
    if (member && !drains) {
      const auto drained = AskToDrain(options, {options.shard});
      if (!drained.ok()) return Complain(drained.status(), options.coordinator);
      drains = true;
    }
    absl::SleepFor(kLookAgain);
  }
}

// The segments that wait only for shards that are given up, and whose loss is not accepted yet.
v1::RecoverSegmentsRequest Acceptance(const AdminOptions& options, const v1::RecoverSegmentsReply& found) {
  v1::RecoverSegmentsRequest request;
  for (const auto& segment : found.waiting()) {
    const bool named = std::ranges::all_of(segment.awaited(), [&](const std::string& shard) {
      return std::ranges::count(options.given_up, shard) > 0;
    });
    if (!named || segment.accepted()) continue;
    auto& loss = *request.add_accept_loss();
    loss.set_segment(segment.segment());
    loss.set_epoch(segment.epoch());
    *loss.mutable_given_up() = segment.awaited_incarnations();
  }
  return request;
}

// The segments that give up no other starts than these, which the operator has seen and named.
v1::RecoverSegmentsRequest Only(const std::set<uint64_t>& starts, const v1::RecoverSegmentsRequest& request) {
  v1::RecoverSegmentsRequest only;
  for (const auto& loss : request.accept_loss()) {
    const bool known =
        std::ranges::all_of(loss.given_up(), [&](uint64_t start) { return starts.contains(start); });
    if (known) *only.add_accept_loss() = loss;
  }
  return only;
}

// Until none of the segments waits any more in the epoch in which its loss was accepted. Another coordinator
// that leads meanwhile is told as well.
int AwaitRecovery(const AdminOptions& options, const v1::RecoverSegmentsRequest& accepted) {
  Coordinator coordinator(options.coordinator);
  const absl::Time end = world::MonotonicNow() + absl::Seconds(options.timeout_s);
  v1::RecoverSegmentsRequest request = accepted;
  std::set<uint64_t> starts;
  for (const auto& loss : accepted.accept_loss())
    starts.insert(loss.given_up().begin(), loss.given_up().end());
  while (true) {
    const auto now = coordinator.Ask(&v1::Coordinator::Stub::RecoverSegments, request, kStatusTimeout);
    if (now.ok()) {
      request = Only(starts, Acceptance(options, *now));
      std::set<std::pair<uint32_t, uint64_t>> waiting;
      for (const auto& segment : now->waiting()) waiting.emplace(segment.segment(), segment.epoch());
      const bool waits = std::ranges::any_of(accepted.accept_loss(), [&](const auto& segment) {
        return waiting.contains({segment.segment(), segment.epoch()});
      });
      if (!waits && options.json) return Print(Json(*now));
      if (!waits) return Print(absl::StrCat(accepted.accept_loss_size(), " segments go on\n"));
    }
    if (world::MonotonicNow() > end) {
      return now.ok() ? Complain(absl::StrCat("the segments still wait:\n", LossText(*now)))
                      : Complain(now.status(), options.coordinator);
    }
    absl::SleepFor(kLookAgain);
  }
}

// Without --accept-loss it only tells, and 0 means that nothing waits.
int Recover(const AdminOptions& options) {
  const auto found =
      Coordinator(options.coordinator).Ask(&v1::Coordinator::Stub::RecoverSegments, {}, kStatusTimeout);
  if (!found.ok()) return Complain(found.status(), options.coordinator);
  if (options.json && (!options.accept_loss || found->waiting().empty())) {
    const int printed = Print(Json(*found));
    return found->waiting().empty() ? printed : 1;
  }
  if (found->waiting().empty()) return Print("no segment waits for a shard that has ended\n");
  if (!options.json) (void)Print(LossText(*found));
  if (!options.accept_loss) {
    return Complain(
        "nothing was done: restart the awaited shards with their folders; or, if they have ended for good, "
        "name them: --accept-loss SHARD…");
  }
  const v1::RecoverSegmentsRequest request = Acceptance(options, *found);
  if (request.accept_loss().empty()) {
    return Complain("nothing was done: every segment waits for a shard that was not named");
  }
  return AwaitRecovery(options, request);
}

void AddTimeout(CLI::App& command, AdminOptions& options) {
  command.add_option("--timeout", options.timeout_s, "How long to wait until all shards have done it")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
}

}  // namespace

void AddAdmin(CLI::App& app, AdminOptions& options) {
  CLI::App* job = app.add_subcommand("job", "List jobs, or delete one");
  CLI::App* table = app.add_subcommand("table", "List tables, drop one, or change its rates");
  job->require_subcommand(1);
  table->require_subcommand(1);

  CLI::App* job_list = job->add_subcommand("list", "Show all jobs: their sessions, tables, memory");
  job_list->add_flag("--json", options.json, "As JSON: a list of JobStatus of coordinator.proto");
  CLI::App* job_delete = job->add_subcommand("delete", "Delete a job with its tables, rows and clocks");
  job_delete->add_option("JOB", options.job, "Its name")->required();
  job_delete->add_flag("--force", options.force, "Close its open sessions first");
  job_delete->add_flag("--json", options.json, "As JSON: DeleteJobReply of coordinator.proto");
  AddTimeout(*job_delete, options);

  CLI::App* table_list = table->add_subcommand("list", "Show the tables of all jobs, or of one");
  table_list->add_option("JOB", options.job, "Its name");
  table_list->add_flag("--json", options.json, "As JSON: a list of Table of types.proto");
  CLI::App* drop = table->add_subcommand("drop", "Delete a table and free its rows on all shards");
  CLI::App* set = table->add_subcommand("set", "Change rates of a table's update rule while workers train");
  for (CLI::App* one : {drop, set}) {
    one->add_option("JOB", options.job, "The job's name")->required();
    one->add_option("TABLE", options.table, "The table's name")->required();
    AddTimeout(*one, options);
  }
  drop->add_flag("--json", options.json, "As JSON: DropTableReply of coordinator.proto");
  set->add_option("RATES", options.rates,
                  "NAME=VALUE: any parameter that the rule has, but adagrad's initial_accumulator")
      ->required();
  CLI::Option* now =
      set->add_flag("--now", options.now, "Change them at once, not at a clock that all segments agree on");
  set->add_option("--at-clock", options.at_clock, "At this clock, or the next on which all can agree")
      ->excludes(now);
  set->add_flag("--json", options.json, "As JSON: the Table of types.proto");
  CLI::App* hand_over = app.add_subcommand(
      "handover", "Hand over a shard's primaries to replicas, so that it can stop without a pause");
  hand_over->add_option("SHARD", options.shard, "Its name")->required();
  hand_over->add_flag("--json", options.json, "As JSON: HandOverShardReply of coordinator.proto");
  AddTimeout(*hand_over, options);
  hand_over->footer("Exits with 1, and says why, if a segment stays with the shard.");
  CLI::App* drain = app.add_subcommand(
      "drain", "Move everything that shards hold to others, so that they can be taken away for good");
  drain->add_option("SHARD", options.shards, "Their names; all of them, or none, begin")->required();
  CLI::Option* cancel = drain->add_flag("--cancel", options.cancel,
                                        "End it: they get segments again; what has moved stays where it is");
  drain->add_flag("--wait", options.wait, "Show the progress, until all may go")->excludes(cancel);
  drain
      ->add_flag(
          "--if-unwanted", options.if_unwanted,
          "Only if their StatefulSet (--statefulset of the coordinator) has no place for them any more, "
          "and then together with all others of which that is true; for the hook before a pod stops")
      ->excludes(cancel);
  drain->add_flag("--json", options.json,
                  "As JSON: DrainShardsReply of moves.proto; with --wait once, when all may go");
  drain
      ->add_option("--timeout", options.timeout_s,
                   "With --wait, how long; the drain itself goes on, also if this command ends")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  drain->footer(
      "Exits with 1 if the shards that remain could not hold all copies or rows, and with --wait if not all "
      "may go in time; with --if-unwanted with 3, and says why, if one is to stay or that is not known, and "
      "with 4 if no "
      "coordinator answers: ask again.");
  CLI::App* shard = app.add_subcommand("shard", "Show the shards of a cluster, or remove one");
  shard->require_subcommand(1);
  CLI::App* shard_list = shard->add_subcommand("list", "Show all shards of the cluster");
  shard_list->add_flag("--json", options.json, "As JSON: a list of ShardStatus of coordinator.proto");
  CLI::App* shard_remove = shard->add_subcommand(
      "remove",
      "Remove a shard for good. A running shard drains first, marks its folder as emptied and "
      "ends. If the shard has ended already, the cluster refuses its folder from then on");
  shard_remove->add_option("SHARD", options.shard, "Its name")->required();
  shard_remove->add_flag("--json", options.json, "As JSON: RemoveShardReply of moves.proto");
  AddTimeout(*shard_remove, options);
  CLI::App* recover = app.add_subcommand(
      "recover", "Show segments that wait for shards that have ended, or give up what only these had");
  recover->add_flag("--accept-loss", options.accept_loss,
                    "Continue without these shards where segments wait for no others. They must have ended "
                    "for good: a shard that is only out of reach would go on serving its rows");
  recover->add_option("SHARD", options.given_up, "Names of the shards that do not come back");
  recover->add_flag("--json", options.json,
                    "As JSON: RecoverSegmentsReply of coordinator.proto; with --accept-loss that of the end");
  AddTimeout(*recover, options);
  recover->footer("Changes nothing without --accept-loss; then it exits with 1 if a segment waits.");
  for (CLI::App* one :
       {job_list, job_delete, table_list, drop, set, hand_over, drain, shard_list, shard_remove, recover}) {
    AddCoordinatorOption(*one, options.coordinator);
  }
}

Command ParsedAdmin(const CLI::App& app) {
  const CLI::App* job = app.get_subcommand("job");
  const CLI::App* table = app.get_subcommand("table");
  if (job->parsed()) return job->get_subcommand("list")->parsed() ? ListJobs : DeleteJob;
  if (app.get_subcommand("handover")->parsed()) return HandOver;
  if (app.get_subcommand("drain")->parsed()) return Drain;
  if (app.get_subcommand("recover")->parsed()) return Recover;
  const CLI::App* shard = app.get_subcommand("shard");
  if (shard->parsed()) return shard->get_subcommand("list")->parsed() ? ListShards : RemoveShard;
  if (!table->parsed()) return nullptr;
  if (table->get_subcommand("list")->parsed()) return ListTables;
  return table->get_subcommand("drop")->parsed() ? DropTable : SetRates;
}

}  // namespace paceline::tool
