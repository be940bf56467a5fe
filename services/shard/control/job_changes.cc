// Changes tables and jobs for the coordinator, in every segment that the shard is primary of.
#include <set>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/log/table_codec.h"
#include "libs/snapshot/files.h"
#include "libs/wire/schema_codec.h"
#include "services/shard/control/catalogue.h"
#include "services/shard/shard.h"
#include "services/shard/snapshots/snapshot_tasks.h"
#include "services/shard/streams/hello.h"

namespace paceline::shard {
namespace {

// The rows of this snapshot must be there.
struct Loaded {
  JobId job;
  uint64_t id = 0;
};
using JobRecord = std::variant<log::DropTable, log::ChangeRule, log::CloseJob, log::CutWish, Loaded>;

absl::StatusOr<JobRecord> RateChange(const v1::JobChange& change) {
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<const log::TableInfo> table, log::TableFromProto(change.table()));
  ABSL_ASSIGN_OR_RETURN(const table::Rule rule, wire::RuleFromProto(change.rule()));
  ABSL_RETURN_IF_ERROR(table::CheckRuleChange(table->schema.rule, rule));
  return log::ChangeRule{.table = std::move(table),
                         .number = change.number(),
                         .rule = rule,
                         .clock = change.clock(),
                         .at_once = change.at_once()};
}

absl::StatusOr<JobRecord> RecordOf(const v1::JobChange& change) {
  switch (change.action()) {
    case v1::JobChange::DROP_TABLE:
      return log::DropTable{TableId(change.table().id())};
    case v1::JobChange::CHANGE_RULE:
      return RateChange(change);
    case v1::JobChange::CLOSE_JOB: {
      log::CloseJob close{.job = JobId(change.job()), .tables = {}};
      for (const uint32_t table : change.tables()) close.tables.emplace_back(table);
      return close;
    }
    case v1::JobChange::TAKE_CUT:
    case v1::JobChange::LOAD_JOB:
      if (change.cut() == 0) return absl::InvalidArgumentError("cut: 0; expected at least 1");
      ABSL_RETURN_IF_ERROR(snapshot::CheckFileName(change.snapshot()));
      if (change.action() == v1::JobChange::LOAD_JOB) {
        return Loaded{.job = JobId(change.job()), .id = change.cut()};
      }
      return log::CutWish{.id = change.cut(),
                          .job = JobId(change.job()),
                          .clock = change.clock(),
                          .at_once = change.at_once(),
                          .exact = change.exact()};
    default:
      return absl::InvalidArgumentError(absl::StrCat("action: ", static_cast<int>(change.action()),
                                                     " is unknown at feature level ", kFeatureLevel));
  }
}

struct Outcome {
  bool committed = false;
  std::string why;
  std::optional<Clock> passed;
  std::optional<v1::SnapshotFile> file;
  std::optional<v1::JobChangeReply::Failure> failure;
  bool to_load = false;
};

bool Log(log::Primary& primary, const JobRecord& record, Outcome& outcome) {
  if (const auto* rates = std::get_if<log::ChangeRule>(&record)) {
    return primary.Change(*rates, &outcome.why, &outcome.passed);
  }
  if (const auto* wish = std::get_if<log::CutWish>(&record)) {
    return primary.Change(*wish, &outcome.why, &outcome.passed);
  }
  if (const auto* loaded = std::get_if<Loaded>(&record)) {
    const bool done = primary.Loaded(loaded->job, loaded->id, &outcome.why);
    outcome.to_load = primary.segment().SnapshotsOf(loaded->job).loaded < loaded->id;
    return done;
  }
  if (const auto* drop = std::get_if<log::DropTable>(&record)) return primary.Change(*drop, &outcome.why);
  return primary.Change(std::get<log::CloseJob>(record), &outcome.why);
}

// Adds the file of a committed cut to the outcome.
void Answer(SnapshotTasks& snapshots, log::Primary& primary, const v1::JobChange& change, Outcome& outcome) {
  SnapshotTasks::Answer answer = snapshots.Write(primary, change);
  outcome.committed = answer.done;
  outcome.why = std::move(answer.why);
  outcome.file = std::move(answer.file);
  outcome.failure = std::move(answer.failure);
}

v1::JobChangeReply::Failure Failure(uint32_t segment, absl::string_view why) {
  v1::JobChangeReply::Failure failure;
  failure.set_segment(segment);
  failure.set_why(std::string(why));
  return failure;
}

// Begins to load the segments that lack their rows. If the load has failed it says why instead.
void GoOnLoading(SnapshotTasks& snapshots, const v1::JobChange& change, std::vector<Outcome>& outcomes) {
  std::set<uint32_t> segments;
  for (uint32_t s = 0; s < outcomes.size(); ++s) {
    if (outcomes[s].to_load) segments.insert(s);
  }
  if (segments.empty()) return;
  const absl::Status failed = snapshots.LoadFailure(change);
  if (failed.ok()) return snapshots.Load(change, std::move(segments));
  outcomes[*segments.begin()].failure = Failure(*segments.begin(), failed.message());
}

}  // namespace

