#pragma once

#include <map>
#include <optional>

#include "absl/status/status.h"
#include "libs/base/ids.h"
#include "libs/engine/engine.h"

namespace paceline::engine {

// For implementations: which records each segment's log consists of, by their LSNs alone, and whether a batch
// fits behind them. Plain value.
class LogOrder {
 public:
  // The records that are kept: first .. next - 1, of those some up to `cut` may be forgotten.
  struct Span {
    std::optional<Lsn> next;  // nullopt: any record may be the first
    Lsn cut;                  // of the base; what comes first is the one after
    bool any = false;         // there are records after the base
  };

  // As the batch's operations would leave it; kInvalidArgument naming what does not fit, with nothing
  // changed.
  absl::Status Take(const Batch& batch);
  Span Of(SegmentId segment) const;

  // While loading.
  void LoadBase(SegmentId segment, Lsn lsn);
  absl::Status LoadRecord(SegmentId segment, Lsn lsn);

 private:
  static absl::Status Apply(const Batch::Operation& operation, std::map<SegmentId, Span>& spans);

  std::map<SegmentId, Span> spans_;
};

}  // namespace paceline::engine
