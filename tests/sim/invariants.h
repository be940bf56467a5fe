#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/log/primary.h"
#include "libs/log/record.h"
#include "libs/log/segment.h"
#include "libs/ring/segment_map.h"
#include "libs/sim/marks.h"
#include "libs/wire/packed.h"
#include "tests/sim/ledger.h"
#include "tests/sim/truth.h"
#include "tests/sim/verdict.h"

namespace paceline::sim {

// The invariants of docs/simulation.md, one function each, checked on what a step touched. They know the
// truth and the logs; the cluster is taken at its word nowhere.
class Invariants {
 public:
  Invariants(Verdict& verdict, Truth& truth, Marks& marks, uint32_t segments)
      : verdict_(verdict), truth_(truth), marks_(marks), ledgers_(segments) {}

  // -- what happens --
  void OnLogged(const ring::Member& by, const log::Segment& after, Epoch epoch, const log::Record& record);
  // A primary's word on the counting of its workers' ticks, after a frame.
  void OnCounted(const log::Segment& segment);
  // A segment was adopted.
  void OnAdopted(const log::Segment& state, Epoch epoch);
  // A shard has sent, or a client has received, an acknowledgement.
  void OnMarkSent(SessionId session, const wire::Mark& mark);
  void OnMarkReceived(SessionId session, const wire::Mark& mark);
  // A shard has sent a certificate for what was asked.
  void OnCertificateSent(const ring::Member& by, const wire::Certificate& certificate, Clock asked_min_clock,
                         PartNumber asked_own);
  // A user has got the values of `read`, `dim` a key.
  void OnRead(const TrueRead& read, uint32_t dim, const std::vector<float>& values);
  // A client has failed with `why`.
  void OnFailed(SessionId session, const absl::Status& why);
  // At a quiet point.
  void OnQuiet(const log::Segment& segment);

  const SegmentLedger& ledger(SegmentId segment) const { return ledgers_[segment.v]; }

  // -- one each --
  void OnePrimary(const ring::Member& by, SegmentId segment, Epoch epoch);
  void AckLogged(SessionId session, const wire::Mark& mark, const char* when);
  void Once(const SegmentLedger& ledger, SegmentId segment, const log::Update& update);
  void NumberOrder(const SegmentLedger& ledger, SegmentId segment, const log::Update& update);
  void Sealed(const log::Segment& segment, SessionId session, Clock clock, const char* why);
  void MinClock(SegmentId segment, Clock min_clock);
  void ReadBound(SegmentId segment, Clock min_clock, Clock asked);
  void OwnWrites(SegmentId segment, PartNumber own, PartNumber asked);
  void Values(const TrueRead& read, uint64_t key, uint32_t column, float value);
  void Fenced(const SegmentLedger& ledger, SegmentId segment, SessionId session, const char* record);
  void Join(const SegmentLedger& ledger, SegmentId segment, const log::Join& join);
  void Below(const SegmentLedger& ledger, SegmentId segment, const log::Update& update);
  void Sums(const log::Segment& segment, const log::Segment::Table& table);

 private:
  void On(const log::OpenTable&, const log::Segment&, SegmentLedger&) {}
  void On(const log::OpenSession& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Join& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Finish& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Evict& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Advance& record, const log::Segment& after, SegmentLedger& ledger);
  void On(const log::Update& record, const log::Segment& after, SegmentLedger& ledger);

  Verdict& verdict_;
  Truth& truth_;
  Marks& marks_;
  std::vector<SegmentLedger> ledgers_;
};

}  // namespace paceline::sim
