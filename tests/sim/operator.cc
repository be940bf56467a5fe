#include "tests/sim/operator.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/plan.h"

namespace paceline::sim {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(2);
constexpr uint64_t kAnswersLost = 2;
constexpr std::array kJobs = {"job", "aside"};
// Powers of two, so that sums are exact.
constexpr std::array kRates = {0.25f, 0.5f, 1.0f, 2.0f, 4.0f};

}  // namespace

Operator::Operator(World& world, SimCoordinator& coordinator, uint32_t operations, bool bounds, bool deletes)
    : world_(world),
      coordinator_(coordinator),
      api_(world, coordinator, host_),
      operations_(operations),
      bounds_(bounds),
      deletes_(deletes) {}

void Operator::Begin() {
  world_.scheduler.After(world_.Between(absl::Milliseconds(100), absl::Milliseconds(400)),
                         [this] { Next(); });
}

void Operator::Next() {
  if (stopped_ || operations_ == 0) return;
  --operations_;
  if (deletes_ && operations_ == 1) return Delete();
  world_.Chance(0.4) ? Drop() : ChangeRates();
}

const TrueTable* Operator::AnyTable(Purpose purpose) {
  std::vector<const TrueTable*> living;
  for (const auto& [id, table] : world_.truth.tables()) {
    // Not of jobs that were made of snapshots: these are to stay as they are.
    if (table.purpose == purpose && !world_.truth.IsDropped(id) && !NameOf(table.job).empty())
      living.push_back(&table);
  }
  return living.empty() ? nullptr : living[world_.Below(living.size())];
}

std::string Operator::NameOf(JobId job) const {
  for (const char* name : kJobs) {
    if (world_.truth.JobNamed(name) == job) return name;
  }
  return "";
}

void Operator::Do(std::string what, std::function<void(Ended)> ask) {
  idle_ = false;
  doing_ = std::move(what);
  world_.Trace(absl::StrCat("operator: ", doing_));
  ask([this, ask](const absl::Status& status) {
    const bool again =
        absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsDataLoss(status);
    if (again) {
      return world_.scheduler.After(absl::Milliseconds(100), [this, ask] { Do(doing_, ask); });
    }
    // The job, or the table, may have gone meanwhile; a wished clock may have to wait.
    const bool expected = status.ok() || absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
                          absl::IsPermissionDenied(status);
    if (!expected)
      world_.verdict.Violated("Progress", absl::StrCat("operator: ", doing_, ": ", status.ToString()));
    world_.Trace(absl::StrCat("operator: ", doing_, ": ", status.ToString()));
    doing_ = "nothing";
    idle_ = true;
    world_.scheduler.After(world_.Between(absl::Milliseconds(10), absl::Milliseconds(250)),
                           [this] { Next(); });
  });
}

void Operator::Drop() {
  const TrueTable* table = AnyTable(Purpose::kScratch);
  if (table == nullptr) return Begin();
  v1::DropTableRequest request;
  request.set_job(NameOf(table->job));
  request.set_table(table->id.v);
  Do(absl::StrCat("drop table ", table->id.v), [this, request](Ended ended) {
    api_.DropTable(request, kTimeout, [ended](auto reply) { ended(reply.status()); });
  });
}

void Operator::ChangeRates() {
  const TrueTable* table = AnyTable(Purpose::kRates);
  if (table == nullptr) return Begin();
  v1::ChangeRuleRequest request;
  request.set_job(NameOf(table->job));
  request.set_table(table->id.v);
  request.mutable_rule()->mutable_sgd()->set_learning_rate(kRates[world_.Below(kRates.size())]);
  const uint64_t when = world_.Below(5);
  if (when == 0) request.set_now(true);
  if (when == 1) {
    request.set_at_clock(world_.invariants.ledger(SegmentId(0)).MinClock(table->job) + world_.Below(12));
  }
  if (bounds_ && world_.Chance(0.8)) request.set_bound(1 + static_cast<uint32_t>(world_.Below(kBoundMost)));
  Do(absl::StrCat("change rates: ", request.ShortDebugString()), [this, request](Ended ended) {
    api_.ChangeRule(request, kTimeout, [ended](auto reply) { ended(reply.status()); });
  });
}

// By the id that the job has now.
void Operator::Delete() {
  const JobId meant = coordinator_.JobNamed("aside");
  if (meant == JobId()) {
    ++operations_;
    return Begin();
  }
  v1::DeleteJobRequest request;
  request.set_job("aside");
  request.set_job_id(meant.v);
  request.set_nonce(1 + world_.Below(UINT64_MAX));
  request.set_force(true);
  world_.invariants.OnDeletionAsked(meant);
  Do(absl::StrCat("delete job aside, which is ", meant.v), [this, request, meant](Ended ended) {
    if (world_.truth.JobNamed("aside") != meant)
      world_.marks.Hit("a deletion is repeated when another job has the name");
    api_.DeleteJob(request, kTimeout, [this, ended](auto reply) { ended(OnDeleted(reply.status())); });
  });
}

absl::Status Operator::OnDeleted(const absl::Status& status) {
  if (deleted_ > 0 && (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)))
    world_.verdict.Violated("Meant", absl::StrCat("the second answer to ", doing_, ": ", status.ToString()));
  if (!status.ok() || deleted_ == kAnswersLost) return status;
  ++deleted_;
  return absl::UnavailableError("the answer is lost");
}

}  // namespace paceline::sim