void Shard::ChangeJob(const v1::JobChange& change,
                      std::function<void(absl::StatusOr<v1::JobChangeReply>)> done) {
  if (absl::Status meant = CheckMeant(change); !meant.ok()) return done(std::move(meant));
  absl::StatusOr<JobRecord> record = RecordOf(change);
  if (!record.ok()) return done(record.status());
  if (const std::string old = WhyTooOld(change.map_version()); !old.empty()) {
    v1::JobChangeReply reply;
    reply.set_map_version(view()->map->version().v);
    reply.add_waits(old);
    return done(std::move(reply));
  }
  const bool of_snapshot =
      change.action() == v1::JobChange::TAKE_CUT || change.action() == v1::JobChange::LOAD_JOB;
  if (of_snapshot && snapshots_ == nullptr) {
    v1::JobChangeReply reply;
    *reply.add_failures() =
        Failure(0, absl::StrCat(options().name,
                                " was started without --snapshot-dir; give all shards and coordinators "
                                "the same directory"));
    return done(std::move(reply));
  }
  auto outcomes = std::make_shared<std::vector<Outcome>>(view()->segments());
  context_.ForEachSegment(
      [this, record = *std::move(record), outcomes, change](SegmentHost& host) {
        // The first map may have come in between; the answer leaves its segments out.
        if (host.primary() == nullptr || host.id().v >= outcomes->size()) return;
        Outcome& outcome = (*outcomes)[host.id().v];
        outcome.why = host.IsBefore(MapVersion(change.map_version()));
        if (!outcome.why.empty()) return;
        host.primary()->SetNow(context_.clock().Now());
        outcome.committed = Log(*host.primary(), record, outcome);
        const bool cut = change.action() == v1::JobChange::TAKE_CUT;
        if (outcome.committed && cut) Answer(*snapshots_, *host.primary(), change, outcome);
        host.Flush();
      },
      [this, outcomes, change, done = std::move(done)] {
        if (change.action() == v1::JobChange::LOAD_JOB) GoOnLoading(*snapshots_, change, *outcomes);
        if (change.action() == v1::JobChange::CLOSE_JOB && snapshots_ != nullptr) {
          snapshots_->Forget(JobId(change.job()));
        }
        v1::JobChangeReply reply;
        reply.set_map_version(view()->map_version().v);
        for (uint32_t s = 0; s < outcomes->size(); ++s) {
          const Outcome& outcome = (*outcomes)[s];
          if (outcome.committed) reply.add_committed(s);
          if (outcome.passed.has_value()) {
            auto* passed = reply.add_passed();
            passed->set_segment(s);
            passed->set_clock(*outcome.passed);
          }
          if (outcome.file.has_value()) *reply.add_files() = *outcome.file;
          if (outcome.failure.has_value()) *reply.add_failures() = *outcome.failure;
          constexpr int kWaitsMax = 4;
          if (!outcome.why.empty() && reply.waits_size() < kWaitsMax) reply.add_waits(outcome.why);
        }
        done(std::move(reply));
      });
}

}  // namespace paceline::shard
