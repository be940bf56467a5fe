// Reductions: pulls of partial results.
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/cpp/src/pull/reducing.h"
#include "sdk/cpp/src/session/client_core.h"
#include "sdk/cpp/src/session/promise.h"

namespace paceline::sdk {
namespace {

constexpr uint32_t kReductionLevel = 2;

// Waits for the end of the pull.
class ReductionSink : public PullSink {
 public:
  using Ended = absl::AnyInvocable<void(absl::StatusOr<table::Partial>)>;
  ReductionSink(std::shared_ptr<const Reducing> reducing, Ended ended)
      : reducing_(std::move(reducing)), ended_(std::move(ended)) {}

  void Rows(absl::Span<const Stretch>, const absl::Cord&) override {}
  void Done(absl::Status status) override {
    if (!status.ok()) return ended_(std::move(status));
    ended_(reducing_->Whole());
  }

 private:
  const std::shared_ptr<const Reducing> reducing_;
  Ended ended_;
};

}  // namespace

void ClientCore::Reduce(ReduceCall call) {
  absl::Status may = context_.failure;
  if (may.ok()) {
    may = table::CheckQuery(call.table->schema, call.query);
    if (!may.ok()) may = {may.code(), absl::StrCat(call.table->Name(), ": ", may.message())};
  }
  if (may.ok() && IsBounded(call.table->consistency)) {
    may = absl::FailedPreconditionError(
        absl::StrCat("reduction of ", call.table->Name(),
                     ": reductions are under no value bound, the table's model is Vap: pull its rows"));
  }
  const uint32_t level = may.ok() ? context_.routes->map.feature_level() : kReductionLevel;
  if (level < kReductionLevel) {
    may = absl::UnimplementedError(
        absl::StrCat("reduction of ", call.table->Name(), ": needs shards of feature level ", kReductionLevel,
                     "; some shard of this cluster speaks level ", level, ": upgrade it"));
  }
  if (!may.ok()) {
    context_.deferred.Run([ended = std::move(call.ended), may]() mutable { ended(may); });
    return;
  }
  const std::vector<SegmentId> segments = SegmentsOf(call.table->placement, call.query);
  const auto reducing = std::make_shared<Reducing>(call.query, segments.size());
  Pull({.table = call.table,
        .batch = BatchOf(segments, call.query, AllocateFresh),
        .reducing = reducing,
        .priority = call.priority,
        .timeout = call.timeout,
        .sink = std::make_shared<ReductionSink>(reducing, std::move(call.ended))},
       call.min_clock);
}

}  // namespace paceline::sdk
