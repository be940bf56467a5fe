#include "services/coordinator/metadata/facts/options.h"

#include "absl/strings/str_cat.h"

namespace paceline::coordinator {

absl::Status Validate(const Options& options) {
  if (options.shards < 1 || options.shards > options.limits.shards) {
    return absl::InvalidArgumentError(
        absl::StrCat("shards: ", options.shards, "; expected 1 to ", options.limits.shards));
  }
  if (options.ring_bits < 0 || options.ring_bits > ring::kRingBitsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("ring_bits: ", options.ring_bits, "; expected 0 to ", ring::kRingBitsMax));
  }
  if (options.shards > uint32_t{1} << options.ring_bits) {
    return absl::InvalidArgumentError(
        absl::StrCat("shards: ", options.shards, " for a ring of ", uint32_t{1} << options.ring_bits,
                     " segments, so that some would own nothing; choose fewer shards or more ring bits"));
  }
  if (options.replicas > options.limits.replicas) {
    return absl::InvalidArgumentError(absl::StrCat("replicas: ", options.replicas, "; expected 0 to ",
                                                   options.limits.replicas, ", on replicas + 1 shards"));
  }
  if (options.leader_lease != absl::ZeroDuration() && options.leader_lease < absl::Milliseconds(500)) {
    return absl::InvalidArgumentError(
        absl::StrCat("leader_lease: ", absl::FormatDuration(options.leader_lease),
                     "; expected at least 500ms, in which a leader renews it several times, or 0"));
  }
  if (options.keep_alive <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("keep_alive: ", absl::FormatDuration(options.keep_alive), "; expected more than 0"));
  }
  if (options.session_timeout < 2 * options.keep_alive) {
    return absl::InvalidArgumentError(
        absl::StrCat("session_timeout: ", absl::FormatDuration(options.session_timeout),
                     "; expected at least twice keep_alive, ", absl::FormatDuration(options.keep_alive),
                     ": one lost sign of life must not evict a session"));
  }
  return absl::OkStatus();
}

}  // namespace paceline::coordinator
