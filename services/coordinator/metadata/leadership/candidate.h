#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/world/clock.h"
#include "metadata/records.pb.h"
#include "paceline/v1/coordinator.pb.h"
#include "services/coordinator/metadata/changes/shard_caller.h"
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/metadata/facts/options.h"
#include "services/coordinator/metadata/facts/probe.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

// One of several coordinators on one store. It stands by while another one leads, leads when no other does,
// and steps down when it can no longer be sure that it leads.
//
// The leader rewrites its record in the store several times per lease (Options::leader_lease). A coordinator
// that stands by watches the record. It takes the next term once it has seen the same version of the record,
// or none, for the length of the lease. Time only decides who tries when: the term alone keeps two
// coordinators from leading, since every commit is conditioned on it (Facts). A leader that could not renew
// its record for the length of the lease stops answering: clients would send it their signs of life, which
// the next leader would miss. It then forgets all that it knew and stands by.
//
// With a lease of 0 this coordinator owns the store: it leads from Start on, and does not renew a record.
//
// Single owner, like CoordinatorCore, and like it blocks on the store.
//
// More than 15 members: what the core that it makes needs, beside its own terms and times.
class Candidate {
 public:
  // Called when this coordinator stops leading, with the error for clients. All requests that waited at the
  // core were answered.
  using OnStepDown = std::function<void(const absl::Status& why)>;

  // The objects passed by reference must outlive the candidate.
  Candidate(Options options, Store& store, const world::Clock& clock, ShardCaller& caller, Probe& probe,
            OnStepDown on_step_down = nullptr);

  // Leads at once if it owns the store: then fails as CoordinatorCore::Create does. Otherwise stands by, and
  // returns OK, elected or not. kInvalidArgument: an option is wrong.
  absl::Status Start();
  // Sets the HOST:PORT under which clients reach this coordinator; the others learn it from its next record.
  // Without an address it stands by.
  void Advertise(std::string address) { address_ = std::move(address); }

  // The core; nullptr: this coordinator stands by. Valid until the next call of OnTime or Stop.
  CoordinatorCore* leader() { return Confirmed() ? core_.get() : nullptr; }
  // The answer to requests while this coordinator stands by. UNAVAILABLE names the leader, or says why there
  // is none.
  absl::Status StandsBy() const;
  // The last known address of the leader, if that is another coordinator; may be empty.
  std::string LeaderAddress() const;
  // How many terms this coordinator has led. While the number is unchanged leader() is the same core.
  uint64_t terms() const { return terms_; }

  // Available at all times; they describe the cluster only while this coordinator leads.
  v1::StatusReply Status();
  Gauges gauges();

  // Watches or renews the leader's record, takes over, steps down, and calls the core's OnTime. Call at
  // NextDeadline() or a little later.
  void OnTime();
  absl::Time NextDeadline() const;

  // Answers all waiting requests, and resigns, so that another coordinator can lead at once. The last call.
  void Stop();

 private:
  // A version of the leader's record, and the time at which it was first seen.
  struct Seen {
    uint64_t version = 0;
    LeaderRecord record;
    absl::Time since;
  };

  bool Shared() const { return options_.leader_lease > absl::ZeroDuration(); }
  bool Confirmed() const;
  absl::Status Lead(std::optional<uint64_t> instead_of);
  void Confirm(absl::Time now);
  void StepDown(const absl::Status& why);
  void Look();
  // True if this coordinator may take the next term.
  bool Vacant(absl::Time now) const;
  std::string Problem() const;

  const Options options_;
  Store& store_;
  const world::Clock& clock_;
  ShardCaller& caller_;
  Probe& probe_;
  const OnStepDown on_step_down_;
  std::string address_;

  std::unique_ptr<CoordinatorCore> core_;
  uint64_t terms_ = 0;
  uint64_t last_term_ = 0;  // the last term that it has led
  absl::Time confirmed_ = absl::InfinitePast();
  absl::Time next_try_ = absl::InfinitePast();  // to confirm, or to watch
  std::optional<Seen> seen_;                    // nullopt: the store has not answered yet, or not lately
  absl::Status trouble_;                        // why it cannot see, or take, the leader's place
  absl::Time troubled_since_;
  bool stopped_ = false;
};

}  // namespace paceline::coordinator
