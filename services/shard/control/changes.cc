// Makes the changes of the coordinator in every segment that the shard is primary of.
#include <algorithm>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/planted.h"
#include "libs/base/status.h"
#include "libs/log/table_codec.h"
#include "libs/secret/secret.h"
#include "libs/snapshot/files.h"
#include "libs/wire/packed.h"
#include "libs/wire/schema_codec.h"
#include "services/shard/shard.h"
#include "services/shard/snapshots/snapshot_tasks.h"

namespace paceline::shard {
namespace {

// A session is opened, joins, finishes or is evicted.
struct OfSession {
  std::vector<clock::LineCounts> seals;  // of its last tick, by segment
};
// The rows of this snapshot must be there.
struct Loaded {
  JobId job;
  uint64_t id = 0;
};
using ChangeAction =
    std::variant<OfSession, log::DropTable, log::ChangeRule, log::CloseJob, log::CutWish, Loaded>;

// A change, taken apart once for all segments.
struct Parsed {
  v1::Change change;
  log::BeginChange begin;
  ChangeAction action;
};

absl::StatusOr<ChangeAction> SessionAction(const v1::Change& change, size_t segments) {
  const std::string& digest = change.open().secret_sha256();
  if (!digest.empty() && digest.size() != secret::kDigestBytes) {
    return absl::InvalidArgumentError(absl::StrCat("secret_sha256: ", digest.size(), " bytes; expected ",
                                                   secret::kDigestBytes, ", or none"));
  }
  ABSL_ASSIGN_OR_RETURN(const std::vector<wire::Seal> seals, wire::ParseSeals(change.finish().seals()));
  OfSession session{.seals = std::vector<clock::LineCounts>(segments)};
  for (const wire::Seal& seal : seals) {
    const uint64_t end = std::min<uint64_t>(uint64_t{seal.segment.v} + seal.run, segments);
    for (uint64_t s = seal.segment.v; s < end; ++s) session.seals[s].At(seal.line) = seal.number;
  }
  return session;
}

absl::StatusOr<ChangeAction> RateChange(const v1::Change::ChangeRule& change) {
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<const log::TableInfo> table, log::TableFromProto(change.table()));
  ABSL_ASSIGN_OR_RETURN(const table::Rule rule, wire::RuleFromProto(change.rule()));
  ABSL_RETURN_IF_ERROR(table::CheckRuleChange(table->schema.rule, rule));
  return log::ChangeRule{.table = std::move(table),
                         .number = change.number(),
                         .rule = rule,
                         .clock = change.clock(),
                         .at_once = change.at_once(),
                         .bound = change.bound()};
}

absl::Status CheckSnapshot(uint64_t id, const std::string& folder) {
  if (id == 0) return absl::InvalidArgumentError("id: 0; expected at least 1");
  return snapshot::CheckFileName(folder);
}

absl::StatusOr<ChangeAction> ActionOf(const v1::Change& change, size_t segments) {
  const JobId job(change.job());
  switch (change.action_case()) {
    case v1::Change::kOpen:
    case v1::Change::kJoin:
    case v1::Change::kFinish:
    case v1::Change::kEvict:
      return SessionAction(change, segments);
    case v1::Change::kDrop:
      return log::DropTable{TableId(static_cast<uint32_t>(change.subject().id()))};
    case v1::Change::kRule:
      return RateChange(change.rule());
    case v1::Change::kClose: {
      log::CloseJob close{.job = job, .tables = {}};
      for (const uint32_t table : change.close().tables()) close.tables.emplace_back(table);
      return close;
    }
    case v1::Change::kCut:
      ABSL_RETURN_IF_ERROR(CheckSnapshot(change.cut().id(), change.cut().snapshot()));
      return log::CutWish{.id = change.cut().id(),
                          .job = job,
                          .clock = change.cut().clock(),
                          .at_once = change.cut().at_once(),
                          .exact = change.cut().exact()};
    case v1::Change::kLoad:
      ABSL_RETURN_IF_ERROR(CheckSnapshot(change.load().id(), change.load().snapshot()));
      return Loaded{.job = job, .id = change.load().id()};
    case v1::Change::ACTION_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("action: none that is known at feature level ", kFeatureLevel));
}

absl::StatusOr<Parsed> Parse(const v1::Change& change, size_t segments) {
  ABSL_ASSIGN_OR_RETURN(const log::Subject subject, log::SubjectFromProto(change.subject()));
  ABSL_ASSIGN_OR_RETURN(ChangeAction action, ActionOf(change, segments));
  return Parsed{.change = change,
                .begin = {.subject = subject, .number = change.number(), .floor = change.floor()},
                .action = std::move(action)};
}

// Of one segment.
struct Outcome {
  bool committed = false;
  bool late = false;
  std::string why;
  std::optional<Clock> passed;
  std::optional<v1::SnapshotFile> file;
  std::optional<v1::ChangeReply::Failure> failure;
  bool to_load = false;
};

// Makes the change at a primary. True: it is committed there.
class Maker {
 public:
  Maker(const v1::Change& change, log::Primary& primary, SnapshotTasks* snapshots, Outcome& outcome)
      : change_(change), primary_(primary), snapshots_(snapshots), outcome_(outcome) {}

