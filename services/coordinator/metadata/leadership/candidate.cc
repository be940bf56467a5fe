#include "services/coordinator/metadata/leadership/candidate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/base/version.h"
#include "services/coordinator/metadata/facts/keys.h"
#include "services/coordinator/metadata/facts/text.h"

namespace paceline::coordinator {
namespace {

// How many times per lease the leader renews its record, and how many times the others look at it.
constexpr int kConfirms = 5;
constexpr int kLooks = 10;

}  // namespace

Candidate::Candidate(Options options, Store& store, const world::Clock& clock, ShardCaller& caller,
                     Probe& probe, OnStepDown on_step_down)
    : options_(std::move(options)),
      store_(store),
      clock_(clock),
      caller_(caller),
      probe_(probe),
      on_step_down_(std::move(on_step_down)) {}

absl::Status Candidate::Start() {
  ABSL_RETURN_IF_ERROR(Validate(options_));
  return Shared() ? absl::OkStatus() : Lead(std::nullopt);
}

bool Candidate::Confirmed() const {
  return core_ != nullptr && (!Shared() || clock_.Now() - confirmed_ < options_.leader_lease);
}

absl::Status Candidate::Lead(std::optional<uint64_t> instead_of) {
  const absl::Time asked = clock_.Now();
  ABSL_ASSIGN_OR_RETURN(core_,
                        CoordinatorCore::Create(
                            options_, store_, clock_, caller_, probe_,
                            {.address = address_, .lease = options_.leader_lease, .instead_of = instead_of}));
  terms_ += 1;
  last_term_ = core_->term();
  confirmed_ = asked;
  next_try_ = asked + options_.leader_lease / kConfirms;
  seen_.reset();
  trouble_ = absl::OkStatus();
  if (Shared()) probe_.LeadBegan(last_term_);
  return absl::OkStatus();
}

// -- while it leads --

void Candidate::Confirm(absl::Time now) {
  const absl::Status status = core_->ConfirmLead(address_);
  if (status.ok()) {
    confirmed_ = now;
    next_try_ = now + options_.leader_lease / kConfirms;
    return;
  }
  next_try_ = now + options_.leader_lease / kLooks;
  if (core_->deposed() || !Confirmed()) StepDown(status);
}

void Candidate::StepDown(const absl::Status& why) {
  const bool deposed = core_->deposed();
  probe_.LeadEnded(last_term_, why);
  next_try_ = clock_.Now();
  if (!deposed) {
    trouble_ = why;
    troubled_since_ = clock_.Now();
  }
  const std::unique_ptr<CoordinatorCore> core = std::move(core_);
  core->Stop(StandsBy());
  if (on_step_down_) on_step_down_(StandsBy());
}

// -- while it stands by --

void Candidate::Look() {
  next_try_ = clock_.Now() + options_.leader_lease / kLooks;
  const auto entry = store_.Get(keys::kLeader);
  const absl::Time now = clock_.Now();
  absl::Status status = entry.status();
  if (status.ok()) {
    Seen seen{.version = entry->has_value() ? (*entry)->version : 0, .record = {}, .since = now};
    if (entry->has_value() && !seen.record.ParseFromString((*entry)->value)) {
      status =
          absl::DataLossError(absl::StrCat("store: the value of key ", keys::kLeader, " is no LeaderRecord"));
    } else if (const absl::Status wrong = CheckAddress("store: the leader's address", seen.record.address());
               entry->has_value() && !wrong.ok()) {
      status = absl::DataLossError(wrong.message());  // clients are told this error
    } else if (!seen_.has_value() || seen_->version != seen.version) {
      seen_ = seen;
    }
  } else {
    // The leader cannot have renewed its record either, so it gets the whole lease again.
    seen_.reset();
    probe_.StoreFailed(status);
  }
  if (status.ok() && Vacant(now)) status = Lead(seen_->version);
  if (status.ok() || absl::IsAborted(status)) {
    trouble_ = absl::OkStatus();
  } else {
    if (trouble_.ok()) troubled_since_ = now;
    trouble_ = status;
  }
}

bool Candidate::Vacant(absl::Time now) const {
  // There is no leader, or the record is this coordinator's own and nobody has replaced it.
  if (seen_->version == 0 || seen_->record.term() == last_term_) return true;
  const absl::Duration lease = absl::Milliseconds(seen_->record.lease_ms());
  return now - seen_->since >= std::max(lease, options_.leader_lease);
}

// -- time --

void Candidate::OnTime() {
  if (stopped_) return;
  if (!Shared()) return core_->OnTime();
  if (core_ == nullptr) {
    if (!address_.empty() && clock_.Now() >= next_try_) Look();
    return;
  }
  const absl::Time now = clock_.Now();
  if (now >= next_try_ || !Confirmed()) Confirm(now);
  if (core_ != nullptr && core_->deposed()) StepDown(absl::UnavailableError("another coordinator leads"));
  if (core_ != nullptr) core_->OnTime();
}

absl::Time Candidate::NextDeadline() const {
  if (stopped_) return absl::InfiniteFuture();
  if (core_ == nullptr) return address_.empty() ? absl::InfiniteFuture() : next_try_;
  if (!Shared()) return core_->NextDeadline();
  return std::min({next_try_, confirmed_ + options_.leader_lease, core_->NextDeadline()});
}

void Candidate::Stop() {
  if (stopped_) return;
  stopped_ = true;
  if (core_ == nullptr) return;
  core_->Stop();
  if (Shared() && !core_->deposed()) (void)core_->Resign();
}

// -- its answers --

std::string Candidate::LeaderAddress() const {
  if (core_ != nullptr || !seen_.has_value() || seen_->record.term() == last_term_) return "";
  return seen_->record.address();
}

std::string Candidate::Problem() const {
  if (core_ != nullptr && !Confirmed()) {
    return "this coordinator no longer leads: it could not renew its leadership in the store in time";
  }
  if (!trouble_.ok()) {
    return absl::StrCat(
        "no coordinator can lead from here, for ", Seconds(clock_.Now() - troubled_since_),
        " now: ", trouble_.message(),
        ". What is open goes on; nothing can be opened, joined or closed, and nobody takes over "
        "from a shard that is lost, until a coordinator leads");
  }
  if (!seen_.has_value() || seen_->version == 0)
    return "the leading coordinator is not known at the moment; try again";
  return "";
}

absl::Status Candidate::StandsBy() const {
  if (stopped_) return absl::UnavailableError("the coordinator is stopping; try again when it is back");
  const std::string problem = Problem();
  if (!problem.empty()) return absl::UnavailableError(problem);
  return absl::UnavailableError(absl::StrCat("this coordinator stands by; the one at ",
                                             seen_->record.address(), " leads, in term ",
                                             seen_->record.term(), ": ask that one"));
}

v1::StatusReply Candidate::Status() {
  v1::StatusReply reply;
  if (CoordinatorCore* core = leader()) {
    reply = core->Status();
    reply.set_term(core->term());
    reply.set_leader(address_);
  } else {
    reply.set_version(std::string(kVersion));
    reply.set_feature_level(kFeatureLevel);
    reply.set_standby(true);
    reply.set_leader(LeaderAddress());
    if (seen_.has_value()) reply.set_term(seen_->record.term());
    const std::string problem = Problem();
    if (!problem.empty()) reply.add_problems(problem);
  }
  reply.set_coordinator(address_);
  return reply;
}

Gauges Candidate::gauges() {
  Gauges gauges;
  if (CoordinatorCore* core = leader()) {
    gauges = core->gauges();
    gauges.leads = true;
  } else if (seen_.has_value()) {
    gauges.term = seen_->record.term();
  }
  return gauges;
}

}  // namespace paceline::coordinator
