#include "bench/soak/recovery_probe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/status.h"
#include "libs/ring/placement.h"
#include "libs/world/real_clock.h"
#include "tools/paceline/coordinator.h"
#include "tools/paceline/lists.h"

namespace paceline::bench {
namespace {

constexpr char kJob[] = "recovery-probe";
constexpr char kTable[] = "probes";
constexpr absl::Duration kTimeout = absl::Minutes(1);

}  // namespace

absl::StatusOr<std::unique_ptr<RecoveryProbe>> RecoveryProbe::Open(const std::string& coordinator,
                                                                   int ring_bits, const std::string& record) {
  ABSL_ASSIGN_OR_RETURN(
      std::unique_ptr<Client> client,
      Client::Connect({.coordinator = coordinator, .job = kJob, .timeout = kTimeout, .record = record}));
  ABSL_ASSIGN_OR_RETURN(Table table, client->OpenOrCreate(kTable, Sparse{.rule = Add{}}));
  ABSL_ASSIGN_OR_RETURN(const v1::StatusReply status,
                        tool::Coordinator(coordinator).Status(absl::Seconds(5)));
  const v1::Table* known = tool::FindTable(status, kJob, kTable);
  if (known == nullptr) return absl::InternalError("the coordinator does not list the probes' table");
  ABSL_ASSIGN_OR_RETURN(const ring::Placement placement,
                        ring::Placement::Sparse(TableId(known->id()), ring_bits));
  std::unique_ptr<RecoveryProbe> probe(new RecoveryProbe(std::move(client), std::move(table)));
  size_t missing = size_t{1} << ring_bits;
  probe->keys_.assign(missing, UINT64_MAX);
  for (uint64_t key = 0; missing > 0; ++key) {
    uint64_t& of_segment = probe->keys_[placement.Of(key).v];
    if (of_segment != UINT64_MAX) continue;
    of_segment = key;
    --missing;
  }
  return probe;
}

absl::StatusOr<absl::Duration> RecoveryProbe::Measure(const std::vector<SegmentId>& segments,
                                                      absl::Time since) {
  std::vector<Future<void>> pushes;
  const float one = 1;
  for (SegmentId segment : segments) {
    pushes.push_back(
        table_.PushAsync(absl::MakeConstSpan(&keys_[segment.v], 1), absl::MakeConstSpan(&one, 1)));
  }
  for (size_t i = 0; i < pushes.size(); ++i) {
    const absl::Status status = std::move(pushes[i]).Get();
    if (status.ok()) continue;
    return absl::Status(status.code(), absl::StrCat("a push to segment ", segments[i].v,
                                                    " after a fault: ", std::string(status.message())));
  }
  return world::MonotonicNow() - since;
}

}  // namespace paceline::bench