  bool operator()(const OfSession& session) const {
    const clock::LineCounts& seals = session.seals[primary_.segment().id().v];
    return primary_.Change(change_, seals, &outcome_.why, &outcome_.passed);
  }
  bool operator()(const log::DropTable& drop) const { return primary_.Change(drop, &outcome_.why); }
  bool operator()(const log::CloseJob& close) const { return primary_.Change(close, &outcome_.why); }
  bool operator()(const log::ChangeRule& rates) const {
    return primary_.Change(rates, &outcome_.why, &outcome_.passed);
  }
  bool operator()(const log::CutWish& wish) const {
    if (!primary_.Change(wish, &outcome_.why, &outcome_.passed)) return false;
    SnapshotTasks::Answer answer = snapshots_->Write(primary_, change_);
    outcome_.why = std::move(answer.why);
    outcome_.file = std::move(answer.file);
    outcome_.failure = std::move(answer.failure);
    return answer.done;
  }
  bool operator()(const Loaded& loaded) const {
    const bool done = primary_.Loaded(loaded.job, loaded.id, &outcome_.why);
    outcome_.to_load = primary_.segment().SnapshotsOf(loaded.job).loaded < loaded.id;
    return done;
  }

 private:
  const v1::Change& change_;
  log::Primary& primary_;
  SnapshotTasks* const snapshots_;
  Outcome& outcome_;
};

void Make(const Parsed& parsed, log::Primary& primary, SnapshotTasks* snapshots, Outcome& outcome) {
  if (!primary.TakeUp(parsed.begin, &outcome.why, &outcome.late)) return;
  outcome.committed = std::visit(Maker(parsed.change, primary, snapshots, outcome), parsed.action) &&
                      primary.TakenUp(parsed.begin, &outcome.why);
}

v1::ChangeReply::Failure Failure(uint32_t segment, absl::string_view why) {
  v1::ChangeReply::Failure failure;
  failure.set_segment(segment);
  failure.set_why(std::string(why));
  return failure;
}

// Begins to load the segments that lack their rows. If the load has failed it says why instead.
void GoOnLoading(SnapshotTasks& snapshots, const v1::Change& change, std::vector<Outcome>& outcomes) {
  std::set<uint32_t> segments;
  for (uint32_t s = 0; s < outcomes.size(); ++s) {
    if (outcomes[s].to_load) segments.insert(s);
  }
  if (segments.empty()) return;
  const absl::Status failed = snapshots.LoadFailure(change);
  if (failed.ok()) return snapshots.Load(change, std::move(segments));
  outcomes[*segments.begin()].failure = Failure(*segments.begin(), failed.message());
}

v1::ChangeReply ReplyOf(const std::vector<Outcome>& outcomes) {
  constexpr int kWaitsMax = 4;
  v1::ChangeReply reply;
  for (uint32_t s = 0; s < outcomes.size(); ++s) {
    const Outcome& outcome = outcomes[s];
    if (outcome.committed) reply.add_committed(s);
    if (outcome.late) reply.add_late(s);
    if (outcome.passed.has_value()) {
      auto* passed = reply.add_passed();
      passed->set_segment(s);
      passed->set_clock(*outcome.passed);
    }
    if (outcome.file.has_value()) *reply.add_files() = *outcome.file;
    if (outcome.failure.has_value()) *reply.add_failures() = *outcome.failure;
    if (!outcome.why.empty() && reply.waits_size() < kWaitsMax) reply.add_waits(outcome.why);
  }
  return reply;
}

}  // namespace

std::string Shard::WhyNotObeyed(const v1::Change& change) const {
  const auto now = view();
  if (change.term() != 0 && change.term() < now->term && !Planted(Bug::kDeposedObeyed)) {
    return absl::StrCat("the call is of term ", change.term(), ", ", options().name,
                        " knows of the coordinator of term ", now->term);
  }
  return WhyTooOld(change.map_version());
}

void Shard::MakeChange(const v1::Change& change, std::function<void(absl::StatusOr<v1::ChangeReply>)> done) {
  if (absl::Status meant = CheckMeant(change); !meant.ok()) return done(std::move(meant));
  const size_t segments = view()->segments();
  absl::StatusOr<Parsed> parsed = Parse(change, segments);
  if (!parsed.ok()) return done(parsed.status());
  if (const std::string why = WhyNotObeyed(change); !why.empty()) {
    v1::ChangeReply reply;
    reply.set_map_version(view()->map_version().v);
    reply.add_waits(why);
    return done(std::move(reply));
  }
  if ((change.has_cut() || change.has_load()) && snapshots_ == nullptr) {
    v1::ChangeReply reply;
    *reply.add_failures() =
        Failure(0, absl::StrCat(options().name,
                                " was started without --snapshot-dir; give all shards and coordinators "
                                "the same directory"));
    return done(std::move(reply));
  }
  auto outcomes = std::make_shared<std::vector<Outcome>>(segments);
  context_.ForEachSegment(
      [this, outcomes, parsed = *std::move(parsed)](SegmentHost& host) {
        // The first map may have come in between; the answer leaves its segments out.
        if (host.primary() == nullptr || host.id().v >= outcomes->size()) return;
        host.primary()->SetNow(context_.clock().Now());
        Make(parsed, *host.primary(), snapshots_.get(), (*outcomes)[host.id().v]);
        host.Flush();
      },
      [this, outcomes, change, done = std::move(done)] {
        if (change.has_load()) GoOnLoading(*snapshots_, change, *outcomes);
        if (change.has_close() && snapshots_ != nullptr) snapshots_->Forget(JobId(change.job()));
        v1::ChangeReply reply = ReplyOf(*outcomes);
        reply.set_map_version(view()->map_version().v);
        done(std::move(reply));
      });
}

}  // namespace paceline::shard
