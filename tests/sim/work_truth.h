#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/ids.h"
#include "libs/sim/marks.h"
#include "paceline/v1/coordinator.pb.h"
#include "paceline/work.h"
#include "tests/sim/invariants.h"
#include "tests/sim/truth.h"
#include "tests/sim/verdict.h"

namespace paceline::sim {

// What the workers of a simulated cluster did with the items of its work queue, whatever the coordinator
// believes; and the invariant Work: every example is trained, and once but for what the coordinator counts.
class WorkTruth {
 public:
  WorkTruth(Verdict& verdict, Truth& truth, const Invariants& invariants, Marks& marks)
      : verdict_(verdict), truth_(truth), invariants_(invariants), marks_(marks) {}

  static v1::WorkSpec Spec();
  // Passes are in order, or not: that spec, with it.
  void SetInOrder(bool in_order) { in_order_ = in_order; }
  v1::WorkSpec SpecInOrder() const;

  // The user was given the item. Whoever had begun it before is closed in every segment or has given it back,
  // and what is not to be trained again is in the log.
  void OnBegun(SessionId session, const WorkItem& item);
  // The user pushes one part for the example, as its push number `push` of Truth.
  void OnTrained(SessionId session, const WorkItem& item, uint64_t example, uint64_t push);
  // The user will do no more of what it has begun.
  void OnGivenBack(SessionId session);
  // The user was told that the queue is complete.
  void OnComplete();

  // When the cluster is quiet.
  void Check(const v1::WorkStatus& status);

 private:
  struct Trained {
    SessionId session;
    uint64_t push = 0;
  };
  // The push's part is in its segment's log.
  bool Logged(const Trained& trained);
  uint64_t TimesLogged(uint64_t pass, uint64_t example);
  void CheckPassBefore(const WorkItem& item);
  bool ClosedEverywhere(SessionId session) const;

  Verdict& verdict_;
  Truth& truth_;
  const Invariants& invariants_;
  Marks& marks_;
  bool in_order_ = false;
  std::map<uint64_t, std::set<SessionId>> begun_;  // by item; those who have not given it back
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Trained>> trained_;  // by pass and example
};

}  // namespace paceline::sim
