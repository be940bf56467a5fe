#pragma once

#include <map>
#include <optional>

#include "absl/status/status.h"
#include "libs/base/ids.h"
#include "libs/engine/engine.h"

namespace paceline::engine {

// For implementations: which records each segment's log consists of, by LSN alone, and whether a batch
// continues it. Plain value.
class LogOrder {
 public:
  // The records that are kept: first .. next - 1. Those up to `cut` may already be forgotten.
  struct Span {
    std::optional<Lsn> next;  // nullopt: any record may be the first
    Lsn cut;                  // of the base; the next record is the one after
    bool any = false;         // there are records after the base
  };

  // Takes the batch's operations into account. kInvalidArgument names the operation that does not fit; then
  // nothing has changed.
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
