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
#include "services/coordinator/metadata/coordinator_core.h"
#include "services/coordinator/metadata/options.h"
#include "services/coordinator/metadata/probe.h"
#include "services/coordinator/metadata/shard_caller.h"
#include "services/coordinator/store/store.h"

namespace paceline::coordinator {

// One coordinator among several on a store: it stands by while another one leads, leads when nobody does, and
// steps down when it can no longer tell.
//
// The leader's record in the store is written anew several times a lease (Options::leader_lease). Who stands
// by looks at it, and takes the next term when it has seen one and the same version of it for the length of
// the lease, or none at all. Time decides only who tries when: that two do not lead is the term's doing, on
// which every commit is conditioned (Facts). A leader that could not renew its record for the length of the
// lease answers nobody any more, for clients would tell it that they live, and not the next one; it forgets
// all it knew and stands by.
//
// With a lease of 0 the store is this coordinator's alone: it leads from Start on, and writes no record anew.
//
// Single owner, like CoordinatorCore, and blocks on the store like it.
class Candidate {
 public:
  // Called when this one no longer leads, with what clients are to be told; all that waited at the core was.
  using OnStepDown = std::function<void(const absl::Status& why)>;

  // What is passed by reference must outlive the candidate.
  Candidate(Options options, Store& store, const world::Clock& clock, ShardCaller& caller, Probe& probe,
            OnStepDown on_step_down = nullptr);

  // Leads, if the store is its own: fails as CoordinatorCore::Create does. Otherwise stands by. OK, whatever
  // becomes of the election. kInvalidArgument: an option is wrong.
  absl::Status Start();
  // HOST:PORT where clients find it, told to the others from its next record on. Until it has one it stands
  // by.
  void Advertise(std::string address) { address_ = std::move(address); }

  // The core; nullptr: this one stands by. Good until the next call of OnTime or Stop.
  CoordinatorCore* leader() { return Confirmed() ? core_.get() : nullptr; }
  // What those are told who ask while it stands by. UNAVAILABLE: who leads, or why nobody does.
  absl::Status StandsBy() const;
  // Where the leader was last known to be, if that is another one; may be empty.
  std::string LeaderAddress() const;
  // The terms this one has led: as long as it is the same, so is leader().
  uint64_t terms() const { return terms_; }

  // At all times; of the cluster only while it leads.
  v1::StatusReply Status();
  Gauges gauges();

  // Looks, renews, takes over, steps down, and lets the core's time pass. Call at NextDeadline() or a little
  // later.
  void OnTime();
  absl::Time NextDeadline() const;

  // Answers everything that waits, and resigns, so that another one leads at once. Nothing comes after it.
  void Stop();

 private:
  // A version of the leader's record, and since when it is the one.
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
  // Nobody can mind if this one takes the next term.
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
  uint64_t last_term_ = 0;  // that this one has led
  absl::Time confirmed_ = absl::InfinitePast();
  absl::Time next_try_ = absl::InfinitePast();  // to confirm, or to look
  std::optional<Seen> seen_;                    // nullopt: the store has not said yet, or not lately
  absl::Status trouble_;                        // why this one cannot see, or take, the leader's place
  absl::Time troubled_since_;
  bool stopped_ = false;
};

}  // namespace paceline::coordinator
