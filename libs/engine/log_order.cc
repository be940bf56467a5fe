#include "libs/engine/log_order.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"

namespace paceline::engine {
namespace {

absl::Status TakeRecord(SegmentId segment, Lsn lsn, LogOrder::Span& span) {
  if (span.next.has_value() && *span.next != lsn) {
    return absl::InvalidArgumentError(absl::StrCat("log: record ", lsn.v, " of segment ", segment.v,
                                                   "; expected record ", span.next->v,
                                                   ": begin the segment anew after a gap"));
  }
  if (!span.next.has_value()) span.cut = Lsn(lsn.v - 1);
  span.next = Lsn(lsn.v + 1);
  span.any = true;
  return absl::OkStatus();
}

absl::Status TakeBase(const Batch::PutBase& base, LogOrder::Span& span) {
  if (span.next.has_value() && (base.lsn < span.cut || base.lsn >= *span.next)) {
    return absl::InvalidArgumentError(absl::StrCat("base: of segment ", base.segment.v, " as of record ",
                                                   base.lsn.v, "; the log has those after ", span.cut.v,
                                                   " up to ", span.next->v - 1));
  }
  span.cut = base.lsn;
  if (!span.next.has_value()) span.next = Lsn(base.lsn.v + 1);
  span.any = span.next->v > base.lsn.v + 1;
  return absl::OkStatus();
}

}  // namespace

absl::Status LogOrder::Apply(const Batch::Operation& operation, std::map<SegmentId, Span>& spans) {
  if (const auto* reset = std::get_if<Batch::Reset>(&operation)) spans[reset->segment] = {};
  if (const auto* entry = std::get_if<LogEntry>(&operation)) {
    return TakeRecord(entry->segment, entry->lsn, spans[entry->segment]);
  }
  if (const auto* base = std::get_if<Batch::PutBase>(&operation))
    return TakeBase(*base, spans[base->segment]);
  return absl::OkStatus();
}

absl::Status LogOrder::Take(const Batch& batch) {
  std::map<SegmentId, Span> spans = spans_;
  for (const Batch::Operation& operation : batch.operations()) ABSL_RETURN_IF_ERROR(Apply(operation, spans));
  spans_ = std::move(spans);
  return absl::OkStatus();
}

LogOrder::Span LogOrder::Of(SegmentId segment) const {
  const auto it = spans_.find(segment);
  return it == spans_.end() ? Span() : it->second;
}

void LogOrder::LoadBase(SegmentId segment, Lsn lsn) {
  spans_[segment] = {.next = Lsn(lsn.v + 1), .cut = lsn};
}

absl::Status LogOrder::LoadRecord(SegmentId segment, Lsn lsn) {
  return TakeRecord(segment, lsn, spans_[segment]);
}

}  // namespace paceline::engine
