#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/types/span.h"
#include "libs/filter/coder.h"
#include "libs/filter/filter.h"
#include "libs/world/clock.h"
#include "sdk/cpp/src/pull/pull_op.h"
#include "sdk/cpp/src/session/table_info.h"

namespace paceline::sdk {

// What a reply's rows may be coded with: what the pull wants, and the shard may do.
inline filter::FilterSet RowFiltersOf(const PullCall& call, filter::FilterSet agreed) {
  filter::FilterSet filters = call.table->link_filters.pull & agreed & filter::FilterSet::OfValues();
  if (call.rounded) return filters;
  for (const auto rounds : {filter::Filter::kF16, filter::Filter::kBf16, filter::Filter::kInt8}) {
    filters.Remove(rounds);
  }
  return filters;
}

// Rows as the shard has sent them become what the request's caller gets. INVALID_ARGUMENT: they cannot be
// read.
inline absl::Status DecodeRows(const PullRequest& request, absl::Span<const uint32_t> applied,
                               const world::Clock& clock, filter::Observer& observer, absl::Cord& values) {
  if (applied.empty() || request.op->ended) return absl::OkStatus();
  const absl::StatusOr<filter::FilterSet> filters =
      filter::AppliedOf(applied, request.op->call.table->link_filters.pull & filter::FilterSet::OfValues());
  if (!filters.ok()) return filters.status();
  const Batch& batch = *request.op->call.batch;
  size_t bytes_max = 0;
  for (const PullRequest::Asked& asked : request.parts)
    bytes_max += batch.ValueBytes(batch.pieces[asked.part]);
  return filter::DecodeValues(*filters, bytes_max, values, clock, observer);
}

}  // namespace paceline::sdk
